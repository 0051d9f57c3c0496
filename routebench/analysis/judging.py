"""Claims of papers, and their verdicts by runs.

A claim has a statistic for each seed. The 95 % interval of its mean over seeds gives the verdict. If a paper defines no
statistic, the claim says which one is used here. Of a method that stands in several networks of a part, the claim is
judged in one of them (`Runs.in_one_network`), which its verdict names. A claim has no verdict in these cases:

- there is no interval;
- a compared method lost seeds: those that are left may be its good ones;
- a compared method was not run as the suite's file says, by `--set` for example: its settings may be chosen by results;
- as many seeds as may fall out of a method's others would undo what is found;
- a compared network still learns fast in its last epoch: its accuracy tells how fast it learns, not what it reaches;
- tuning gave a method another form than the claim is about.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from pandas import DataFrame

from routebench import registry
from routebench.analysis import wording
from routebench.analysis._estimate import Estimate, SeedValues, Sides, at_stake, range_of_difference
from routebench.analysis._estimate import difference as paired
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import MARGIN, Verdict
from routebench.analysis.contenders import falling
from routebench.catalogue import page_of
from routebench.declared import GAIN
from routebench.errors import UserError
from routebench.statistics import OVER_SEEDS, OVER_SEEDS_TWO_STAGES, Collapses

NOTHING_FELL: tuple[Sides, Sides] = ((Collapses(), Collapses()),) * 2
RISING = 5.0
"""Points of training accuracy in the last epoch, above which a network was trained too briefly to test a claim."""
Condition = tuple[str, int | None]  # label and iterations
BySeed = Mapping[int, float]
Compared = Sequence[str | Method]
"""What was compared, in the order of the difference: methods or their names, and in words what else tells it from
others."""
Statistics = Iterable[tuple[BySeed, Compared]]
"""Statistics that must support the claim, with what was compared; empty if a part holds too little."""


@dataclass(frozen=True)
class JudgedClaim:
    """The verdict of one part of a folder on a claim.

    Args:
        statistic: mean over seeds.
        verdict: on the claim.
        of: what was compared, in words.
        why: there is no verdict; empty with one.
    """

    statistic: Estimate
    verdict: Verdict
    of: str
    why: str = ""


@dataclass(frozen=True)
class PaperClaim:
    """A claim and its test.

    Args:
        claim: in our words.
        source: paper and section. Suites that repeat the paper begin their `paper` alike.
        tested: the statistic, its unit, and the condition that the claim sets.
        protocol: the protocol of the parts that can test it.
        statistics: the claim holds if all are above zero, and is undecided where one has no value; None if no test is
            written. Of the runs, and with `across` of all parts of the folder beside them.
        suite: what `routebench suite` is called with for the runs that the test needs.
        untestable: why no test is written; empty if there is one.
        no_gain: the claim holds if all are below the margin instead.
        across: whether it compares these runs with another part of the folder.
        at_first: whether it is about the first epoch, so that networks need not have learned all that they can.
        form: hyperparameters that the claim is about, in methods that have them.
    """

    claim: str
    source: str
    tested: str
    protocol: str = ""
    statistics: Callable[..., Statistics] | None = None
    suite: str = ""
    untestable: str = ""
    no_gain: bool = False
    across: bool = False
    at_first: bool = False
    form: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> str:
        """The command that makes the runs for the test, or why there is no test."""
        return f"routebench suite {self.suite}" if self.suite else self.untestable

    def _belongs_elsewhere(self, suite: str) -> bool:
        """Tells whether a suite says that it repeats another paper, in whose network the claim was not made."""
        paper = str(page_of(suite).get("paper", ""))
        return bool(paper) and not self.source.startswith(paper)

    def test(self, runs: Runs, parts: Sequence[Runs] = ()) -> JudgedClaim | None:
        """The verdict with the statistic that decides it; None if the runs hold too little.

        Args:
            runs: the runs of a part.
            parts: all parts of the folder, which claims with `across` compare.
        """
        if self.statistics is None or runs.protocol != self.protocol or self._belongs_elsewhere(runs.suite):
            return None
        several, runs, parts = runs.in_several, runs.in_one_network, [one.in_one_network for one in parts]
        told = [*(self.statistics(runs, parts) if self.across else self.statistics(runs))]
        like = [one for one in parts if (one.suite, one.preset, one.data) == (runs.suite, runs.preset, runs.data)]
        found = []
        for values, of in told:
            if values:
                beside = like if self.across else ()
                found.append(judged_in(runs, values, of, beside=beside, no_gain=self.no_gain, at_first=True))
        verdicts = {one.verdict for one in found}
        verdict = next((one for one in (Verdict.FAILS, Verdict.UNDECIDED) if one in verdicts), Verdict.HOLDS)
        can = [one for one in found if one.verdict == verdict]
        limit = "high" if verdict is Verdict.FAILS else "low"
        deciding = min(can, key=lambda one: float(getattr(one.statistic, limit)), default=None)
        if deciding is None:
            return None
        compared = [of for values, of in told if values]
        chosen = {one.model for one in runs.methods.values() if one.label in several and _is_among(one, compared)}
        of = f"{deciding.of} (in {wording.listed(sorted(chosen), len(chosen))})" if chosen else deciding.of
        epochs = None if self.at_first else still_learning(runs, compared)
        why = wording.plural(epochs, "epoch") if epochs else _other_form(runs, compared, self.form)
        lacking = [", ".join(map(str, of)) for values, of in told if not values]
        if not why and lacking and verdict == Verdict.HOLDS:
            return replace(deciding, verdict=Verdict.UNDECIDED, of=of, why=f"nothing is known of {lacking[0]}")
        return replace(deciding, verdict=Verdict.NOT_TESTED if why else verdict, of=of, why=why or deciding.why)


def every_claim(faults: list[str] | None = None) -> tuple[PaperClaim, ...]:
    """The claims of all papers: shipped folders in alphabetical order, then plug-in folders as they were loaded.

    Args:
        faults: takes a line for each `claims.py` that cannot be read, whose claims are left out; None raises instead.

    Raises:
        UserError: a `claims.py` cannot be imported, or has no tuple `CLAIMS` of `PaperClaim`.
    """
    found: list[PaperClaim] = []
    for file, load in registry.claims():
        try:
            found += _claims_of(file, load())
        except UserError as error:
            if faults is None:
                raise
            faults.append(str(error))
    return tuple(found)


def _claims_of(file: Path, module: ModuleType) -> tuple[PaperClaim, ...]:
    told = getattr(module, "CLAIMS", None)
    if isinstance(told, tuple) and all(isinstance(claim, PaperClaim) for claim in told):
        return told
    raise UserError(
        f"{file}: expected CLAIMS = (PaperClaim(...), ...), got {_named(told)}; "
        "give the file such a tuple, or take it out of the folder"
    )


def _named(told: object) -> str:
    """The value that a file has for `CLAIMS`, in words."""
    if not isinstance(told, tuple):
        return "no CLAIMS" if told is None else f"a {type(told).__name__}"
    return f"a tuple with a {next(type(one).__name__ for one in told if not isinstance(one, PaperClaim))}"


def _lost_in_words(parts: Iterable[Runs], values: BySeed, of: Compared = ()) -> str:
    """Says that a statistic lacks seeds which some method lost, or which have a result with all that it compares.

    Empty if it lacks none. A run may have finished and lack this number: it was none, or was not measured.
    """
    methods = {method for runs in parts for method in runs.methods.values()}
    finished = [[method.finished for method in methods if _is_among(method, [[name]])] for name in of]
    sides = [seeds for own in finished for seeds in own]
    everywhere = frozenset.intersection(*sides) if sides else frozenset()
    lost = frozenset().union(everywhere, *(method.lost for method in methods)) - {*values}
    return f"{wording.plural(len(lost), 'seed')} without a result, which may be the bad ones" if lost else ""


def _altered_in_words(parts: Iterable[Runs], of: Compared) -> str:
    """Says that runs of what is compared were made otherwise than the suite's file says; empty if none was."""
    altered = {method for part in parts for cell, method in part.methods.items() if cell in part.altered}
    return "runs other than in the suite's file" if any(_is_among(method, [of]) for method in altered) else ""


