"""Who competes with whom, one pair of a child and a parent at a time."""

from functools import partial
from itertools import product

import numpy as np
import torch


def softmax_over_parents(logits):
    """exp(b_ij) / sum_j exp(b_ij), over the last axis."""
    return logits.exp() / logits.exp().sum(dim=-1, keepdim=True)


def leaky_softmax_over_parents(logits):
    """The same with one more parent, whose logit is 0 and whose share goes nowhere."""
    return logits.exp() / (1 + logits.exp().sum(dim=-1, keepdim=True))


def on_a_grid(windows, axis, orphan=False):
    """Coupling of logits (image x position, child, parent), where `windows` lists the children of each position."""
    return partial(_couple, windows=windows, axis=axis, orphan=orphan)


def _couple(logits, windows, axis, orphan):
    rivals = torch.tensor(np.equal.outer(*[_contests(logits.shape, windows, axis)] * 2), dtype=logits.dtype)
    strength = logits.exp().flatten()
    return (strength / (rivals @ strength + int(orphan))).reshape(logits.shape)


def _contests(shape, windows, axis):
    """For each pair, a number for what its coupling is normalised with: pairs of one number add up to one."""
    lanes, children, parents = shape
    numbers = {}
    contests = []
    for lane, i, j in product(range(lanes), range(children), range(parents)):
        image, position = divmod(lane, len(windows))
        child = windows[position][i]
        name = {
            "types": (image, position, child),
            "types+positions": (image, child),
            "positions": (image, child, j),
            "children": (image, position, j),
        }[axis]
        contests.append(numbers.setdefault(name, len(numbers)))
    return np.array(contests)
