"""Judges the change of every metric from BASE to HEAD. A regression is bad, significant, and above the noise floor."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from routebench import statistics
from routebench.analysis import Verdict
from routebench.analysis.wording import listed
from routebench.comparing._evidence import Evidence, weigh
from routebench.comparing._noise import SEEN, Noise
from routebench.comparing._series import NO_RATIO, Group, PairedSeries, mean, once_timed
from routebench.errors import UserError
from routebench.units import TIMED

SETTING, METHOD, ALL = "setting", "method", "all methods"


@dataclass(frozen=True)
class Change:
    """One row: the change of one metric from BASE to HEAD, in one series or over several.

    Args:
        group: the metric.
        level: `SETTING` (one series), `METHOD` (all of a method) or `ALL` (methods).
        name: the name of the method and setting.
        series: those that it is computed from.
        base, head: means over series, seeds and repeats, in the metric's unit.
        evidence: as a difference, or as the logarithm of a ratio.
        p_value: after Holm's correction; NaN where untestable.
        accepted: the tolerance, on the scale of the evidence.
        threshold: noise floor or tolerance, the larger.
        could_see: the smallest change that is detected 8 times in 10; NaN if unknown.
        must_see: the smallest change that the gate has to detect; infinite where no row is judged.
        stated: whether the user set `must_see`.
        alpha: the level of the test behind `could_see`.
        verdict: on the change.
        why: the reason, if there is no verdict.
    """

    group: Group
    level: str
    name: str
    series: tuple[PairedSeries, ...]
    base: float
    head: float
    evidence: Evidence
    p_value: float = math.nan
    accepted: float = 0.0
    threshold: float = 0.0
    could_see: float = math.nan
    must_see: float = math.inf
    stated: bool = False
    alpha: float = math.nan
    verdict: Verdict = Verdict.UNJUDGED
    why: str = ""

    @property
    def method(self) -> str:
        """Label of the method; `all methods` over all."""
        return self.name if self.level == ALL else self.series[0].method

    @property
    def judged(self) -> bool:
        """Tells whether a verdict could be reached."""
        return self.verdict not in (Verdict.UNDECIDED, Verdict.UNJUDGED, Verdict.UNCOMPARED)

    @property
    def blind(self) -> bool:
        """Tells whether the gate could have missed a change that it has to detect."""
        return self.must_see < math.inf and not self.could_see <= self.must_see + 1e-9

    @property
    def needed(self) -> int:
        """The total number of seeds or rounds that would detect `must_see`; 0 if unknown."""
        return self.evidence.needed(self.alpha, self.must_see)


@dataclass(frozen=True)
class Tolerance:
    """A change up to `value` is accepted: in the metric's unit, or in % of BASE's mean."""

    value: float
    percent: bool

    def as_change(self, base: float, *, relative: bool, falls: bool = False) -> float:
        """The largest accepted change, as a difference or as the logarithm of a ratio.

        Args:
            base: mean of BASE.
            relative: whether changes are logarithms of ratios.
            falls: whether HEAD is smaller. A tenth less has a larger logarithm than a tenth more.
        """
        if not relative:
            return abs(base) * self.value / 100 if self.percent else self.value
        share = self.value / 100 if self.percent else self.value / abs(base) if base else math.inf
        if not falls:
            return math.log1p(share)
        return -math.log1p(-share) if share < 1 else math.inf


ACCEPTED = {"bytes": Tolerance(1, percent=True)} | dict.fromkeys(TIMED, Tolerance(10, percent=True))
"""The default tolerance by unit.

