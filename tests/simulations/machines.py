"""A method and a published one, trained on two machines: coverage, false alarms and power of three ways to compare.

    python -m tests.simulations.machines [RUNS]

Accuracies vary over seeds by 0.4 points; two methods share a quarter of that variance where their seeds are the same,
as on the quick board. The machines differ by nothing (the same numbers), by rounding (other numbers, the same mean), or
by 0.3 points, which the second machine adds to every method. `paired` pairs seeds across machines, `Welch` compares the
accuracies, `gains` is what `routebench rank` does: it compares gains over uniform routing, and refuses where uniform
routing differs at 1 %.
"""

import sys

import numpy as np

from routebench import ranking, statistics
from routebench.analysis.comparison import contenders_of

SPREAD, SHARED, BETTER = 0.4, 0.25, 0.8
"""Standard deviation over seeds, in points; the share of variance of a seed; a difference that is to be found."""
SHIFTS = {"nothing": None, "rounding": 0.0, "0.3 points": 0.3}
WAYS = ("paired", "Welch", "gains")


def trained(random: np.random.Generator, means: list[float], seeds: int, shift: float = 0.0) -> np.ndarray:
    """Accuracies (methods, seeds) on one machine."""
    common = random.normal(0, SPREAD * np.sqrt(SHARED), seeds)
    own = random.normal(0, SPREAD * np.sqrt(1 - SHARED), (len(means), seeds))
    return np.array(means)[:, None] + shift + common + own


def compared(way: str, ours: np.ndarray, theirs: np.ndarray, *, same: bool) -> statistics.Difference | None:
    """The first of ours minus the first of theirs; the last of each is uniform routing. None where it is refused."""
    if way == "paired" or same:
        return statistics.paired_difference(dict(enumerate(ours[0])), dict(enumerate(theirs[0])))
    if way == "Welch":
        return statistics.apart_difference(ours[0], theirs[0])
    if statistics.apart_difference(ours[-1], theirs[-1]).p_value < 0.01:
        return None
    return statistics.apart_difference(ours[0] - ours[-1], theirs[0] - theirs[-1])


def row(machines: str, seeds: int, way: str, runs: int) -> dict[str, float]:
    """Shares of runs, in per cent: intervals that cover, false alarms, differences found, and refusals."""
    random = np.random.default_rng([seeds, [*SHIFTS].index(machines)])
    shift = SHIFTS[machines]
    counted = {"covers": 0, "false": 0, "found": 0, "refused": 0}
    for truth in (0.0, BETTER):
        for _ in range(runs):
            means = [90.0 + truth, 90.0, 89.5]
            if shift is None:
                both = trained(random, means, seeds)
                found = compared(way, both[[0, 2]], both[[1, 2]], same=True)
            else:
                ours, theirs = trained(random, means, seeds, shift), trained(random, means, seeds)
                found = compared(way, ours[[0, 2]], theirs[[1, 2]], same=False)
            if found is None:
                counted["refused"] += 1
                continue
            counted["covers"] += found.low <= truth <= found.high
            counted["false" if truth == 0 else "found"] += found.p_value < statistics.ALPHA
    told = 2 * runs - counted["refused"]
    return {
        "covers": 100 * counted["covers"] / told,
        "false alarms": 100 * counted["false"] / runs,
        f"finds {BETTER}": 100 * counted["found"] / runs,
        "refused": 100 * counted["refused"] / (2 * runs),
    }


def clones(resamplings: int) -> tuple[float, float]:
    """Shares of resamplings, in per cent, in which a clone of uniform routing is called better or worse than it.

    Seeds are drawn from those that are stored for uniform routing on the quick board, for the clone and for uniform
    routing beside it; a few seeds are no normal distribution.
    """
    runs = ranking.published(ranking.board_of("quick")).runs
    (stored,) = (one.values for one in contenders_of(runs) if one.method.label == "uniform")
    random = np.random.default_rng(0)
    better = worse = 0
    for _ in range(resamplings):
        clone, base = random.choice(stored, (2, len(stored)))
        found = statistics.paired_difference(dict(enumerate(clone)), dict(enumerate(base)))
        if found.p_value < statistics.ALPHA:
            better, worse = better + (found.mean > 0), worse + (found.mean < 0)
    return 100 * better / resamplings, 100 * worse / resamplings


def main(runs: int) -> None:
    """Prints the table of `docs/uncertainty.md`."""
    lines: list[str] = []
    for machines in SHIFTS:
        for seeds in (3, 5, 10):
            for way in WAYS if machines != "nothing" else ("gains",):
                found = row(machines, seeds, way, runs)
                lines = lines or [" | ".join(["machines differ by", "seeds", "compared by", *found])]
                lines.append(" | ".join([machines, str(seeds), way, *(f"{value:.1f}" for value in found.values())]))
    sys.stdout.write("".join(f"| {line} |\n" for line in lines))
    better, worse = clones(2000)
    sys.stdout.write(f"a clone of uniform routing: better in {better:.1f} %, worse in {worse:.1f} % of 2,000\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
