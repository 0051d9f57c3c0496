"""Coverage of the intervals of a page after seeds were added: Student's as it was, and Stein's two stages as it is.

    python -m tests.simulations.two_stages [RUNS]

Two methods and a control. Seeds are added until both named differences, to the control, are narrow enough. The
difference of the two methods was not named: its number of seeds is the smaller one of theirs.
"""

import sys

import numpy as np

from routebench.statistics import crossed_difference, paired_difference, seeds_needed, two_stage_difference
from tests.statistics.simulation import seeds

HALF_WIDTH, SPREADS = 0.3, (0.3, 0.45, 0.3)
"""Points; the spread over seeds of the two methods and of the control."""
IMAGES = 500


def page(random: np.random.Generator, first: int) -> dict[str, tuple[bool, bool]]:
    """Whether 0, which is true, lies in the plain and in the two-stage interval, of a named and of another pair."""
    early = random.normal(0, SPREADS, (first, 3))
    counts = [seeds_needed(seeds(early[:, place]), seeds(early[:, 2]), first, HALF_WIDTH) or first for place in (0, 1)]
    values = np.concatenate([early, random.normal(0, SPREADS, (max(counts) - first, 3))])
    one, other, control = (seeds(values[:, place]) for place in range(3))
    one, other = ({seed: own[seed] for seed in range(n)} for own, n in zip((one, other), counts, strict=True))
    found = {}
    for name, pair in (("named", (one, control)), ("another", (one, other))):
        intervals = paired_difference(*pair), two_stage_difference(*pair, first)
        plain, staged = (bool(each.low <= 0 <= each.high) for each in intervals)
        found[name] = plain, staged
    return found


def with_images(random: np.random.Generator, first: int) -> tuple[bool, bool]:
    """The same of the interval over seeds and test images, of two networks right on about 90 % of images."""

    def answers(count: int) -> list[np.ndarray]:
        shares = 0.9 + random.normal(0, 0.02, (2, count, 1))
        return [*(random.random((2, count, IMAGES)) < shares)]

    early = answers(first)
    accuracies = [seeds(100 * own.mean(axis=1)) for own in early]
    count = min(seeds_needed(*accuracies, first, 2.0) or first, 200)
    right = [np.concatenate(parts) for parts in zip(early, answers(count - first), strict=True)]
    intervals = crossed_difference(*right), crossed_difference(*right, first=first)
    plain, staged = (bool(each.low <= 0 <= each.high) for each in intervals)
    return plain, staged


def coverage(first: int, runs: int) -> dict[str, tuple[float, float]]:
    """Share of intervals that cover, plain and in two stages, of a named pair, another, and with test images."""
    random = np.random.default_rng(first)
    pages = [page(random, first) | {"images": with_images(random, first)} for _ in range(runs)]
    return {
        name: (float(np.mean([one[name][0] for one in pages])), float(np.mean([one[name][1] for one in pages])))
        for name in ("named", "another", "images")
    }


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    sys.stdout.write("first seeds, pair: coverage of Student's t, of two stages\n")
    for first in (3, 5, 10):
        for name, (plain, staged) in coverage(first, runs).items():
            sys.stdout.write(f"{first:3} {name:8} {plain:.3f} {staged:.3f}\n")


if __name__ == "__main__":
    main()
