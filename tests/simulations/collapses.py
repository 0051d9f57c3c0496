"""False verdicts of a method whose seeds collapse, before and after collapses are looked at, and what that costs.

    python -m tests.simulations.collapses [RUNS]

The method is as good as the control on average: in one seed of ten it falls by 3 points, in the others it is 0.3 points
ahead. With one T, seeds without a collapse look like those of a method that never collapses: no rule that keeps the
power for such methods can tell them apart. With more T, collapses elsewhere are seen.
"""

import sys

import numpy as np

from routebench.analysis import Method, Verdict, corrected, difference, gains_over
from tests.statistics.simulation import seeds

DEPTH, SHARE = 3.0, 0.1
"""Points that a seed falls, and the share of seeds that fall."""


def collapsing(random: np.random.Generator, count: int) -> np.ndarray:
    """Differences to the control whose mean is 0."""
    return random.normal(DEPTH * SHARE, 0.2, count) - np.where(random.random(count) < SHARE, DEPTH, 0.0)


def skewed(random: np.random.Generator, count: int) -> np.ndarray:
    """The same with an exponential tail below."""
    return -0.3 * (random.exponential(1, count) - 1)


def normal(random: np.random.Generator, count: int) -> np.ndarray:
    """A method that is better: a paired test finds it in most cases, with three seeds in half."""
    return random.normal(0.6 if count < 10 else 0.3, 0.3, count)


def uneven(random: np.random.Generator, count: int) -> np.ndarray:
    """The same, with three times the spread."""
    return 3 * normal(random, count)


def shares_better(draw, others, count: int, steps: int, runs: int) -> tuple[float, float]:
    """Share of runs in which the first T is called better than the control: by t alone, and by `gains_over`.

    Args:
        draw: differences to the control of the first T.
        others: of the other T.
        count: seeds.
        steps: number of T.
        runs: how many.
    """
    random = np.random.default_rng(count)
    control = Method("uniform", role="control")
    plain = judged = 0
    for _ in range(runs):
        drawn = [draw(random, count), *(others(random, count) for _ in range(steps - 1))]
        values = {Method("ours", iterations=step): seeds(90 + own) for step, own in enumerate(drawn, 1)}
        first = next(iter(values))
        values[control] = dict.fromkeys(range(count), 90.0)
        (alone,) = corrected([difference(values[first], values[control])])
        (found,) = corrected([gains_over("uniform", values)[first]])
        plain += alone.verdict is Verdict.BETTER
        judged += found.verdict is Verdict.BETTER
    return plain / runs, judged / runs


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    cases = {
        "collapses": (collapsing, collapsing),
        "skewed": (skewed, skewed),
        "normal": (normal, normal),
        "other T quieter": (uneven, normal),
    }
    sys.stdout.write("seeds, T: called better by t alone, with a look at collapses\n")
    for name, (draw, others) in cases.items():
        for count in (3, 5, 10):
            for steps in (1, 3):
                plain, judged = shares_better(draw, others, count, steps, runs)
                sys.stdout.write(f"{name:16} {count:2} seeds, {steps} T: {plain:.3f} {judged:.3f}\n")


if __name__ == "__main__":
    main()
