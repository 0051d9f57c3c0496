"""The evidence for a change from BASE to HEAD: its size, p-value, noise floor, and the smallest change detected.

Each way of measuring has a test of its own; `TESTS` names them for readers.

| what there is | test | noise floor |
| --- | --- | --- |
| right or wrong per test image | exact signs over images, all seeds of one together | spread over seeds (`one_seed`) |
| times, measured in turn | t over rounds | none: the t interval holds it |
| several seeds | t over seeds, paired | none: the t interval holds it |
| one value in each of several settings | t over settings (methods), spread by method, moderated | 95 % of the spread |
| bytes, operations, or a metric that no seed of any method varies | none needed | 0 |
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np
from scipy import special

from routebench import statistics
from routebench.catalogue import views_of
from routebench.comparing._noise import OWN, Noise, Spread
from routebench.comparing._series import ROUNDING, FloatArray, PairedSeries, once_timed
from routebench.engine.results import ended
from routebench.units import DETERMINED, TIMED

POWER = 0.8
MANY = 1000  # rounds or seeds, more than anyone runs
TESTS = {
    "samples": "paired by seed and image",
    "rounds": "paired by round",
    "seeds": "paired by seed",
    "settings": "paired by setting",
    "counted": "counted, no test needed",
    "accepted": "held against the tolerance",
}
LATEST = datetime.max.replace(tzinfo=UTC)
NOT_IN_TURN = (
    "BASE and HEAD were not measured in turn, so that nothing tells noise from change; "
    "`python -m routebench alternate` measures them so"
)


def _unknown(alpha: float) -> float:  # noqa: ARG001  # the signature is the interface
    return math.nan


def _no_number(alpha: float, size: float) -> int:  # noqa: ARG001  # the same
    return 0


@dataclass(frozen=True)
class Evidence:
    """The evidence for one change.

    Args:
        kind: key of `TESTS`; empty where nothing can be tested.
        change: HEAD - BASE, or the logarithm of HEAD / BASE; NaN where unknown.
        p_value: two-sided, raw; NaN where untestable.
        floor: a change up to here is noise; 0 where none is known or needed.
        detectable: from the level of a test to the smallest change that it finds 8 times in 10; NaN where unknown.
        why: what is missing, where there is no kind.
        needed: from a level and a size to the seeds or rounds that find it 8 times in 10; 0 if unknown.
        pairs: how many seeds or rounds there are, where they are what is tested.
        guessed: whether seeds are too few to tell the noise floor.
        usual: a change up to here is noise by BASE's spread over seeds alone; infinite where that tells nothing.
    """

    kind: str
    change: float
    p_value: float = math.nan
    floor: float = 0.0
    detectable: Callable[[float], float] = _unknown
    why: str = ""
    needed: Callable[[float, float], int] = _no_number
    pairs: int = 0
    guessed: bool = False
    usual: float = math.inf

    @property
    def sure(self) -> bool:
        """Tells whether no chance is in it, so that it needs no correction and takes part in none."""
        return self.kind in ("counted", "accepted")


def _by_error(error: float, least: float = 0.0) -> Callable[[float], float]:
    """The least change that a test with normal quantiles finds: with an error, made of steps of at least so much."""

    def detectable(alpha: float) -> float:
        z = -float(special.ndtri(alpha / 2)) + float(special.ndtri(POWER))
        return max(z * error, z * z * least)

    return detectable


def weigh(series: Sequence[PairedSeries], noise: Noise) -> Evidence:
    """The evidence for one change, over one series or several of one group."""
    first = series[0]
    changes = [float(np.mean([one.change(seed) for seed in one.seeds])) for one in series]
    change = float(np.median(changes)) if first.group.relative else float(np.mean(changes))
    if all(one.right for one in series) and len({_images(one) for one in series}) == 1:
        views = views_of(first.group.data, _images(first), first.told)
        if views is not None:
            return _over_samples(series, noise, views)
    if first.group.unit in DETERMINED or (first.group.unit != "%" and noise.is_steady(series)):
        same = all(value == 0 for value in changes)
        return Evidence("counted", change, 1.0 if same else 0.0, detectable=_by_error(0.0))
    if first.group.unit in TIMED and not once_timed(series):
        return _over_rounds(series, change)
    shared = set.intersection(*(set(one.seeds) for one in series))
    if len(shared) > 1:
        return _over_seeds(series, sorted(shared), noise)
    spread = noise.over_settings(series) if len(series) > 1 else None
    if spread is not None:
        return _by_spread("settings", change, *spread)
    same = change == 0 and not any(changes)
    return Evidence("", change, why="" if same else "one value on each side, and nothing that tells its noise")


def _images(series: PairedSeries) -> int:
    return int(next(iter(series.right.values())).shape[1])


def _over_samples(series: Sequence[PairedSeries], noise: Noise, views: int) -> Evidence:
    """McNemar's test over test images; so many in a row that show one object are one sample, as are several seeds."""
    right = np.stack([both for one in series for both in one.right.values()])  # (networks, 2, n_test)
    base, head = (statistics.by_view(right[:, side], views) for side in (0, 1))
    test = statistics.paired_samples_of_seeds(head, base)
    per_object = head.mean(axis=0) - base.mean(axis=0)
    networks, objects = base.shape
    error = 100 * float(np.sqrt((per_object**2).sum())) / objects
    floor = noise.over_seeds(series)
    least = 100 / (networks * objects)
    guessed = noise.is_guess(series)
    return Evidence(
        "samples", 100 * test.mean, test.p_value, floor, _by_error(error, least),
        guessed=guessed, usual=noise.of_base(series),
    )  # fmt: skip


