"""Runs of methods without iterations whose true accuracies are given."""

from routebench.analysis import Runs
from tests.analysis.made_up_runs import made_up_runs


def runs_with(preset: str = "full", seeds: int = 6, spread: float = 0.15, **accuracies: float) -> Runs:
    """By method, in per cent; `uniform` and `cnn` are controls."""
    methods = {
        name: ([None], "control" if name in ("uniform", "cnn") else "method", "capsnet-small", [value])
        for name, value in accuracies.items()
    }
    return made_up_runs(seeds=seeds, spread=spread, methods=methods, preset=preset)
