"""How often is a printed number called "not reproduced", although the paper ran the very network that we ran?

`python -m tests.simulations.printed_numbers` prints a table: the share outside the interval of our mean, which was the
rule once, and outside what our seeds predict. The aim is at most 0.05.
"""

import sys
from collections.abc import Callable

import numpy as np

from routebench import statistics
from routebench.statistics import Interval

SHARES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal, 90 % and 0.5 points": lambda rng, size: rng.normal(90, 0.5, size),
    "beta, around 99 %": lambda rng, size: 100 * rng.beta(990, 10, size),
}
SEEDS, RUNS = (3, 5, 10), (1, 3, 5)


def outside(draw: str, ours: int, theirs: int, decimals: int, count: int, *, kind: str = "mean") -> tuple[float, float]:
    """The shares of printed numbers outside the interval of our mean, and outside the prediction.

    Args:
        draw: key of `SHARES`.
        ours, theirs: numbers of seeds, and of the paper's runs.
        decimals: of the printed number.
        count: how many are drawn.
        kind: `mean`, `best`, or `mean and deviation` where the paper prints both.
    """
    rng = np.random.default_rng([ours, theirs, decimals])
    draws = SHARES[draw](rng, (count, ours + theirs))
    mean_missed = missed = 0
    for own, other in zip(draws[:, :ours], draws[:, ours:], strict=True):
        printed = round(float(other.max() if kind == "best" else other.mean()), decimals)
        if kind == "best":
            found = statistics.predicted_best(own, theirs, whole=100)
        else:
            spread = float(other.std(ddof=1)) if kind != "mean" else float("nan")
            found = statistics.predicted_mean(own, theirs, spread, whole=100)
        missed += _outside(found, printed, decimals)
        mean_missed += _outside(statistics.mean_interval(own, whole=100), printed, decimals)
    return mean_missed / count, missed / count


def _outside(found: Interval, printed: float, decimals: int) -> bool:
    margin = 0.5 * 10.0**-decimals
    return not found.low - margin <= printed <= found.high + margin


def main(count: int) -> None:
    """Prints the table."""
    sys.stdout.write(f"{'values':28} {'printed':26} {'seeds':>5} {'to':>5} {'mean':>6} {'prediction':>10}\n")
    for draw in SHARES:
        for kind in ("mean", "best", "mean and deviation"):
            for ours in SEEDS:
                for theirs in RUNS[kind != "mean" :]:
                    for decimals in (1, 2):
                        before, after = outside(draw, ours, theirs, decimals, count, kind=kind)
                        told = f"{kind} of {theirs}"
                        sys.stdout.write(
                            f"{draw:28} {told:26} {ours:5} {10.0**-decimals:5} {before:6.3f} {after:10.3f}\n"
                        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