def _sides(runs: Runs, values: BySeed, of: Compared) -> tuple[Sides, Sides]:
    """Seeds that fall out with the first and with the last method that is named, if values are points of accuracy."""
    if SeedValues.of(values).within != GAIN:
        return NOTHING_FELL
    methods = dict.fromkeys(runs.methods.values())
    named = [(one.label, one.model) for name in of for one in methods if _is_among(one, [[name]])]
    known = falling(runs)
    first, last = (known.get(named[end], NOTHING_FELL[0]) if named else NOTHING_FELL[0] for end in (0, -1))
    return first, last


def still_learning(runs: Runs, named: Iterable[Compared]) -> int | None:
    """Epochs of training, if a named method's training accuracy still rose by more than `RISING` points in the last.

    Args:
        runs: a part of a folder; parts without training accuracy tell nothing.
        named: what statistics compare.
    """
    rows = runs.values("train_accuracy")
    if "epoch" not in rows:
        return None
    curves = rows.groupby(["method", "epoch"])["value"].mean()
    for method in curves.index.unique("method"):
        curve = curves[method].sort_index()
        if len(curve) > 1 and curve.iloc[-1] - curve.iloc[-2] > RISING and _is_among(method, named):
            return int(curve.index[-1])
    return None


def _other_form(runs: Runs, named: Iterable[Compared], form: Mapping[str, Any]) -> str:
    """The first hyperparameter in which a named method has another value than in `form`, in words; empty for none."""
    methods = {*runs.methods.values()} if form else set()
    meant = {one for one in methods if _is_among(one, named)}
    for cell, method in runs.methods.items():
        if method in meant:
            own = runs.hyperparameters(cell)
            for name, value in form.items():
                if own.get(name, value) != value:
                    return f"tuned to {name.replace('_', ' ')} = {str(own[name]).lower()}"
    return ""


