"""Attacks that look for the smallest change, in L2: with gradients, and with decisions alone."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from foolbox.attacks import BoundaryAttack, HopSkipJumpAttack, L2CarliniWagnerAttack, L2DeepFoolAttack
from foolbox.criteria import Misclassification
from torch import Tensor

from routebench.attacks._seeding import seeded
from routebench.attacks._stored import to_bytes
from routebench.attacks._victim import BATCH, Victim, scaled

WITH_GRADIENTS = ("carlini-wagner", "deepfool")
FROM_DECISIONS = ("boundary", "hop-skip-jump")
SEARCHES = 6
"""Number of searches for the constant c of Carlini and Wagner, from 0.1 on, times ten until it is large enough."""
FAR = 5.0
"""Reach of Carlini and Wagner's attack in arctanh of pixels, in which black and white lie at 7.3."""
LONGER = (1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5)
"""Factors of a change that rounding to 8 bit undid, until it holds."""


@dataclass(frozen=True)
class Shortest:
    """The smallest changes that an attack found.

    Args:
        images: uint8, (image, channel, height, width); the unattacked one where none was found.
        distances: Euclidean, of the stored images, in units of pixels from 0 to 1; infinite where none was found.
        queries: images that the network classified per image attacked.
        failed: whether the attack gave up with an error.
    """

    images: Tensor
    distances: Tensor
    queries: float
    failed: bool = False


def shortest(
    victim: Victim, name: str, pixels: Tensor, labels: Tensor, *, steps: int, queries: int, seed: int
) -> Shortest:
    """Runs an attack by name on images that the network has right; judged by the images as stored, in 8 bit.

    Rounding undoes some of the smallest changes. Such a change is made longer by the factors of `LONGER` until the
    stored image is misclassified; the distance is that of the stored image.

    Args:
        victim: the network.
        name: a name of `WITH_GRADIENTS` or `FROM_DECISIONS`.
        pixels: uint8, (image, channel, height, width).
        labels: (image).
        steps: number of steps of DeepFool at most, and of each search for the constant of Carlini and Wagner's attack.
        queries: about how often decision-based attacks may ask per image.
        seed: the seed of the run.
    """
    before, failed = victim.queries, False
    found, distances = pixels.clone(), torch.full((len(labels),), torch.inf)
    for start in range(0, len(labels), BATCH):
        part = slice(start, start + BATCH)
        try:
            with seeded(victim.device, seed, name, start), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # means over nothing, in the boundary attack
                changed = _run(victim, name, pixels[part], labels[part], steps=steps, queries=queries)
        except (AssertionError, ValueError):  # what foolbox raises where it finds no starting point or loses its way
            failed = True
            continue
        found[part], distances[part] = _held(victim, changed.detach().cpu(), pixels[part], labels[part])
    return Shortest(found, distances, (victim.queries - before) / max(len(labels), 1), failed)


def _run(victim: Victim, name: str, pixels: Tensor, labels: Tensor, *, steps: int, queries: int) -> Tensor:
    images, criterion = scaled(pixels, victim.device), Misclassification(labels.to(victim.device))
    if name in WITH_GRADIENTS:
        found: Tensor = _with_gradients(name, steps).run(victim, images, criterion)
        lost = found.flatten(1).abs().amax(dim=1) == 0  # foolbox returns black images where it found nothing
        return torch.where(lost[:, None, None, None], images, found)
    starts = scaled(_other_classes(victim, pixels, labels), victim.device)
    attack = _from_decisions(name, queries)
    changed: Tensor = attack.run(victim, images, criterion, starting_points=starts)
    return changed


def _with_gradients(name: str, steps: int) -> Any:
    if name == "carlini-wagner":
        stepsize = max(0.01, FAR / steps)  # foolbox's 0.01 would not get anywhere in few steps
        return L2CarliniWagnerAttack(
            binary_search_steps=SEARCHES, steps=steps, stepsize=stepsize, initial_const=0.1, abort_early=False
        )
    return L2DeepFoolAttack(steps=steps)


def _from_decisions(name: str, queries: int) -> Any:
    if name == "boundary":
        return BoundaryAttack(steps=max(1, round(queries / 1.1)))  # every tenth step asks twice
    first = min(100, max(5, queries // 20))  # HopSkipJump asks this often for its first gradient, then more
    steps, asked = 0, 0.0
    while asked < queries:
        steps += 1
        asked += first * steps**0.5 + 30  # and some 30 times for two searches along a line
    return HopSkipJumpAttack(steps=steps, initial_gradient_eval_steps=first, max_gradient_eval_steps=10_000)


def _other_classes(victim: Victim, pixels: Tensor, labels: Tensor) -> Tensor:
    """The nearest image that the network takes for another class, for each image: where decisions start.

    Raises:
        ValueError: there is none.
    """
    answers = victim.predict(pixels)
    flat = pixels.flatten(1).float()
    distances = torch.cdist(flat, flat)
    distances[answers[None, :] == labels[:, None]] = torch.inf
    nearest = distances.min(dim=1)
    if nearest.values.isinf().any():
        raise ValueError("all images are of one class: decisions have nowhere to start from")
    return pixels[nearest.indices]


def _held(victim: Victim, changed: Tensor, pixels: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Stored images and their distances."""
    original = pixels.float() / 255
    found, distances = pixels.clone(), torch.full((len(labels),), torch.inf)
    waiting = torch.arange(len(labels))
    for factor in LONGER:
        stored = to_bytes(original[waiting] + factor * (changed[waiting] - original[waiting]), pixels[waiting])
        wrong = victim.predict(stored) != labels[waiting]
        places = waiting[wrong]
        found[places] = stored[wrong]
        distances[places] = (stored[wrong].float() / 255 - original[places]).flatten(1).norm(dim=1)
        waiting = waiting[~wrong]
        if not len(waiting):
            break
    return found, distances
