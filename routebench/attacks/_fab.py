"""FAB, which follows the decision boundary to its nearest point (Croce and Hein, ICML 2020, arXiv:1907.02044)."""

from typing import Any

import eagerpy as ep
import torch
from foolbox.attacks.base import FixedEpsilonAttack
from foolbox.distances import linf
from torch import Tensor
from torch.linalg import vecdot

from routebench.attacks._losses import margins
from routebench.attacks._victim import Victim

OVERSHOOT = 1.05
"""Length of a step, where 1 ends on the linearised boundary; eta in the paper."""
BIAS = 0.1
"""The largest weight of the step that starts from the unattacked image; alpha_max in the paper."""
BACK = 0.9
"""Share of the way from the unattacked image at which an adversarial one is put after each step; beta in the paper."""


class FastAdaptiveBoundary(FixedEpsilonAttack):  # type: ignore[misc]  # foolbox comes without types
    """Targeted FAB for the L-infinity distance, algorithm 1 of the paper, from the unattacked image.

    Each step linearises the boundary towards one class, projects onto it from the image and from the unattacked image,
    and mixes both. No number is drawn by chance.

    Departures: it returns the image within the ball that is misclassified most clearly, by the difference of logits,
    because rounding to 8 bit follows; the paper's is the nearest one. There is no final search along the line to the
    unattacked image, which brings that one nearer: the authors' code has it as an option, and AutoAttack not at all.

    Args:
        rank: place of the class aimed at, among the other classes on the unattacked image; 0 for the likeliest.
        steps: number of steps, each with one gradient and two passes.
    """

    distance = linf

    def __init__(self, rank: int, steps: int):
        self.rank, self.steps = rank, steps

    def run(self, model: Victim, inputs: Any, criterion: Any, *, epsilon: float, **_: Any) -> Any:
        """Runs as foolbox asks for it."""
        images, restore = ep.astensor_(inputs)
        labels = ep.astensor(criterion.labels).raw
        return restore(ep.astensor(self._follow(model, images.raw, labels, epsilon)))

    def _follow(self, model: Victim, images: Tensor, labels: Tensor, eps: float) -> Tensor:
        own = labels[:, None]
        aims = model.output(images).logits.scatter(1, own, -torch.inf).argsort(dim=1, descending=True, stable=True)
        aim = aims[:, self.rank : self.rank + 1]
        clean = images.flatten(1)
        place, found = clean, clean
        reached = torch.full_like(clean[:, 0], -torch.inf)
        for _ in range(self.steps):
            ahead, gradient = _slope(model, place.view_as(images), own, aim)
            from_here = nearest_on(gradient, -ahead, place)
            from_clean = nearest_on(gradient, ((place - clean) * gradient).sum(dim=1) - ahead, clean)
            here, there = (step.abs().amax(dim=1, keepdim=True) for step in (from_here, from_clean))
            weight = (here / (here + there).clamp(min=1e-12)).clamp(max=BIAS)
            place = (1 - weight) * (place + OVERSHOOT * from_here) + weight * (clean + OVERSHOOT * from_clean)
            place = place.clamp(0, 1)
            now = margins(model.output(place.view_as(images)).logits, labels)
            clearer = (now > reached) & ((place - clean).abs().amax(dim=1) <= eps)
            found, reached = torch.where(clearer[:, None], place, found), torch.where(clearer, now, reached)
            place = torch.where((now > 0)[:, None], clean + BACK * (place - clean), place)
        return found.view_as(images)


def nearest_on(gradient: Tensor, rise: Tensor, place: Tensor) -> Tensor:
    """The smallest step, by its largest element, that climbs so much and ends in [0, 1]: the paper's equation 6.

    Where the box allows no such step, the one that comes closest.

    Args:
        gradient: gradient of what is climbed, (image, pixel).
        rise: (image); below zero to descend.
        place: point that the step starts from, (image, pixel).

    Returns:
        (image, pixel).
    """
    direction = gradient.sign() * rise.sign()[:, None]
    slopes, wanted = gradient.abs(), rise.abs()[:, None]
    room = torch.where(direction > 0, 1 - place, torch.where(direction < 0, place, 0.0))
    length, moving = torch.zeros_like(wanted), room > 0
    while True:  # Newton's steps, each to a greater length; most often 3 to 10
        climbed, slope = (vecdot(slopes, of)[:, None] for of in (room.minimum(length), moving.to(slopes)))
        length = length + (wanted - climbed).clamp(min=0) / slope.clamp(min=1e-12)
        was, moving = moving, room > length
        if moving.equal(was):
            return direction * room.minimum(length)


def _slope(model: Victim, place: Tensor, own: Tensor, aim: Tensor) -> tuple[Tensor, Tensor]:
    """The lead of the class aimed at, (image), and its gradient, (image, pixel)."""
    place = place.detach().requires_grad_()
    logits = model.output(place).logits
    ahead = (logits.gather(1, aim) - logits.gather(1, own))[:, 0]
    gradient = torch.autograd.grad(ahead.sum(), place)[0].nan_to_num(nan=0.0)
    return ahead.detach(), gradient.flatten(1)