def _is_among(method: Method, named: Iterable[Compared]) -> bool:
    """Tells whether a method is one of those that statistics compare."""
    names, key = _names(method), _key(method)
    return any(_key(name) == key if isinstance(name, Method) else name in names for of in named for name in of)


def _key(method: Method) -> tuple[str, str, int | None]:
    return method.label, method.model, method.iterations


def _names(method: Method) -> set[str]:
    """Names under which statistics may mean a method: its spelling without T stands for every T."""
    bare = replace(method, yours=False, planned=frozenset(), finished=frozenset(), lost=frozenset())
    return {method.label, method.exact, str(method), str(bare)}


def judged_in(
    runs: Runs,
    values: BySeed,
    of: Compared,
    *,
    beside: Sequence[Runs] = (),
    no_gain: bool = False,
    at_first: bool = False,
) -> JudgedClaim:
    """Judges values of runs as `judged` does, unless seeds were lost or networks have not learned all that they can.

    Args:
        runs: the runs of the values.
        values: by seed.
        of: what was compared.
        beside: other parts that the values come from.
        no_gain: whether the claim holds below the margin.
        at_first: whether it is about the first epoch, so that networks need not have learned all that they can.

    Raises:
        UserError: what was compared is a text, whose names cannot be told apart.
    """
    if isinstance(of, str):
        raise UserError(f'expected what was compared as a tuple of names, ("em", "uniform"), got the text {of!r:.80}')
    runs, beside = runs.in_one_network, [one.in_one_network for one in beside]
    found = judged(values, ", ".join(map(str, of)), no_gain=no_gain, first=runs.first, sides=_sides(runs, values, of))
    if why := _lost_in_words((runs, *beside), values, of) or _altered_in_words((runs, *beside), of):
        found = replace(found, verdict=Verdict.UNDECIDED, why=why)
    epochs = None if at_first else still_learning(runs, [of])
    return replace(found, verdict=Verdict.NOT_TESTED, why=wording.plural(epochs, "epoch")) if epochs else found


def judged(
    values: BySeed,
    of: str = "",
    *,
    no_gain: bool = False,
    first: int | None = None,
    sides: tuple[Sides, Sides] = NOTHING_FELL,
) -> JudgedClaim:
    """Judges values, one per seed: the claim holds above zero, or with `no_gain` below the margin (points).

    Args:
        values: by seed.
        of: what was compared.
        no_gain: see above.
        first: the seeds below this number are the first of two stages; None for one stage.
        sides: seeds that fall out with the first and the second method.
    """
    own = SeedValues(values, first, SeedValues.of(values).within)
    found, verdict = paired(own, SeedValues(dict.fromkeys(own, 0.0), within=(0.0, 0.0))), Verdict.UNDECIDED
    found = replace(found, p=math.nan)
    if found.kind not in (OVER_SEEDS, OVER_SEEDS_TWO_STAGES):
        return JudgedClaim(found, verdict, of)
    for_it, against = (found.high < MARGIN, found.low > 0) if no_gain else (found.low > 0, found.high < 0)
    verdict = Verdict.FAILS if against else Verdict.HOLDS if for_it else Verdict.UNDECIDED
    is_above = found.low > 0
    stake, middle = at_stake(*sides, ahead=is_above), float(np.median([*own.values()]))
    limit = MARGIN if no_gain and not is_above else 0.0
    if verdict != Verdict.UNDECIDED and stake and (middle <= stake if is_above else middle + stake >= limit):
        why = "as many seeds as may fall out of a method's others would undo it"
        return JudgedClaim(found, Verdict.UNDECIDED, of, why)
    return JudgedClaim(found, verdict, of)


