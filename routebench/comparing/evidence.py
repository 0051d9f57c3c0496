"""What the numbers of BASE and HEAD support: a change, its p-value, the noise floor, and what could have been seen.

Each way of measuring has a test of its own; `QUESTIONS` says what it answers.

| what there is | test | noise floor |
| --- | --- | --- |
| right or wrong per test image | exact signs over images, all seeds of one together | spread over seeds (`one_seed`) |
| times, measured in turn | t over rounds | none: the t interval holds it |
| several seeds | t over seeds, paired | none: the t interval holds it |
| one value in each of several settings | t over settings (methods), spread pooled over methods | 95 % of the spread |
| a count, or a value that no seed varies | none needed | 0 |
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from routebench import statistics
from routebench.comparing.noise import Noise
from routebench.comparing.rounds import NOT_IN_TURN, changes_by_round
from routebench.comparing.settings import ROUNDING, FloatArray, Setting, once_timed
from routebench.units import COUNTED, TIMED

POWER = 0.8
MANY = 1000  # rounds or seeds, more than anyone runs

QUESTIONS = {
    "samples": "did the networks of these seeds get worse on these test images?",
    "rounds": "did the same work take longer, round by round?",
    "seeds": "does the mean change, seed by seed?",
    "settings": "does it change alike in all settings?",
    "counted": "is the count another?",
    "accepted": "is the change larger than the tolerance?",
}


def _unknown(alpha: float) -> float:  # noqa: ARG001  # the signature is the interface
    return math.nan


def _no_number(alpha: float, size: float) -> int:  # noqa: ARG001  # likewise
    return 0


@dataclass(frozen=True)
class Evidence:
    """What is known of one change.

    Args:
        kind: key of `QUESTIONS`; empty where nothing can be tested.
        change: HEAD - BASE, or the logarithm of HEAD / BASE; NaN where unknown.
        p_value: two-sided, raw; NaN where untestable.
        floor: a change up to here is noise; 0 where none is known or needed.
        detectable: from the level of a test to the smallest change that it finds 8 times in 10; NaN where unknown.
        why: what is missing, where there is no kind.
        needed: from a level and a size to the seeds or rounds that find it 8 times in 10; 0 if unknown.
        pairs: how many seeds or rounds there are, where they are what is tested.
    """

    kind: str
    change: float
    p_value: float = math.nan
    floor: float = 0.0
    detectable: Callable[[float], float] = _unknown
    why: str = ""
    needed: Callable[[float, float], int] = _no_number
    pairs: int = 0

    @property
    def sure(self) -> bool:
        """Whether no chance is in it, so that it needs no correction and takes part in none."""
        return self.kind in ("counted", "accepted")


def _by_error(error: float, least: float = 0.0) -> Callable[[float], float]:
    """What a test with normal quantiles finds: of a change with an error, made of steps of at least so much."""

    def detectable(alpha: float) -> float:
        z = -float(special.ndtri(alpha / 2)) + float(special.ndtri(POWER))
        return max(z * error, z * z * least)

    return detectable


def weigh(settings: Sequence[Setting], noise: Noise) -> Evidence:
    """The evidence for one change, over one setting or several of one group."""
    first = settings[0]
    changes = [float(np.mean([setting.change(seed) for seed in setting.seeds])) for setting in settings]
    change = float(np.median(changes)) if first.group.relative else float(np.mean(changes))
    if all(setting.right for setting in settings) and len({_images(setting) for setting in settings}) == 1:
        return _over_samples(settings, noise)
    if first.group.unit in COUNTED or (first.group.unit != "%" and all(setting.steady for setting in settings)):
        same = all(value == 0 for value in changes)
        return Evidence("counted", change, 1.0 if same else 0.0, detectable=_by_error(0.0))
    if first.group.unit in TIMED and not once_timed(settings):
        return _over_rounds(settings, change)
    shared = set.intersection(*(set(setting.seeds) for setting in settings))
    if len(shared) > 1:
        return _over_seeds(settings, sorted(shared))
    spread = noise.over_settings(settings) if len(settings) > 1 else None
    if spread is not None:
        return _over_settings(change, *spread)
    same = change == 0 and not any(changes)
    return Evidence("", change, why="" if same else "one value on each side, and nothing that tells its noise")


def _images(setting: Setting) -> int:
    return int(next(iter(setting.right.values())).shape[1])


def _over_samples(settings: Sequence[Setting], noise: Noise) -> Evidence:
    right = np.stack([both for setting in settings for both in setting.right.values()])  # (networks, 2, n_test)
    base, head = right[:, 0], right[:, 1]
    found = statistics.paired_samples_of_seeds(head, base)
    per_image = head.mean(axis=0) - base.mean(axis=0)
    networks, images = base.shape
    error = 100 * float(np.sqrt((per_image**2).sum())) / images
    floor = noise.over_seeds(settings)
    least = 100 / (networks * images)
    return Evidence("samples", 100 * found.mean, found.p_value, floor, _by_error(error, least))


def _over_rounds(settings: Sequence[Setting], change: float) -> Evidence:
    found = [changes_by_round(setting) for setting in settings]
    rounds = min(map(len, found))
    if rounds < 2:
        return Evidence("", change, why="" if change == 0 else NOT_IN_TURN)
    return _by_t("rounds", np.mean([changes[:rounds] for changes in found], axis=0))


def _over_seeds(settings: Sequence[Setting], seeds: Sequence[int]) -> Evidence:
    """By t. Changes that are the same but for rounding have no spread, and then there is no test."""
    changes = {seed: float(np.mean([setting.change(seed) for setting in settings])) for seed in seeds}
    size = max(abs(value) for setting in settings for seed in seeds for value in setting.base[seed])
    if np.ptp(list(changes.values())) <= ROUNDING * max(size, 1.0):
        changes = dict.fromkeys(seeds, changes[seeds[0]])
    return _by_t("seeds", np.array(list(changes.values())))


def _by_t(kind: str, changes: FloatArray) -> Evidence:
    found = statistics.paired_difference(dict(enumerate(changes)), dict.fromkeys(range(changes.size), 0.0))
    deviation = float(np.std(changes, ddof=1))
    detectable = partial(statistics.smallest_detectable_difference, deviation, changes.size)
    needed = partial(_needed, deviation)
    return Evidence(kind, found.mean, found.p_value, detectable=detectable, needed=needed, pairs=changes.size)


def _needed(deviation: float, alpha: float, size: float) -> int:
    """How many pairs a t-test of that level needs to find that size 8 times in 10; 0 where it is more than `MANY`."""
    if statistics.smallest_detectable_difference(deviation, MANY, alpha) > size:
        return 0
    few, enough = 1, MANY
    while enough - few > 1:
        middle = (few + enough) // 2
        seen = statistics.smallest_detectable_difference(deviation, middle, alpha) <= size
        few, enough = (few, middle) if seen else (middle, enough)
    return enough


def _over_settings(change: float, count: int, deviation: float, degrees: int, floor: float) -> Evidence:
    error = deviation / math.sqrt(count)
    if error == 0:
        return Evidence("settings", change, 1.0 if change == 0 else 0.0, floor, _by_error(0.0))
    p_value = float(2 * special.stdtr(degrees, -abs(change) / error))
    return Evidence("settings", change, p_value, floor, _by_error(error))
