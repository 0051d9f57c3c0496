"""Random starts that are the same in every run."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(device: torch.device, *parts: object) -> Iterator[None]:
    """Starts torch's global generators, which foolbox draws from, from these parts while this lasts; then as before.

    Args:
        device: whose generator counts besides the CPU's.
        parts: whatever tells this use from others, such as a seed and the name of an attack.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4]))
        yield