def _over_rounds(series: Sequence[PairedSeries], change: float) -> Evidence:
    by_round = [changes_by_round(one) for one in series]
    rounds = min(map(len, by_round))
    if rounds < 2:
        return Evidence("", change, why="" if change == 0 else NOT_IN_TURN)
    return _by_t("rounds", np.mean([changes[:rounds] for changes in by_round], axis=0))


def changes_by_round(series: PairedSeries) -> FloatArray:
    """log(HEAD / BASE) in each round, in the order of time.

    A turn is all that one side measured before the other side measured again, and a round is a turn of BASE and one of
    HEAD. What a process measures has its luck in common (where its memory lies, how fast the machine is just then): a
    turn is one value, however many repeats and seeds it has. There are no rounds where both sides ran at one time.
    """
    if _at_one_time(series):
        return np.array([])
    in_time = sorted(
        (ended(getattr(pair, side).provenance) or LATEST, side, float(np.log(values[seed]).mean()))
        for side, values in (("base", series.base), ("head", series.head))
        for seed, pair in series.cells.items()
    )
    turns: dict[str, list[float]] = {"base": [], "head": []}
    for side, turn in groupby(in_time, key=itemgetter(1)):
        turns[side].append(float(np.mean([value for *_, value in turn])))
    rounds = min(map(len, turns.values()))
    return np.subtract(turns["head"][:rounds], turns["base"][:rounds], dtype=np.float64)


def _at_one_time(series: PairedSeries) -> bool:
    """Tells whether a run of one side began before a run of the other had ended, by more than a second of rounding."""
    base, head, rounding = [*_spans(series, "base")], [*_spans(series, "head")], timedelta(seconds=1)
    return any(
        began + rounding < other_end and other_began + rounding < end
        for began, end in base
        for other_began, other_end in head
    )


def _spans(series: PairedSeries, side: str) -> Iterator[tuple[datetime, datetime]]:
    """The beginnings and ends of the runs of a side, as far as their records say them."""
    for pair in series.cells.values():
        origin = getattr(pair, side).provenance
        end, seconds = ended(origin), origin.get("seconds")
        if end is not None and seconds is not None:
            yield end - timedelta(seconds=float(seconds)), end


def _over_seeds(series: Sequence[PairedSeries], seeds: Sequence[int], noise: Noise) -> Evidence:
    """Evidence by t. Changes equal but for rounding have no spread; it is then that of like rows, if these vary."""
    changes = np.array([[one.change(seed) for one in series] for seed in seeds]).mean(axis=1)
    size = float(np.abs(np.concatenate([one.base[seed] for one in series for seed in seeds])).max())
    if np.ptp(changes) <= ROUNDING * max(size, 1.0):
        change = float(changes[0])
        spreads = noise.of_equal_changes(series) if change else None
        if spreads is not None:
            moderated, own = (_by_spread("seeds", change, replace(own, count=len(seeds))) for own in spreads)
            return own if own.p_value > OWN else moderated
        changes = np.full(len(seeds), change)
    usual = noise.of_base(series)
    return replace(_by_t("seeds", changes), guessed=len(seeds) == 2 and usual == math.inf, usual=usual)


def _by_spread(kind: str, change: float, spread: Spread, floor: float = 0.0) -> Evidence:
    """Evidence by t, with a spread that is known otherwise."""
    error = math.sqrt(spread.variance / spread.count)
    if error == 0:
        return Evidence(kind, change, 1.0 if change == 0 else 0.0, floor, _by_error(0.0))
    p_value = float(2 * special.stdtr(spread.degrees, -abs(change) / error))
    return Evidence(kind, change, p_value, floor, _by_error(error))


def _by_t(kind: str, changes: FloatArray) -> Evidence:
    test = statistics.paired_difference(dict(enumerate(changes)), dict.fromkeys(range(changes.size), 0.0))
    deviation = float(np.std(changes, ddof=1))
    detectable = partial(statistics.smallest_detectable_difference, deviation, changes.size)
    needed = partial(_needed, deviation)
    return Evidence(kind, test.mean, test.p_value, detectable=detectable, needed=needed, pairs=changes.size)


def _needed(deviation: float, alpha: float, size: float) -> int:
    """The number of pairs that a t-test of that level needs to find that size 8 times in 10; 0 for more than `MANY`."""
    if statistics.smallest_detectable_difference(deviation, MANY, alpha) > size:
        return 0
    few, enough = 1, MANY
    while enough - few > 1:
        middle = (few + enough) // 2
        seen = statistics.smallest_detectable_difference(deviation, middle, alpha) <= size
        few, enough = (few, middle) if seen else (middle, enough)
    return enough
