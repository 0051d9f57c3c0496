"""The Square attack: random squares, judged by scores without gradients (Andriushchenko et al., ECCV 2020)."""

import math
from typing import Any

import eagerpy as ep
import torch
from foolbox.attacks.base import FixedEpsilonAttack
from foolbox.distances import linf
from torch import Tensor

from routebench.attacks._losses import margins
from routebench.attacks._victim import Victim

SHARE = 0.8
"""Share of the pixels that the first squares cover."""
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Queries of 10,000 after which that share is halved; other budgets in proportion."""


def side(query: int, queries: int, height: int, width: int) -> int:
    """Length of a square, in pixels, at a query counted from 0."""
    of_ten_thousand = query * 10_000 // queries
    share = SHARE / 2 ** sum(of_ten_thousand > after for after in HALVED_AFTER)
    return min(max(round(math.sqrt(share * height * width)), 1), height, width)


class Square(FixedEpsilonAttack):  # type: ignore[misc]  # foolbox comes without types
    """Square attack in the L-infinity ball on the difference of logits: algorithms 1 and 2 of arXiv:1912.00049.

    It starts from vertical stripes, and each query sets one square of an image to plus or minus eps in each channel;
    what brings another class closer is kept. Each image has squares of its own, and rests once it is misclassified.

    Args:
        queries: how often the network is asked about an image at most.
    """

    distance = linf

    def __init__(self, queries: int):
        self.queries = queries

    def run(self, model: Victim, inputs: Any, criterion: Any, *, epsilon: float, **_: Any) -> Any:
        """Runs as foolbox asks for it."""
        images, restore = ep.astensor_(inputs)
        labels = ep.astensor(criterion.labels).raw
        return restore(ep.astensor(self._search(model, images.raw, labels, epsilon)))

    def _search(self, model: Victim, images: Tensor, labels: Tensor, eps: float) -> Tensor:
        count, channels, height, width = images.shape
        found = (images + eps * _signs(images, (count, channels, 1, width))).clamp(0, 1)
        reached = margins(model.output(found).logits, labels)
        for query in range(1, self.queries):
            left = (reached <= 0).nonzero()[:, 0]
            if not len(left):
                break
            length = side(query - 1, self.queries, height, width)
            tried = _with_squares(found[left], images[left], eps, length)
            now = margins(model.output(tried).logits, labels[left])
            better = now > reached[left]
            found[left[better]], reached[left[better]] = tried[better], now[better]
        return found


def _with_squares(found: Tensor, images: Tensor, eps: float, length: int) -> Tensor:
    """One square of each image, anywhere within it, at plus or minus eps from the unattacked image."""
    count, channels, height, width = images.shape
    inside = torch.ones_like(images[:, :1], dtype=torch.bool)
    for axis, size in ((2, height), (3, width)):
        first = torch.randint(size - length + 1, (count,), device=images.device)[:, None]
        places = torch.arange(size, device=images.device)
        within = (places >= first) & (places < first + length)  # (image, size)
        inside = inside & (within[:, None, :, None] if axis == 2 else within[:, None, None, :])
    wanted = (images + eps * _signs(images, (count, channels, 1, 1))).clamp(0, 1)
    return torch.where(inside, wanted, found)


def _signs(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """-1 or 1, each as likely."""
    return 2 * torch.randint(2, shape, device=like.device).to(like.dtype) - 1