Another version of torch allocates a few bytes more. In a few rounds, times can differ by a few per cent by chance.
"""


def least_to_see(group: Group, base: float, head: float, wish: Tolerance | None) -> float:
    """The change that the gate has to detect: the user's; else 30 % of a time, 1 point of a share, 20 % of all others.

    Args:
        group: the metric.
        base, head: means; the larger one counts.
        wish: the user's.

    Returns:
        a difference, or the logarithm of a ratio.
    """
    if wish is not None:
        return wish.as_change(base, relative=group.relative)
    if group.relative:
        return math.log(1.3 if group.unit in TIMED else 1.2)
    return 1.0 if group.unit in ("%", "points") else max(abs(base), abs(head)) / 5


def read_tolerances(texts: Iterable[str], option: str = "--tolerance") -> dict[str, Tolerance]:
    """`METRIC=VALUE` or `METRIC=VALUE%`, by metric.

    Args:
        texts: as typed.
        option: the option that they were typed for.

    Raises:
        UserError: a text is neither, its value is negative, or two are for one metric.
    """
    tolerances = {}
    for text in texts:
        metric, _, value = text.partition("=")
        number = value.strip().removesuffix("%")
        try:
            size = float(number)
        except ValueError:
            size = math.nan
        if not metric.strip() or not 0 <= size < math.inf:
            raise UserError(f"expected {option} METRIC=VALUE or METRIC=VALUE%, such as accuracy=0.5, got {text!r}")
        if metric.strip() in tolerances:
            raise UserError(f"expected {option} once for each metric, got {metric.strip()} twice")
        tolerances[metric.strip()] = Tolerance(size, value.strip().endswith("%"))
    return tolerances


OUTSIDE = "more than BASE's seeds differ by, and HEAD's differ too much for a test: run more seeds"
HIDDEN = "seeds differ by so much that a loss of any size would count as noise: run more seeds"
LARGEST, LARGEST_RATIO = {"%": 100.0, "points": 100.0}, math.log(1e6)
"""The largest change that says something, by unit; and the largest logarithm of a ratio."""
NEARLY = 1e-9
"""A share of a limit by which a change may exceed it: 95.7 is 0.7 more than 95.0, but not in floating point."""
TINY = 1e-9
"""The p below which a loss of more than a point is undecided, where seeds do not tell the noise, or hide any loss.

