"""Outcomes of an attack as stored and judged: 8-bit images within the budget, looked at anew."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from foolbox.criteria import Misclassification, TargetedMisclassification
from torch import Tensor

from routebench.attacks._seeding import seeded
from routebench.attacks._victim import BATCH, Victim, scaled

TOLERANCE = 1e-5  # of float32 pixels in [0, 1]


@dataclass(frozen=True)
class Outcome:
    """Outcome of an attack on images, by what the stored images show.

    Args:
        images: uint8, (image, channel, height, width).
        predicted: the network's answer to them, (image).
        margins: by how much another class is ahead of the label there, (image); above zero where the image is broken.
        outside: whether the attack returned one outside its budget or the range of pixels, (image).
        overstated: whether the attack claimed success where the stored image shows none, (image).
    """

    images: Tensor
    predicted: Tensor
    margins: Tensor
    outside: Tensor
    overstated: Tensor


def grey_levels(eps: float) -> int:
    """Number of levels of 255 by which a pixel may change: eps rounded down, because stored images have 8 bits."""
    return int(eps * 255 + 1e-6)


def to_bytes(images: Tensor, original: Tensor, levels: int = 255) -> Tensor:
    """Values in [0, 1] as uint8 on the CPU, within so many levels of the original; what is not a number is as it was.

    Args:
        images: float, (image, channel, height, width).
        original: uint8, likewise.
        levels: that a pixel may differ by.
    """
    before = original.to(torch.int16)
    wanted = (images.detach().cpu() * 255).round().clamp(-1e4, 1e4)
    wanted = torch.where(wanted.isnan(), before.float(), wanted).to(torch.int16)
    return torch.minimum(torch.maximum(wanted, before - levels), before + levels).clamp(0, 255).to(torch.uint8)


def attack_within(
    victim: Victim,
    attack: Callable[..., Any],
    pixels: Tensor,
    labels: Tensor,
    eps: float,
    *,
    seed: tuple[object, ...],
    targets: Tensor | None = None,
    starts: int = 1,
) -> Outcome:
    """Runs an L-infinity attack of foolbox on images and judges what came back.

    The attack gets eps rounded down to whole grey levels, and works in float32; its images are rounded to 8 bit, held
    to the budget, and given to the network again. The attack's own word decides nothing.

    Args:
        victim: the network.
        attack: an attack with foolbox's call.
        pixels: uint8, (image, channel, height, width), on the CPU.
        labels: classes to get away from, (image).
        eps: budget in units of pixels from 0 to 1.
        seed: tells this use from others.
        targets: classes to get to instead, (image).
        starts: how often each image is attacked, from random starts of its own; the largest margin counts.
    """
    levels = grey_levels(eps)
    found = []
    inputs = [
        values.repeat_interleave(starts, dim=0) for values in (pixels, labels, labels if targets is None else targets)
    ]
    batches = zip(*(torch.split(values, BATCH) for values in inputs), strict=True)
    for number, (part, own, aims) in enumerate(batches):
        if not len(part):
            break
        images = scaled(part, victim.device)
        wanted = aims.to(victim.device)
        criterion = Misclassification(wanted) if targets is None else TargetedMisclassification(wanted)
        with seeded(victim.device, *seed, number):
            raw, held, claimed = attack(victim, images, criterion, epsilons=levels / 255)
        stored = to_bytes(held, part, levels)
        predicted, margins = victim.judge(stored, own)
        shown = predicted != own if targets is None else predicted == aims
        outside = _outside(raw, images, levels)
        found.append(Outcome(stored, predicted, margins, outside, claimed.cpu() & ~shown))
    return _nearest(joined(found, pixels), starts)


def _nearest(outcome: Outcome, starts: int) -> Outcome:
    """The start with the largest margin of each image, whose starts follow one another; outside where any is."""
    first = torch.arange(0, len(outcome.margins), starts)
    places = first + outcome.margins.view(-1, starts).argmax(dim=1)
    return Outcome(
        outcome.images[places], outcome.predicted[places], outcome.margins[places],
        outcome.outside.view(-1, starts).any(dim=1), outcome.overstated[places],
    )  # fmt: skip


def joined(outcomes: list[Outcome], like: Tensor) -> Outcome:
    """One after the other; without any, an outcome of no images of the same shape."""
    if not outcomes:
        none = torch.zeros(0, dtype=torch.bool)
        return Outcome(like[:0], torch.zeros(0, dtype=torch.int64), torch.zeros(0), none, none)
    columns = zip(
        *((one.images, one.predicted, one.margins, one.outside, one.overstated) for one in outcomes), strict=True
    )
    return Outcome(*(torch.cat(column) for column in columns))


def _outside(raw: Tensor, images: Tensor, levels: int) -> Tensor:
    """(image) whether it left the ball or the range; what is not a number did."""
    flat = raw.detach().flatten(1)
    far = (flat - images.flatten(1)).abs().amax(dim=1)
    inside = (far <= levels / 255 + TOLERANCE) & (flat.amin(dim=1) >= -TOLERANCE) & (flat.amax(dim=1) <= 1 + TOLERANCE)
    return ~inside.cpu()
