"""How far two measurements of one and the same thing lie apart: noise is measured, not assumed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from routebench.comparing import one_seed
from routebench.comparing.one_seed import COVERED
from routebench.comparing.settings import FloatArray, Group, Setting

FEWEST = 5  # degrees of freedom of a spread over settings
FEWEST_METHODS = 3  # of which a spread over methods is taken


@dataclass
class Noise:
    """What all settings of two folders say about noise.

    Args:
        settings: every comparable setting.
    """

    settings: Sequence[Setting]

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
