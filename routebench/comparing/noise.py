"""How far two measurements of one and the same thing lie apart: noise is measured, not assumed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from routebench.comparing import one_seed
from routebench.comparing.one_seed import COVERED
from routebench.comparing.settings import SPEEDS, FloatArray, Group, Setting
from routebench.comparing.tails import Tail

DRAWS = 50_000
FEWEST = 5  # degrees of freedom of a spread over settings
FEWEST_METHODS = 3  # of which a spread over methods is taken
FEWEST_PAIRS = 8  # of repeats, below which nothing is said about times
MEDIAN = 1.2533  # times the error of a mean is that of a median, of a normal distribution


@dataclass
class Noise:
    """What all settings of two folders say about noise.

    Args:
        settings: every comparable setting.
    """

    settings: Sequence[Setting]
    _pools: dict[tuple[Group, bool], FloatArray] = field(default_factory=dict)
    _floors: dict[tuple[Group, bool], float] = field(default_factory=dict)
    _nulls: dict[tuple[Group, bool, int, int], Tail] = field(default_factory=dict)

    def known_from_repeats(self, group: Group) -> bool:
        """Whether enough cells measured something of this group more than once."""
        return self.pairs(group, pooled=False).size >= FEWEST_PAIRS

    def pairs(self, group: Group, *, pooled: bool) -> FloatArray:
        """Differences (logarithms of ratios if relative) between repeats, in BASE and in HEAD: A/A.

        Args:
            group: whose settings count.
            pooled: one median for each cell, instead of one value for each setting.
        """
        if (group, pooled) not in self._pools:
            kept = _differences(self._of(group))
            found = [float(np.median(values)) for values in kept] if pooled else [one for all_ in kept for one in all_]
            self._pools[group, pooled] = np.array(found)
        return self._pools[group, pooled]

    def drift(self, group: Group) -> FloatArray:
        """log(HEAD / BASE) of the time of a large matrix product, per cell; empty where it was not measured.

        Cells that are left out because the machine was disturbed count: beside the others it may have been, unseen.
        """
        own = [setting for setting in self.settings if setting.group.metric == SPEEDS[0] and not setting.obstacle]
        speeds = [setting for setting in own if setting.group.suite == group.suite]
        return np.array([-setting.change(seed) for setting in speeds for seed in setting.seeds])

    def null(self, group: Group, *, pooled: bool, cells: int, repeats: int) -> Tail:
        """Sizes of the change that noise alone makes, `DRAWS` of them.

        Each is a mean over cells of means over repeats, with random signs, because which repeat came first does not
        matter. The machine's drift is drawn once for all cells, because it shifts all of them.
        """
        key = (group, pooled, cells, repeats)
        if key not in self._nulls:
            rng = np.random.default_rng(0)
            pool = self.pairs(group, pooled=pooled)
            total = np.zeros(DRAWS)
            for _ in range(cells * repeats):
                total += rng.choice(pool, DRAWS) * rng.choice((-1.0, 1.0), DRAWS)
            total /= cells * repeats
            if (drift := self.drift(group)).size:
                total += rng.choice(drift, DRAWS) * rng.choice((-1.0, 1.0), DRAWS)
            self._nulls[key] = Tail(np.sort(np.abs(total)))
        return self._nulls[key]

    def unrest(self, settings: Sequence[Setting]) -> float:
        """How many times as far apart the repeats of these settings lie as those of the whole group; at least 1.

        Of several settings it is that of their cells' medians, or of what single settings leave a median to vary by.
        """
        pooled = len(settings) > 1
        cells = _differences(settings)
        single = np.concatenate([np.array(values) for values in cells])
        own = _size(single)
        if pooled:
            medians = np.array([np.median(values) for values in cells])
            own = max(_size(medians), MEDIAN * own / math.sqrt(single.size / medians.size))
        usual = _size(self.pairs(settings[0].group, pooled=pooled))
        return max(1.0, own / usual) if usual > 0 else 1.0

    def floor_of_repeats(self, group: Group, *, pooled: bool) -> float:
        """What 95 % of pairs of repeats differ by at most, or the machine's drift where that is larger."""
        if (group, pooled) not in self._floors:
            floor = float(np.quantile(np.abs(self.pairs(group, pooled=pooled)), COVERED))
            drift = self.drift(group)
            self._floors[group, pooled] = max(floor, abs(float(np.median(drift)))) if drift.size else floor
        return self._floors[group, pooled]

    def over_seeds(self, settings: Sequence[Setting]) -> float:
        """The change that trainings of unchanged code make in 95 of 100 comparisons, from its spread over seeds.

        It holds for all rows of a level together, or one of seven methods would exceed it in every third comparison.
        Within a method (one setting, or all of a method, or all methods) the change is taken seed by seed, and its
        variance pooled over the group's settings, methods, or just these. 0 where predictions are the same.
        """
        seeds = min(len(setting.seeds) for setting in settings)
        if seeds < 2:
            return one_seed.floor(settings, self._of(settings[0].group), len(self._like(settings)))
        alike, single = self._like(settings), [[setting] for setting in self._of(settings[0].group)]
        # Few seeds can agree by chance: means of several settings vary at least as single ones that are independent.
        spreads = ((alike, 1), (single, len(settings)))
        return max(_floor(spread_over_seeds(own), len(alike), seeds * many) for own, many in spreads)

    def over_settings(self, settings: Sequence[Setting]) -> tuple[int, float, int, float] | None:
        """How many changes these settings make, their deviation, its degrees of freedom, and a floor; None if unknown.

        The deviation is that of changes from their method's median, pooled over the group, the floor 95 % of their
        sizes. Where methods have too few, and these settings are of three or more, it is that of the methods' means.
        """
        left: list[float] = []
        degrees = 0
        for own in _by_method(self._of(settings[0].group)):
            found = _changes(own)
            left += np.abs(found - np.median(found)).tolist()
            degrees += found.size - 1
        count = _changes(settings).size
        if degrees >= FEWEST and count > 1:
            deviation = math.sqrt(sum(value**2 for value in left) / degrees)
            return count, deviation, degrees, float(np.quantile(left, COVERED))
        means = [float(_changes(own).mean()) for own in _by_method(settings)]
        if degrees < FEWEST and len(means) >= FEWEST_METHODS:
            return len(means), float(np.std(means, ddof=1)), len(means) - 1, 0.0
        return None

    def _of(self, group: Group) -> list[Setting]:
        return [setting for setting in self.settings if setting.group == group and not setting.obstacle]

    def _like(self, settings: Sequence[Setting]) -> list[list[Setting]]:
        """What is pooled like these: single settings, all settings of each method, or these alone."""
        own = self._of(settings[0].group)
        if len(settings) == 1:
            return [[setting] for setting in own]
        if len({setting.method for setting in settings}) == 1:
            return _by_method(own)
        return [list(settings)]


