"""Random numbers that a test draws anew from a seed."""

import torch


def spread(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
