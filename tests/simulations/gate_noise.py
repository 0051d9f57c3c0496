"""How often does the gate's noise floor call unchanged code a regression, and how much of a true loss does it see?

`python -m tests.simulations.gate_noise` prints, for several mixes of spreads, the share of comparisons with any false
regression, by `routebench.comparing` and by a floor that pools all methods, which was the rule once; and the power
where spreads are equal. The aims, from three seeds a side: at most 0.05, and at most a tenth of the pooled power lost.
The test over images is left out: it can only make regressions fewer.
"""

import math
import sys

import numpy as np
from scipy import special

from routebench.comparing._noise import COVERED, Noise
from routebench.comparing._series import Group, PairedSeries

METHODS, IMAGES = 7, 1000
MIXES = {
    "equal": (1.0,) * METHODS,
    "one ten times the others": (10.0, *(1.0,) * (METHODS - 1)),
    "one four times": (4.0, *(1.0,) * (METHODS - 1)),
    "two five times": (5.0, 5.0, *(1.0,) * (METHODS - 2)),
    "half five times": (*(5.0,) * 3, *(1.0,) * (METHODS - 3)),
    "from 0.3 to 6": tuple(np.geomspace(0.3, 6, METHODS)),
}
"""Standard deviation of accuracy over seeds, in units of 0.3 points, by method."""
UNIT = 0.3
LOSS = 5.3
"""Of one method, in standard errors of its change: pooling sees it in about 8 of 10 comparisons."""
EVERYTHING = Group("accuracy", "quick", "mnist5k", "accuracy", "test", "%", higher_is_better=True)


def folders(
    spreads: tuple[float, ...], seeds: int, steps: tuple[int, ...], rng: np.random.Generator, loss: float = 0.0
) -> list[PairedSeries]:
    """Unchanged methods on both sides, but for what the first one loses.

    Args:
        spreads: by method.
        seeds: of each side.
        steps: T of each method's settings.
        rng: draws the seeds' accuracies.
        loss: in standard errors of the change of one setting.
    """
    found = []
    for method, spread in enumerate(spreads):
        for step in steps:
            values = 95 + UNIT * spread * rng.normal(size=(2, seeds))
            values[1] -= (method == 0) * loss * UNIT * spread * math.sqrt(2 / seeds)
            base, head = ({seed: np.array([own[seed]]) for seed in range(seeds)} for own in values)
            right = {seed: np.arange(2 * IMAGES).reshape(2, IMAGES) % 2 == 0 for seed in range(seeds)}
            right[0][1] ^= True  # the predictions are not the same
            means = {seed: float(value[0]) for seed, value in base.items()}
            found.append(PairedSeries(EVERYTHING, f"m{method}", step, "", base, head, right=right, base_means=means))
    return found


def rows_of(series: list[PairedSeries]) -> list[list[PairedSeries]]:
    """Single series, and all series of each method with several."""
    methods: dict[str, list[PairedSeries]] = {}
    for one in series:
        methods.setdefault(one.method, []).append(one)
    return [[one] for one in series] + [own for own in methods.values() if len(own) > 1]


def change_of(row: list[PairedSeries]) -> float:
    """Its mean change."""
    return float(np.mean([one.change(seed) for one in row for seed in one.seeds]))


def pooled_floor(row: list[PairedSeries], series: list[PairedSeries]) -> float:
    """The floor as it was: the spread of changes pooled over methods."""
    alike = [[one] for one in series] if len(row) == 1 else rows_of(series)[len(series) :]
    seeds, floors = len(row[0].seeds), []
    for pooled, many in ((alike, 1), ([[one] for one in series], len(row))):
        by_seed = np.array([[np.mean([one.change(seed) for one in own]) for seed in range(seeds)] for own in pooled])
        deviation, degrees = math.sqrt(by_seed.var(axis=1, ddof=1).mean()), len(pooled) * (seeds - 1)
        level = (1 + COVERED ** (1 / (2 * len(alike)))) / 2
        floors.append(float(special.stdtrit(degrees, level)) * deviation / math.sqrt(seeds * many))
    return max(floors)


def regressions(
    spreads: tuple[float, ...], seeds: int, steps: tuple[int, ...], count: int, loss: float = 0.0
) -> tuple[float, float]:
    """The shares of comparisons with any regression, or one of the loser: pooled as it once was, and as it is."""
    rng = np.random.default_rng([seeds, len(steps)])
    before = after = 0
    for _ in range(count):
        series = folders(spreads, seeds, steps, rng, loss)
        rows = [row for row in rows_of(series) if not loss or row[0].method == "m0"]
        noise = Noise(series)
        before += any(change_of(row) < -pooled_floor(row, series) for row in rows)
        after += any(change_of(row) < -noise.over_seeds(row) for row in rows)
    return before / count, after / count


def main(count: int) -> None:
    """Prints the table."""
    write = sys.stdout.write
    write(f"{'spreads':26} {'seeds':>5} {'settings':>8} {'pooled':>7} {'now':>7}\n")
    for seeds in (2, 3, 5):
        for steps in ((3,), (1, 2, 3)):
            for name, spreads in MIXES.items():
                before, after = regressions(spreads, seeds, steps, count)
                write(f"{name:26} {seeds:5} {len(steps):8} {before:7.3f} {after:7.3f}\n")
            before, after = regressions(MIXES["equal"], seeds, steps, count, LOSS)
            write(f"{'a loss, equal spreads':26} {seeds:5} {len(steps):8} {before:7.3f} {after:7.3f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
