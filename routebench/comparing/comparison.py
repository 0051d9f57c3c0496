"""Every change between two folders with its verdict: a regression is bad, supported by the data, and above noise."""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from routebench import statistics
from routebench.analysis.wording import listed
from routebench.comparing.cells import Side, read_side
from routebench.comparing.change import (
    ALL,
    IMPROVEMENT,
    METHOD,
    NOISE,
    REGRESSION,
    SAME,
    SETTING,
    UNCOMPARED,
    UNDECIDED,
    UNJUDGED,
    UNSHOWN,
    Change,
)
from routebench.comparing.evidence import Evidence, weigh
from routebench.comparing.losses import Loss, losses_of
from routebench.comparing.noise import Noise
from routebench.comparing.one_seed import SEEN
from routebench.comparing.pairs import Pairs, notes_of, pair_up
from routebench.comparing.sensitivity import Sensitivity, sensitivities
from routebench.comparing.settings import SPEEDS, Group, Setting, once_timed, settings_of
from routebench.comparing.tolerances import ACCEPTED, Tolerance, least_to_see, refuse_unknown
from routebench.errors import unknown
from routebench.units import TIMED

TINY = 1e-9
"""p below which a loss of more than a point is not called noise, however large the noise floor of one seed.

Unchanged methods whose networks vary by 0.8 points over seeds gave down to 6e-8 on 1,000 images in 40 simulated runs.
"""


@dataclass(frozen=True)
class Comparison:
    """Two folders compared.

    Args:
        base, head: the folders.
        pairs: their cells.
        losses: what has a number in BASE only.
        changes: all rows.
        unjudged: metrics with a direction, without any verdict, though cells of theirs could be compared.
        alpha: chance of any false verdict.
        notes: sentences on what was left out, and why.
    """

    base: Side
    head: Side
    pairs: Pairs
    losses: tuple[Loss, ...]
    changes: tuple[Change, ...]
    unjudged: tuple[Group, ...]
    alpha: float
    notes: tuple[str, ...] = ()

    def with_verdict(self, *verdicts: str) -> list[Change]:
        """Rows with one of some verdicts, pooled ones first."""
        order = (ALL, METHOD, SETTING)
        found = [change for change in self.changes if change.verdict in verdicts]
        return sorted(found, key=lambda change: order.index(change.level))

    @property
    def blind(self) -> list[Sensitivity]:
        """Metrics of which a change that the gate has to see could have gone unseen."""
        return [one for one in sensitivities(self.changes) if one.blind]

    @property
    def exit_code(self) -> int:
        """Of the gate: 1 worse or newly broken, 4 undecided, blind or not judged, 3 cells that HEAD lacks, else 0."""
        if self.pairs.broken or self.losses or self.with_verdict(REGRESSION):
            return 1
        blind = any(one.undecided for one in self.blind)
        if blind or self.with_verdict(UNDECIDED) or not any(change.judged for change in self.changes):
            return 4
        if self.pairs.missing or self.pairs.uncompared:
            return 3
        return 4 if self.unjudged else 0


@dataclass(frozen=True)
class Wishes:
    """What a user asks of a comparison: `metrics` and `methods` empty for all; tolerances, and what must be seen."""

    metrics: Sequence[str] = ()
    methods: Sequence[str] = ()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    alpha: float = 0.05
    must_see: Mapping[str, Tolerance] = field(default_factory=dict)


def compare_folders(base: Path, head: Path, wishes: Wishes) -> Comparison:
    """Compares two results folders.

    Raises:
        UserError: a folder is missing or empty, they have nothing in common, or a metric or method is unknown.
    """
    ours, theirs = read_side(base), read_side(head)
    pairs = pair_up(ours, theirs)
    settings, notes = settings_of(pairs.measured, ours, theirs)
    lost = losses_of(pairs.measured)
    chosen = _chosen(settings, wishes, pairs, {loss.metric for loss in lost})
    judged = judge(chosen, Noise(settings), wishes)
    pairs = pairs.of_methods(wishes.methods)
    lost = losses_of(pairs.measured, wishes.metrics)
    told = notes_of(ours.of_methods(wishes.methods), theirs.of_methods(wishes.methods))
    unjudged = tuple(_unjudged(judged, wishes.tolerances))
    return Comparison(ours, theirs, pairs, lost, tuple(judged), unjudged, wishes.alpha, (*told, *notes))


