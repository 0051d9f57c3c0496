"""Random numbers that a method draws: from torch's generator, set for one call and put back after it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Sets torch's generators for a while, those of GPUs included where CUDA is in use, and puts them back.

    `torch.manual_seed` does it, too, but costs a millisecond where CUDA waits to be initialised.
    """
    before = torch.random.get_rng_state()
    with_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    before_on_gpu = torch.cuda.get_rng_state_all() if with_gpu else []
    torch.default_generator.manual_seed(seed)
    if with_gpu:
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        torch.random.set_rng_state(before)
        if with_gpu:
            torch.cuda.set_rng_state_all(before_on_gpu)