def spread_over_seeds(pooled: Iterable[Sequence[Setting]]) -> tuple[float, int]:
    """Standard deviation over seeds of the mean change of settings, pooled over several such, and its degrees."""
    squares, degrees = 0.0, 0
    for settings in pooled:
        shared = sorted(set.intersection(*(set(setting.seeds) for setting in settings)))
        if len(shared) > 1:
            changes = np.array([np.mean([setting.change(seed) for setting in settings]) for seed in shared])
            squares += float(((changes - changes.mean()) ** 2).sum())
            degrees += changes.size - 1
    return (math.sqrt(squares / degrees), degrees) if degrees else (math.nan, 0)


def _floor(spread: tuple[float, int], rows: int, count: int) -> float:
    """What means over so many stay below in 95 of 100 comparisons, of so many rows and as many of other levels.

    0 where there is no spread.
    """
    deviation, degrees = spread
    level = (1 + COVERED ** (1 / (2 * rows))) / 2
    return float(special.stdtrit(degrees, level)) * deviation / math.sqrt(count) if degrees else 0.0


def _changes(settings: Iterable[Setting]) -> FloatArray:
    """Of each measurement; of each network, where one that was trained is tested in several settings."""
    found: dict[object, list[float]] = {}
    for place, setting in enumerate(settings):
        for seed in setting.seeds:
            own = (place, seed) if setting.group.relative else setting.cells[seed].base.key
            found.setdefault(own, []).append(setting.change(seed))
    return np.array([np.mean(values) for values in found.values()])


def _by_method(settings: Iterable[Setting]) -> list[list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        found.setdefault(setting.method, []).append(setting)
    return list(found.values())


def _differences(settings: Iterable[Setting]) -> list[list[float]]:
    """Differences between repeats, a list for each cell of BASE or HEAD that has any."""
    cells: dict[tuple[str, str], list[float]] = {}
    for setting in settings:
        for seed, pair in setting.cells.items():
            cells.setdefault(("base", pair.base.key), []).extend(_between_repeats(setting, setting.base[seed]))
            cells.setdefault(("head", pair.head.key), []).extend(_between_repeats(setting, setting.head[seed]))
    return [values for values in cells.values() if values]


def _size(values: FloatArray) -> float:
    """Root mean square."""
    return math.sqrt(float((values**2).mean()))


def _between_repeats(setting: Setting, values: FloatArray) -> list[float]:
    """Differences of repeats two by two: the first and the second, the third and the fourth."""
    scale = np.log(values) if setting.group.relative else values
    even = scale.size - scale.size % 2
    return [float(one - other) for one, other in zip(scale[0:even:2], scale[1:even:2], strict=True)]
