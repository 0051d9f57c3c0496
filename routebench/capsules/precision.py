"""Routing in single precision, whatever autocast says.

Variances are differences of nearly equal moments, and logits go through exponentials: with the 8 bits of bfloat16, the
ones would be nothing but rounding and the others off by per cents. Hence networks under autocast route in single
precision, from children that the features below them rounded.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from routebench.capsules.population import Capsules

SHORT = (torch.bfloat16, torch.float16)
"""Types of 16 bits, which autocast gives."""


def under_autocast(device: str) -> bool:
    """Tells whether autocast is on for this kind of device."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


@contextmanager
def single_precision(children: Capsules) -> Iterator[Capsules]:
    """Turns autocast off for a while, and gives the children without 16-bit numbers. Without autocast, does nothing."""
    device = children.poses.device.type
    if not under_autocast(device):
        yield children
        return
    logits = None if children.logits is None else _single(children.logits)
    with torch.autocast(device, enabled=False):
        yield Capsules(_single(children.poses), _single(children.activations), logits, mask=children.mask)


def _single(value: Tensor) -> Tensor:
    return value.float() if value.dtype in SHORT else value
