"""Work for the memory probe whose peak is known; the probe's own process imports this."""

import os
import signal

import torch


def allocate(megabytes):
    """As many megabytes per image, touched, and freed again."""
    return lambda batch: lambda: torch.ones(batch * megabytes << 18).sum()


def hold(megabytes):
    """The same amount is held before the work starts, which itself takes nothing."""

    def prepare(batch):
        held = torch.ones(batch * megabytes << 18)
        return held.shape.numel

    return prepare


def fail():
    def prepare(batch):
        raise ValueError("no such\nluck")

    return prepare


def die():
    return lambda batch: lambda: os.kill(os.getpid(), signal.SIGKILL)


def pid():
    """Fails with the number of the process that forks."""
    raise RuntimeError(os.getppid())