In 40 simulated runs of unchanged methods, with a spread of 0.8 points over seeds and 1,000 images, the smallest p was
6e-8.
"""


@dataclass(frozen=True)
class Wishes:
    """The user's options of a comparison. `metrics` and `methods` are empty for all.

    Raises:
        UserError: `alpha` is not between 0 and 1.
    """

    metrics: Sequence[str] = ()
    methods: Sequence[str] = ()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    alpha: float = statistics.ALPHA
    must_see: Mapping[str, Tolerance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha: expected a number above 0 and below 1, got {self.alpha!r}")


def judge(series: Sequence[PairedSeries], noise: Noise, wishes: Wishes) -> list[Change]:
    """All rows over some series, with their verdicts."""
    changes = [_plain(level, own) for level, own in _rows(series)]
    judged = _judge([_weighed(change, noise, wishes) for change in changes], wishes.alpha)
    return [_left_open(_of_all(change, judged, noise, wishes.alpha), judged) for change in judged]


def _rows(series: Sequence[PairedSeries]) -> Iterable[tuple[str, list[PairedSeries]]]:
    """Each series; each method with several series; all methods, if there are several."""
    groups: dict[Group, dict[str, list[PairedSeries]]] = {}
    for one in series:
        groups.setdefault(one.group, {}).setdefault(one.method, []).append(one)
    for group, methods in groups.items():
        comparable = [[one for one in own if not one.obstacle] for own in methods.values()]
        yield from ((SETTING, [one]) for own in methods.values() for one in own)
        if group.higher_is_better is None:
            continue
        yield from ((METHOD, own) for own in comparable if len(own) > 1)
        if sum(bool(own) for own in comparable) > 1:
            yield ALL, [one for own in comparable for one in own]


def _plain(level: str, series: Sequence[PairedSeries]) -> Change:
    first = series[0]
    name = {SETTING: first.name, METHOD: f"{first.method}, {len(series)} settings"}.get(level, ALL)
    base = float(np.mean([mean(values) for one in series for values in one.base.values()]))
    head = float(np.mean([mean(values) for one in series for values in one.head.values()]))
    return Change(first.group, level, name, tuple(series), base, head, Evidence("", math.nan))


def _weighed(change: Change, noise: Noise, wishes: Wishes) -> Change:
    """Adds the evidence, or the reason why there is none."""
    group, obstacle = change.group, change.series[0].obstacle
    wish = wishes.tolerances.get(group.metric)
    if group.higher_is_better is None:
        return replace(change, evidence=_direction_less(change), why="neither direction is better")
    if obstacle:
        return replace(change, verdict=Verdict.UNCOMPARED, why=obstacle)
    evidence, accepted = weigh(change.series, noise), 0.0
    if tolerance := wish or ACCEPTED.get(group.unit):
        accepted = tolerance.as_change(change.base, relative=group.relative, falls=evidence.change < 0)
    once = group.unit in TIMED and once_timed(change.series)
    if wish and not evidence.kind and (once or group.unit not in TIMED):  # what was not measured in turn stays so
        evidence = replace(evidence, kind="accepted", why="")
    elif once and not wish:
        why = f"no repeats tell how noisy it is; --tolerance {group.metric}=20% would judge it"
        return replace(change, evidence=replace(evidence, kind="", p_value=math.nan), why=why)
    threshold = max(evidence.floor, accepted)
    stated = wishes.must_see.get(group.metric)
    must_see = max(accepted, least_to_see(group, change.base, change.head, stated))
    same = not evidence.kind and evidence.change == 0
    verdict = Verdict.SAME if same else Verdict.UNJUDGED
    why = "" if same else evidence.why
    weighed = replace(change, evidence=evidence, accepted=accepted, threshold=threshold, verdict=verdict, why=why)
    return replace(weighed, must_see=must_see, stated=stated is not None)


def _direction_less(change: Change) -> Evidence:
    if change.series[0].obstacle:
        return Evidence("", math.nan)
    return Evidence("", float(np.mean([one.change(seed) for one in change.series for seed in one.seeds])))


def _judge(changes: Sequence[Change], alpha: float) -> list[Change]:
    """Adds verdicts. Half of alpha is for pooled rows and half for single series; Holm's correction within each."""
    judged = list(changes)
    for single in (True, False):
        places = [
            place
            for place, change in enumerate(changes)
            if (change.level == SETTING) == single and change.verdict != Verdict.UNCOMPARED and change.evidence.kind
        ]
        tested = [changes[place].evidence.p_value for place in places]
        tested = [math.nan if changes[place].evidence.sure else p for place, p in zip(places, tested, strict=True)]
        adjusted = np.minimum(2 * statistics.holm(tested), 1.0)
        made = max(1, int(np.isfinite(adjusted).sum()))
        for place, p_value in zip(places, adjusted.tolist(), strict=True):
            change, each = changes[place], alpha / 2 / made
            could_see = max(change.evidence.detectable(each), change.threshold)
            if could_see > _largest(change.group):
                could_see = math.nan  # nothing that a reader could use
            p_value = change.evidence.p_value if change.evidence.sure else p_value  # noqa: PLW2901  # not corrected
            verdict, why = _verdict(change, p_value, alpha)
            judged[place] = replace(change, p_value=p_value, could_see=could_see, alpha=each, verdict=verdict, why=why)
    return judged


def _verdict(change: Change, p_value: float, alpha: float) -> tuple[Verdict, str]:
    """The verdict, and the reason if there is none."""
    size = change.evidence.change
    better = (size > 0) == change.group.higher_is_better
    if size == 0 and (change.base == change.head or change.evidence.kind == "accepted"):
        return Verdict.SAME, ""
    accepted = change.evidence.kind == "accepted"
    if math.isnan(p_value) and not accepted and _exceeds(size, change.accepted):
        return (
            Verdict.UNJUDGED if better else Verdict.UNDECIDED
        ), "the same change with every seed, and no spread to test"
    if (accepted or p_value < alpha) and _exceeds(size, change.threshold):
        return (Verdict.IMPROVEMENT if better else Verdict.REGRESSION), ""
    if not better and (why := _doubt(change, shown=p_value < alpha)):
        return Verdict.UNDECIDED, why
    return (Verdict.UNSHOWN if p_value >= alpha else Verdict.NOISE), ""


