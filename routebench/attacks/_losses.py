"""Losses that a gradient attack climbs, or descends towards a target class."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from routebench.losses import loss_at_end
from routebench.models.network import Output

AttackLoss = Callable[[Output, Tensor], Tensor]
"""Loss from an output and labels (image), summed so that images do not weaken each other's gradient."""

ATTACKED = ("training", "cross-entropy", "difference")


def attack_loss(name: str, training: str) -> AttackLoss:
    """A loss by name.

    `training`: that the network was trained with, which Hinton et al. 2018 presumably attack. Margin and spread loss
    have a gradient of exactly zero once the margin is met. `cross-entropy`: of the logits; its gradient vanishes in
    float32 where the network is very sure. `difference`: the highest other logit minus the label's (Carlini and Wagner,
    2017, f6, without its limit at zero), whose gradient does neither.

    Args:
        name: one of `ATTACKED`, or a registered loss.
        training: name of the training loss.
    """
    if name == "difference":
        return difference
    if name == "cross-entropy":
        return cross_entropy
    mean = loss_at_end(training if name == "training" else name)
    return lambda output, labels: mean(output, labels) * len(labels)


def distinct(names: list[str], training: str) -> dict[str, str]:
    """The first of the losses that is the same as each: a network trained by cross entropy has it twice.

    Args:
        names: names of losses, as for `attack_loss`.
        training: name of the training loss, which `training` stands for.

    Returns:
        each name to the first name of the same loss, which may be itself.
    """
    first: dict[str, str] = {}
    return {name: first.setdefault(training if name == "training" else name, name) for name in names}


def difference(output: Output, labels: Tensor) -> Tensor:
    """The sum of `margins`.

    Args:
        output: the network's answer to a batch.
        labels: true classes, (image).
    """
    return margins(output.logits, labels).sum()


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """The highest other logit minus the label's, (image); above zero where the label is not the answer.

    Args:
        logits: (image, class).
        labels: true classes, (image).
    """
    own = functional.one_hot(labels, logits.shape[1]).bool()
    return logits.masked_fill(own, -torch.inf).amax(dim=1) - logits[own]


def cross_entropy(output: Output, labels: Tensor) -> Tensor:
    """Softmax cross entropy of the logits."""
    return functional.cross_entropy(output.logits, labels, reduction="sum")