def difference(ours: BySeed, theirs: BySeed) -> SeedValues:
    """`ours - theirs`, for each seed that has both.

    Args:
        ours, theirs: values by seed.
    """
    found = {seed: ours[seed] - theirs[seed] for seed in sorted(set(ours) & set(theirs))}
    within = range_of_difference(*(SeedValues.of(one).within for one in (ours, theirs)))
    return SeedValues(found, SeedValues.of(ours).first, within)


def rows_of(runs: Runs, condition: Condition, metric: str, *, as_trained: bool = False, **where: object) -> DataFrame:
    """The same as `Runs.values`, for one method on the network of the runs.

    Args:
        runs: the runs of a part.
        condition: label and T of the method.
        metric, as_trained, where: as for `Runs.values`.
    """
    rows = runs.values(metric, as_trained=as_trained, **where)
    return rows[rows["cell"].isin(_cells_of(runs, condition))]


def _cells_of(runs: Runs, condition: Condition) -> dict[str, Method]:
    """The runs of one method on the network of the runs."""
    known, wanted = runs.methods, (*condition, runs.model)
    return {cell: one for cell, one in known.items() if (one.label, one.iterations, one.model) == wanted}


def values_of(runs: Runs, condition: Condition, metric: str, epoch: str = "", **where: Any) -> SeedValues:
    """The same by seed.

    Args:
        runs, condition, metric, where: as for `rows_of`.
        epoch: `min` for the first that the method has, `max` for the last; empty for a metric that has none.
    """
    rows = rows_of(runs, condition, metric, **where)
    if epoch:
        rows = rows[rows["epoch"] == rows["epoch"].agg(epoch)]
    found = runs.seed_values(metric, str(rows["unit"].iloc[0]) if len(rows) and "unit" in rows else "")
    found.update({int(seed): float(value) for seed, value in zip(rows["seed"], rows["value"], strict=True)})
    for method in _cells_of(runs, condition).values():
        found.lost = method.without_value(found)
    return found


_ACCURACIES: WeakKeyDictionary[Runs, dict[Method, SeedValues]] = WeakKeyDictionary()


def accuracies(runs: Runs) -> dict[Method, SeedValues]:
    """Test accuracy (%) at the T of training, by method in alphabetical order, then by seed, `in_one_network`."""
    runs = runs.in_one_network
    if runs not in _ACCURACIES:
        found = runs.accuracies_by_seed()
        _ACCURACIES[runs] = {method: found[method] for method in sorted(found)}
    return {**_ACCURACIES[runs]}


def accuracy_gain(ours: str, theirs: str, runs: Runs) -> Statistics:
    """Points by which one label leads another at the same T; at the largest T that both have.

    Args:
        ours, theirs: labels of methods.
        runs: the runs of a part.
    """
    found = accuracies(runs)
    known = {(method.label, method.iterations or 0): method for method in found}
    shared = [steps for label, steps in known if label == ours and (theirs, steps) in known]
    if shared:
        one, other = known[ours, max(shared)], known[theirs, max(shared)]
        yield difference(found[one], found[other]), (one, other)


def slopes(line: Mapping[int, BySeed]) -> dict[int, float]:
    """Points of accuracy per iteration by least squares, for each seed that has every T; empty below three T."""
    if len(line) < 3:
        return {}
    steps, seeds = sorted(line), set.intersection(*(set(own) for own in line.values()))
    return {seed: float(np.polyfit(steps, [line[t][seed] for t in steps], 1)[0]) for seed in seeds}


def deviations(line: Mapping[int, BySeed]) -> dict[int, float]:
    """Standard deviation of accuracy over T, in points, for each seed that has every T."""
    seeds = set.intersection(*(set(own) for own in line.values()))
    return {seed: float(np.std([line[t][seed] for t in sorted(line)])) for seed in sorted(seeds)}


def lines_of(runs: Runs, method: str) -> dict[str, dict[int, BySeed]]:
    """Accuracies by label, T and seed, for the forms of a method that differ in hyperparameters alone.

    Args:
        runs: the runs of a part.
        method: its registered name.
    """
    found: dict[str, dict[int, BySeed]] = {}
    for one, own in accuracies(runs).items():
        if one.name == method and one.iterations and not one.variant:
            found.setdefault(one.label, {})[one.iterations] = own
    return found


def longest_line(runs: Runs, method: str) -> tuple[str, dict[int, BySeed]]:
    """The label with the most values of T, with its line; the first by name if several have as many.

    Args:
        runs, method: as for `lines_of`.
    """
    return max(lines_of(runs, method).items(), key=lambda line: len(line[1]), default=(method, {}))