def _doubt(change: Change, *, shown: bool) -> str:
    """The reason why a loss that is no regression is no noise either; empty if there is none."""
    evidence, size = change.evidence, change.evidence.change
    if _exceeds(size, max(evidence.usual, change.must_see)):
        return OUTSIDE
    if not (shown and evidence.p_value < TINY):
        return ""
    if change.threshold > _largest_loss(change) and _exceeds(size, change.must_see):
        return HIDDEN
    return _few_seeds(change) if evidence.guessed and _exceeds(size, max(SEEN, change.accepted)) else ""


def _exceeds(size: float, limit: float) -> bool:
    """Tells whether a change of this size, in either direction, is larger than a limit, by more than rounding."""
    return abs(size) > limit * (1 + NEARLY)


def _largest(group: Group) -> float:
    """The largest change of a metric that says something."""
    return LARGEST_RATIO if group.relative else LARGEST.get(group.unit, math.inf)


def _largest_loss(change: Change) -> float:
    """The largest loss that BASE's mean leaves room for."""
    if change.group.unit != "%":
        return _largest(change.group)
    return change.base if change.group.higher_is_better else 100 - change.base


def _few_seeds(change: Change) -> str:
    seeds = "one seed" if min(len(one.seeds) for one in change.series) == 1 else "two seeds"
    return f"the networks differ, and with {seeds} it may be the training: run more seeds"


def _of_all(change: Change, judged: Sequence[Change], noise: Noise, alpha: float) -> Change:
    """Blames all methods only if the change remains without the methods named, and without any one of the others."""
    if change.level != ALL or change.verdict not in (Verdict.REGRESSION, Verdict.IMPROVEMENT):
        return change
    alike = [row for row in judged if (row.group, row.verdict) == (change.group, change.verdict) and row.level != ALL]
    named = list(dict.fromkeys(one.method for row in alike for one in row.series))
    rest = list(dict.fromkeys(one.method for one in change.series if one.method not in named))
    left = [[one for one in rest if one != other] for other in rest] if len(rest) > 1 else [rest] if rest else []
    parts = [[one for one in change.series if one.method in methods] for methods in left]
    if all(_holds(change, weigh(part, noise), alpha) for part in parts):
        return change
    why = f"not of all methods: see {listed(named)}" if named else "not of all methods"
    return replace(change, verdict=Verdict.UNSHOWN, why=why)


def _left_open(change: Change, judged: Sequence[Change]) -> Change:
    """Undecided, if a single series is worse by what the gate has to detect, and no test judges it or its method.

    Two seeds make no test where nothing else tells how seeds spread. Times are left as they are: the gate says which of
    them were not measured in turn.
    """
    open_ratio = change.verdict == Verdict.UNCOMPARED and change.why == NO_RATIO
    untested = change.verdict == Verdict.UNJUDGED and not change.evidence.kind
    guess = change.verdict == Verdict.UNSHOWN and change.evidence.kind == "seeds" and change.evidence.guessed
    if change.level != SETTING or not (open_ratio or untested or guess):
        return change
    rises = change.head > change.base
    if change.group.higher_is_better is None or change.head == change.base or rises == change.group.higher_is_better:
        return change
    (series,) = change.series
    methods = [row for row in judged if row.level == METHOD and row.judged]
    of_method = not guess and any(one is series for row in methods for one in row.series)
    is_large = open_ratio or (_exceeds(change.evidence.change, change.must_see) and change.group.unit not in TIMED)
    why = _few_seeds(change) if guess else change.why
    return replace(change, verdict=Verdict.UNDECIDED, why=why) if is_large and not of_method else change


def _holds(change: Change, evidence: Evidence, alpha: float) -> bool:
    """Tells whether some of a row's series show the same change."""
    same = (evidence.change > 0) == (change.evidence.change > 0)
    return same and evidence.p_value < alpha and _exceeds(evidence.change, max(evidence.floor, change.accepted))