def judge(settings: Sequence[Setting], noise: Noise, wishes: Wishes) -> list[Change]:
    """All rows over some settings, with their verdicts."""
    changes = [_plain(level, own) for level, own in _rows(settings)]
    judged = _judge([_weighed(change, noise, wishes) for change in changes], wishes.alpha)
    return [_of_all(change, judged, noise, wishes.alpha) for change in judged]


def _unjudged(changes: Iterable[Change], tolerances: Container[str]) -> Iterator[Group]:
    """Metrics without a verdict that should have one.

    Seconds that nothing repeats are asked for by a tolerance, and where all cells are not compared the cells tell it.
    """
    groups: dict[Group, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    for group, rows in groups.items():
        settings = [setting for row in rows for setting in row.settings]
        by_wish = group.metric not in tolerances and once_timed(settings)
        hidden = all(pair.obstacle for setting in settings for pair in setting.cells.values())
        told = any(row.judged or row.verdict == UNDECIDED for row in rows)
        if not (group.higher_is_better is None or by_wish or hidden or told):
            yield group


def _chosen(settings: Sequence[Setting], wishes: Wishes, pairs: Pairs, lost: set[str]) -> list[Setting]:
    """The settings asked for, without the machine's own speeds and without the spreads of other metrics.

    Raises:
        UserError: a wish names what was not measured.
    """
    metrics = {setting.group.metric for setting in settings} - set(SPEEDS)
    metrics = (metrics | lost) - {f"{metric}_iqr" for metric in metrics}
    if settings:
        refuse_unknown([*wishes.tolerances, *wishes.must_see], metrics)
    for metric in wishes.metrics:
        if settings and metric not in metrics:
            raise unknown("metric", metric, metrics)
    names = {name for setting in settings for name in _names(setting)}
    names |= {pair.base.label for own in (pairs.measured, pairs.broken, pairs.missing) for pair in own}
    for method in wishes.methods:
        if method not in names:
            raise unknown("method", method, names)
    return [
        setting
        for setting in settings
        if setting.group.metric in (wishes.metrics or metrics)
        and (not wishes.methods or _names(setting) & set(wishes.methods))
    ]


def _names(setting: Setting) -> set[str]:
    return {setting.method, next(iter(setting.cells.values())).address.method}


def _rows(settings: Sequence[Setting]) -> Iterable[tuple[str, list[Setting]]]:
    """Single settings; all of a method, if it has several; all of all methods, if there are several."""
    groups: dict[Group, dict[str, list[Setting]]] = {}
    for setting in settings:
        groups.setdefault(setting.group, {}).setdefault(setting.method, []).append(setting)
    for group, methods in groups.items():
        comparable = [[one for one in own if not one.obstacle] for own in methods.values()]
        yield from ((SETTING, [setting]) for own in methods.values() for setting in own)
        if group.higher_is_better is None:
            continue
        yield from ((METHOD, own) for own in comparable if len(own) > 1)
        if sum(bool(own) for own in comparable) > 1:
            yield ALL, [setting for own in comparable for setting in own]


def _plain(level: str, settings: Sequence[Setting]) -> Change:
    first = settings[0]
    name = {SETTING: first.name, METHOD: f"{first.method}, {len(settings)} settings"}.get(level, ALL)
    base = float(np.mean([values.mean() for setting in settings for values in setting.base.values()]))
    head = float(np.mean([values.mean() for setting in settings for values in setting.head.values()]))
    return Change(first.group, level, name, tuple(settings), base, head, Evidence("", math.nan))


def _weighed(change: Change, noise: Noise, wishes: Wishes) -> Change:
    """With its evidence, or with the reason why there is none."""
    group, obstacle = change.group, change.settings[0].obstacle
    wish = wishes.tolerances.get(group.metric)
    if group.higher_is_better is None:
        return replace(change, evidence=_direction_less(change), why="neither direction is better")
    if obstacle:
        return replace(change, verdict=UNCOMPARED, why=obstacle)
    evidence, accepted = weigh(change.settings, noise), 0.0
    if tolerance := wish or ACCEPTED.get(group.unit):
        accepted = tolerance.as_change(change.base, relative=group.relative, falls=evidence.change < 0)
    if wish and not evidence.kind:
        evidence = replace(evidence, kind="accepted", p_value=0.0, why="")
    elif not wish and group.unit in TIMED and once_timed(change.settings):
        why = f"no repeats tell how noisy it is; --tolerance {group.metric}=20% would judge it"
        return replace(change, evidence=replace(evidence, kind="", p_value=math.nan), why=why)
    threshold = max(evidence.floor, accepted)
    stated = wishes.must_see.get(group.metric)
    must_see = max(accepted, least_to_see(group, change.base, stated))
    same = not evidence.kind and evidence.change == 0
    verdict = SAME if same else UNJUDGED
    why = "" if same else evidence.why
    known = replace(change, evidence=evidence, accepted=accepted, threshold=threshold, verdict=verdict, why=why)
    return replace(known, must_see=must_see, stated=stated is not None)


def _direction_less(change: Change) -> Evidence:
    if change.settings[0].obstacle:
        return Evidence("", math.nan)
    return Evidence("", float(np.mean([setting.change(seed) for setting in change.settings for seed in setting.seeds])))


def _judge(changes: Sequence[Change], alpha: float) -> list[Change]:
    """Verdicts. Half of alpha goes to pooled rows and half to single settings; Holm within each."""
    judged = list(changes)
    for single in (True, False):
        places = [
            place
            for place, change in enumerate(changes)
            if (change.level == SETTING) == single and change.verdict != UNCOMPARED and change.evidence.kind
        ]
        tested = [changes[place].evidence.p_value for place in places]
        tested = [math.nan if changes[place].evidence.sure else p for place, p in zip(places, tested, strict=True)]
        adjusted = np.minimum(2 * statistics.holm(tested), 1.0)
        made = max(1, int(np.isfinite(adjusted).sum()))
        for place, p_value in zip(places, adjusted.tolist(), strict=True):
            change, own = changes[place], alpha / 2 / made
            could_see = max(change.evidence.detectable(own), change.threshold)
            p_value = change.evidence.p_value if change.evidence.sure else p_value  # noqa: PLW2901  # not corrected
            verdict, why = _verdict(change, p_value, alpha)
            judged[place] = replace(change, p_value=p_value, could_see=could_see, alpha=own, verdict=verdict, why=why)
    return judged


def _verdict(change: Change, p_value: float, alpha: float) -> tuple[str, str]:
    """The word, and the reason where it is no verdict."""
    size = change.evidence.change
    better = (size > 0) == change.group.higher_is_better
    if size == 0 and (change.base == change.head or change.evidence.kind == "accepted"):
        return SAME, ""
    if math.isnan(p_value):
        return (
            UNJUDGED if better or size == 0 else UNDECIDED
        ), "the same change with every seed, and no spread to test"
    if p_value >= alpha:
        return UNSHOWN, ""
    if abs(size) > change.threshold:
        return (IMPROVEMENT if better else REGRESSION), ""
    if change.of_one_seed and not better and abs(size) > max(SEEN, change.accepted) and change.evidence.p_value < TINY:
        return UNDECIDED, "the networks differ, and with one seed it may be the training: run more seeds"
    return NOISE, ""


def _of_all(change: Change, judged: Sequence[Change], noise: Noise, alpha: float) -> Change:
    """What all methods together did is called so only if it holds without those that are named, and any one more."""
    if change.level != ALL or change.verdict not in (REGRESSION, IMPROVEMENT):
        return change
    alike = [row for row in judged if (row.group, row.verdict) == (change.group, change.verdict) and row.level != ALL]
    named = list(dict.fromkeys(setting.method for row in alike for setting in row.settings))
    rest = list(dict.fromkeys(setting.method for setting in change.settings if setting.method not in named))
    left = [[one for one in rest if one != other] for other in rest] if len(rest) > 1 else [rest] if rest else []
    parts = [[setting for setting in change.settings if setting.method in methods] for methods in left]
    if all(_holds(change, weigh(part, noise), alpha) for part in parts):
        return change
    why = f"not of all methods: see {listed(named)}" if named else "not of all methods"
    return replace(change, verdict=UNSHOWN, why=why)


def _holds(change: Change, evidence: Evidence, alpha: float) -> bool:
    """Whether what some of a row's settings say is the same change."""
    same = (evidence.change > 0) == (change.evidence.change > 0)
    return same and evidence.p_value < alpha and abs(evidence.change) > max(evidence.floor, change.accepted)
