"""APGD, whose step sizes adapt to each image (Croce and Hein, ICML 2020, arXiv:2003.01690), and what it climbs."""

from collections.abc import Callable, Iterator
from typing import Any

import eagerpy as ep
import torch
from foolbox.attacks.base import FixedEpsilonAttack
from foolbox.distances import linf
from torch import Tensor
from torch.nn import functional

from routebench.attacks._losses import margins
from routebench.attacks._victim import Victim

MOMENTUM = 0.75
RHO = 0.75
"""Share of steps that must climb, or the step size is halved."""
TARGETS = 9
"""Classes that the targeted form aims at, one after the other, as the authors' code does."""

Climbed = Callable[[Tensor], Tensor]
"""Value per image, from logits, (image, class)."""
Objective = Callable[[Tensor, Tensor], Climbed]
"""Makes what is climbed from the logits of unattacked images and their labels, (image)."""


def cross_entropies(_clean: Tensor, labels: Tensor) -> Climbed:
    """Softmax cross entropy."""
    return lambda logits: functional.cross_entropy(logits, labels, reduction="none")


def ratio_towards(rank: int) -> Objective:
    """The targeted difference-of-logits ratio (equation 7), which neither shifting nor scaling logits changes.

    With three classes the third highest logit stands alone where the paper takes the mean of the third and the fourth;
    with two, where nothing is left to divide by, it is the difference of logits.

    Args:
        rank: place of the class aimed at, among the other classes on the unattacked image; 0 for the likeliest.
    """

    def objective(clean: Tensor, labels: Tensor) -> Climbed:
        own = labels[:, None]
        aims = clean.scatter(1, own, -torch.inf).argsort(dim=1, descending=True, stable=True)[:, rank : rank + 1]

        def ratio(logits: Tensor) -> Tensor:
            ordered = logits.sort(dim=1, descending=True).values
            gain = (logits.gather(1, aims) - logits.gather(1, own))[:, 0]
            return gain / (ordered[:, 0] - ordered[:, 2:4].mean(dim=1) + 1e-12) if ordered.shape[1] > 2 else gain

        return ratio

    return objective


def checkpoints(steps: int) -> Iterator[int]:
    """Steps after which step sizes are looked at: 22 %, then 3 points sooner each time, but never within 6 points."""
    place = gap = 22
    while (step := -(-place * steps // 100)) <= steps:
        yield step
        gap = max(gap - 3, 6)
        place += gap


class AutoPGD(FixedEpsilonAttack):  # type: ignore[misc]  # foolbox comes without types
    """APGD in the L-infinity ball, algorithm 1 of the paper, from a random start.

    Departures: a share of steps equal to `RHO` halves the step size too, as in the authors' code. Checkpoints are at
    ceil(p N) as in the paper; that code cuts off, and its first check takes the first step for a rise where the
    objective is above zero, whatever it was at the start. Condition 2, that nothing was gained since a check that
    halved nothing, is not asked at the first check, as in that code. That code returns the last image that was
    misclassified; this returns the one that is misclassified most clearly, by the difference of logits, because
    rounding to 8 bit follows.
    Gradients that are not finite count as zero.

    Args:
        objective: what is climbed.
        steps: number of steps, each with one gradient.
    """

    distance = linf

    def __init__(self, objective: Objective, steps: int):
        self.objective, self.steps = objective, steps

    def run(self, model: Victim, inputs: Any, criterion: Any, *, epsilon: float, **_: Any) -> Any:
        """Runs as foolbox asks for it."""
        images, restore = ep.astensor_(inputs)
        labels = ep.astensor(criterion.labels).raw
        return restore(ep.astensor(self._climb(model, images.raw, labels, epsilon)))

    def _climb(self, model: Victim, images: Tensor, labels: Tensor, eps: float) -> Tensor:
        low, high = (images - eps).clamp(min=0), (images + eps).clamp(max=1)
        climbed = self.objective(model.output(images).logits, labels)

        def look(place: Tensor) -> _Place:
            return _Place.at(model, place, labels, climbed)

        now = look(_random_start(images, eps).clamp(0, 1))
        best, clearest, before = now, now, now.images
        schedule = _StepSizes(now.values, 2 * eps, self.steps)
        for step in range(1, self.steps + 1):
            size = _per_image(schedule.sizes)
            ahead = (now.images + size * now.gradients.sign()).clamp(low, high)
            share = MOMENTUM if step > 1 else 1.0
            ahead = now.images + share * (ahead - now.images) + (1 - share) * (now.images - before)
            before, now = now.images, look(ahead.clamp(low, high))
            best = best.unless(now, now.values > best.values)
            clearest = clearest.unless(now, now.margins > clearest.margins)
            now = now.unless(best, schedule.halved(step, now.values, best.values))
        return clearest.images


class _Place:
    """Current state of each image: `images`, `gradients` (image, ...), `values` and `margins` (image)."""

    def __init__(self, images: Tensor, gradients: Tensor, values: Tensor, margins: Tensor):
        self.images, self.gradients, self.values, self.margins = images, gradients, values, margins

    @classmethod
    def at(cls, model: Victim, place: Tensor, labels: Tensor, climbed: Climbed) -> "_Place":
        """The network's answer there."""
        place = place.detach().requires_grad_()
        logits = model.output(place).logits
        values = climbed(logits)
        gradients = torch.autograd.grad(values.sum(), place)[0].nan_to_num(nan=0.0)
        return cls(place.detach(), gradients, values.detach(), margins(logits.detach(), labels))

    def unless(self, other: "_Place", is_other: Tensor) -> "_Place":
        """The same place, but the other for some images."""
        wide = _per_image(is_other)
        return _Place(
            torch.where(wide, other.images, self.images),
            torch.where(wide, other.gradients, self.gradients),
            torch.where(is_other, other.values, self.values),
            torch.where(is_other, other.margins, self.margins),
        )


class _StepSizes:
    """The step size of each image, and when it is halved: section 3.1, conditions 1 and 2."""

    def __init__(self, values: Tensor, size: float, steps: int):
        self.sizes = torch.full_like(values, size)
        self.checkpoints = set(checkpoints(steps))
        self.last, self.before, self.known = 0, values, values
        self.rises = torch.zeros_like(values)
        self.just_halved = torch.ones_like(values, dtype=torch.bool)

    def halved(self, step: int, values: Tensor, best: Tensor) -> Tensor:
        """Tells whether each image's step size was halved after this step, so that it goes on from its best place."""
        self.rises += values > self.before
        self.before = values
        if step not in self.checkpoints:
            return torch.zeros_like(self.just_halved)
        few = self.rises <= RHO * (step - self.last)
        self.just_halved = few | (~self.just_halved & (best <= self.known))
        self.sizes = torch.where(self.just_halved, self.sizes / 2, self.sizes)
        self.known, self.last, self.rises = best, step, torch.zeros_like(self.rises)
        return self.just_halved


def _random_start(images: Tensor, eps: float) -> Tensor:
    """A random direction whose largest element is eps, as in the authors' code."""
    direction = 2 * torch.rand_like(images) - 1
    return images + eps * direction / _per_image(direction.flatten(1).abs().amax(dim=1))


def _per_image(values: Tensor) -> Tensor:
    """(image) to (image, 1, 1, 1)."""
    return values[:, None, None, None]
