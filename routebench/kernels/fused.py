"""The sweep as Triton kernels, for GPUs."""

from routebench.kernels.sweep import Sums, Sweep


def obstacle(given: Sweep) -> str:
    """Why the kernel cannot do this sweep; empty if it can."""
    return "there is no kernel yet"


def sweep(given: Sweep) -> Sums:
    """One sweep."""
    raise NotImplementedError
