"""Claims that the source papers make in words, each as a test on one part of a results folder.

A claim has a statistic for each seed. The 95 % interval of its mean over seeds gives the verdict; without an interval
there is none. Nor is there one where a compared network still learns fast in its last epoch: its accuracy tells how
fast it learns, not what it reaches; or where tuning gave a method another form than the claim is about. If a paper
defines no statistic, the claim says which one is used here.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import wording
from routebench.analysis._estimate import Estimate, mean_of
from routebench.analysis._method import Method
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import MARGIN
from routebench.statistics import OVER_SEEDS

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds here", "does not hold here", "undecided", "not run"
UNTESTED = "not tested"
RISING = 5.0
"""Points of training accuracy in the last epoch, above which a network was trained too briefly to test a claim."""
KIEFER = "Kiefer et al., section 3.1 and appendix A"
TSAI = "Tsai et al. 2020, figure 4"
HINTON = "Hinton et al. 2018"
AUTHORS = ("hinton", "tsai", "kiefer", "smith")
"""How the names of suites begin that repeat a paper."""
SPARSE = 0.5  # Hoyer: half way between evenly spread, 0, and one capsule alone, 1
Condition = tuple[str, int | None]  # label and iterations
ROUTED: Condition = ("dynamic", 3)
UNROUTED: Condition = ("none", None)
"""The two conditions that Kiefer et al. compare."""
PLAIN = {"inference": "plain", "targets": "label", "free": "classes"}
"""Inference without a penalty, as in figure 1 of Kiefer et al."""
MIDDLE = "-intermediate"
"""How the names end of networks with a layer in between."""
NORMALISED = {"layer_norm": True}
"""Inverted attention as its paper has it: without, it is ablation A."""
BySeed = Mapping[int, float]
Statistics = Iterable[tuple[BySeed, str]]
"""Statistics that must support the claim, with the methods compared; empty if a part holds too little."""


@dataclass(frozen=True)
class JudgedClaim:
    """The verdict of one part of a folder on a claim.

    Args:
        statistic: mean over seeds.
        verdict: one of this module's.
        of: the methods that were compared.
        why: there is no verdict; empty with one.
    """

    statistic: Estimate
    verdict: str
    of: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.why}" if self.why else self.verdict


@dataclass(frozen=True)
class PaperClaim:
    """A claim and its test.

    Args:
        claim: in our words.
        source: paper and section.
        tested: the statistic, its unit, and the condition that the claim sets.
        protocol: of the parts that can test it.
        statistics: the claim holds if all are above zero; None if no test is written. Of the runs, and with
            `across` of all parts of the folder beside them.
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
        """Whether a suite repeats another paper, in whose network the claim was not made."""
        first = suite.partition("-")[0]
        return first in AUTHORS and not self.source.lower().startswith(first)

    def test(self, runs: Runs, parts: Sequence[Runs] = ()) -> JudgedClaim | None:
        """The verdict with the statistic that decides it; None if the runs hold too little."""
        if self.statistics is None or runs.protocol != self.protocol or self._belongs_elsewhere(runs.suite):
            return None
        told = [*(self.statistics(runs, parts) if self.across else self.statistics(runs))]
        found = [judged(values, of, no_gain=self.no_gain) for values, of in told if values]
        verdicts = {one.verdict for one in found}
        verdict = FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else UNDECIDED
        deciding = min(
            found, key=lambda one: one.statistic.high if verdict == FAILS else one.statistic.low, default=None
        )
        if deciding is None:
            return None
        compared = [of for values, of in told if values]
        epochs = None if self.at_first else still_learning(runs, compared)
        why = wording.plural(epochs, "epoch") if epochs else other_form(runs, compared, self.form)
        return replace(deciding, verdict=UNTESTED if why else verdict, why=why)


def still_learning(runs: Runs, named: Iterable[str]) -> int | None:
    """Epochs of training, if a named method's training accuracy still rose by more than `RISING` points in the last.

    Args:
        runs: a part of a folder; parts without training accuracy tell nothing.
        named: methods, as statistics name what they compare.
    """
    rows = runs.values("train_accuracy")
    if "epoch" not in rows:
        return None
    curves = rows.groupby(["method", "epoch"])["value"].mean()
    for method in curves.index.unique("method"):
        curve = curves[method].sort_index()
        names = {method.label, method.exact, str(method)}
        if len(curve) > 1 and curve.iloc[-1] - curve.iloc[-2] > RISING and any(_is_in(of, names) for of in named):
            return int(curve.index[-1])
    return None


def other_form(runs: Runs, named: Sequence[str], form: Mapping[str, Any]) -> str:
    """The first hyperparameter in which a named method has another value than in `form`, in words; empty for none."""
    for cell, method in runs.methods.items() if form else ():
        if any(_is_in(of, {method.label, method.exact, str(method)}) for of in named):
            own = runs.hyperparameters(cell)
            for name, value in form.items():
                if own.get(name, value) != value:
                    return f"tuned to {name.replace('_', ' ')} = {str(own[name]).lower()}"
    return ""


def _is_in(of: str, names: Iterable[str]) -> bool:
    """Whether one of the names stands in the text as a whole: `em` does not in `em (margin loss)`, nor in `em T=2`."""
    ends = r"(?=$|, | and )"
    return any(re.search(rf"(?:^|, ){re.escape(name)}{ends}", of) for name in names)


def judged(values: BySeed, of: str = "", *, no_gain: bool = False) -> JudgedClaim:
    """Judges values, one per seed: the claim holds above zero, or with `no_gain` below the margin (points)."""
    found, verdict = mean_of(values[seed] for seed in sorted(values)), UNDECIDED
    if found.kind == OVER_SEEDS:
        for_it, against = (found.high < MARGIN, found.low > 0) if no_gain else (found.low > 0, found.high < 0)
        verdict = FAILS if against else HOLDS if for_it else UNDECIDED
    return JudgedClaim(found, verdict, of)


def difference(ours: BySeed, theirs: BySeed) -> dict[int, float]:
    """`ours - theirs`, for each seed that has both."""
    return {seed: ours[seed] - theirs[seed] for seed in sorted(set(ours) & set(theirs))}


def rows_of(runs: Runs, condition: Condition, metric: str, *, as_trained: bool = False, **where: object) -> DataFrame:
    """Like `Runs.values`, for one method on the network of the runs."""
    rows = runs.values(metric, as_trained=as_trained, **where)
    wanted = {
        cell for cell, one in runs.methods.items() if (one.label, one.iterations, one.model) == (*condition, runs.model)
    }
    return rows[rows["cell"].isin(wanted)]


def values_of(runs: Runs, condition: Condition, metric: str, epoch: str = "", **where: Any) -> dict[int, float]:
    """The same by seed.

    Args:
        runs, condition, metric, where: as for `rows_of`.
        epoch: `min` for the first that the method has, `max` for the last; empty for a metric that has none.
    """
    rows = rows_of(runs, condition, metric, **where)
    if epoch:
        rows = rows[rows["epoch"] == rows["epoch"].agg(epoch)]
    return {int(seed): float(value) for seed, value in zip(rows["seed"], rows["value"], strict=True)}


def accuracies(runs: Runs) -> dict[Method, dict[int, float]]:
    """Test accuracy (%) at the T of training, by method in alphabetical order, then by seed."""
    found = runs.by_seed("accuracy", split="test", as_trained=True)
    return {method: found[method] for method in sorted(found)}


def accuracy_gain(ours: str, theirs: str, runs: Runs) -> Statistics:
    """Points by which one label leads another at the same T; at the largest T that both have."""
    found = accuracies(runs)
    known = {(method.label, method.iterations or 0): method for method in found}
    shared = [steps for label, steps in known if label == ours and (theirs, steps) in known]
    if shared:
        one, other = known[ours, max(shared)], known[theirs, max(shared)]
        yield difference(found[one], found[other]), f"{one}, {other}"


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
    """Accuracies by label, T and seed, for the forms of a method that differ in hyperparameters alone."""
    found: dict[str, dict[int, BySeed]] = {}
    for one, own in accuracies(runs).items():
        if one.name == method and one.iterations and not one.variant:
            found.setdefault(one.label, {})[one.iterations] = own
    return found


def _longest(runs: Runs, method: str) -> tuple[str, dict[int, BySeed]]:
    """The label with the most values of T; the first by name if several have as many."""
    return max(lines_of(runs, method).items(), key=lambda line: len(line[1]), default=(method, {}))


def _slope(method: str, sign: int, runs: Runs) -> Statistics:
    label, line = _longest(runs, method)
    yield {seed: sign * slope for seed, slope in slopes(line).items()}, label


def _em_with_two_iterations(runs: Runs) -> Statistics:
    """Accuracy with T=2 minus accuracy with each other T."""
    label, line = _longest(runs, "em")
    others = [own for steps, own in line.items() if steps != 2]
    return [(difference(line[2], own), label) for own in others] if 2 in line and len(others) > 1 else []


def _three_iterations_of_em_less_five(runs: Runs) -> Statistics:
    label, line = _longest(runs, "em")
    if 3 in line and 5 in line:
        yield difference(line[3], line[5]), label


def _accuracy_of_routing(runs: Runs) -> Statistics:
    found = accuracies(runs)
    known = {(one.label, one.iterations): one for one in found if one.model == runs.model}
    if ROUTED in known and UNROUTED in known:
        routed, unrouted = known[ROUTED], known[UNROUTED]
        yield difference(found[routed], found[unrouted]), f"{routed}, {unrouted}"


def _loss_of_routing(epoch: str, runs: Runs) -> Statistics:
    """Nothing where both were trained with losses of different kinds, as tuning may choose them."""
    rows = [rows_of(runs, one, "train_loss") for one in (UNROUTED, ROUTED)]
    kinds = {runs.training(str(cell)).get("loss") for own in rows for cell in own["cell"].unique()}
    if len(kinds) == 1:
        unrouted, routed = (values_of(runs, one, "train_loss", epoch) for one in (UNROUTED, ROUTED))
        yield difference(unrouted, routed), f"none, {wording.name_of(*ROUTED)}"


def _sparseness(layer: str, condition: Condition, sign: int, runs: Runs) -> Statistics:
    found = values_of(runs, condition, "hoyer", layer=layer, of="length")
    yield {seed: sign * (value - SPARSE) for seed, value in found.items()}, wording.name_of(*condition)


def _sparseness_after_inference(runs: Runs) -> Statistics:
    sparse, plain = (
        values_of(runs, UNROUTED, "hoyer", inference=penalty, targets="label", free="classes")
        for penalty in ("l1", "plain")
    )
    yield difference(sparse, plain), "none"


def _evenness_after_inference(runs: Runs) -> Statistics:
    """Of inference without a penalty, the right label clamped."""
    found = values_of(runs, UNROUTED, "hoyer", **PLAIN)
    yield {seed: SPARSE - value for seed, value in found.items()}, "none"


def _right_longer_after_inference(runs: Runs) -> Statistics:
    right, others = (values_of(runs, UNROUTED, metric, **PLAIN) for metric in ("right_length", "other_length"))
    yield difference(right, others), "none"


def _middle_costs_no_accuracy(runs: Runs, parts: Sequence[Runs]) -> Statistics:
    """Of two parts that differ in nothing but a layer in between."""
    same = (runs.suite, runs.preset, runs.data, runs.protocol)
    plain = runs.model.removesuffix(MIDDLE)
    for other in parts:
        if other.model == plain != runs.model and (other.suite, other.preset, other.data, other.protocol) == same:
            ours, theirs = (values_of(one, ROUTED, "right_answers") for one in (runs, other))
            lost = difference(ours, theirs)
            yield {seed: MARGIN + points for seed, points in lost.items()}, f"{runs.model}, {other.model}"


def _votes_gathered(runs: Runs) -> Statistics:
    """Of EM routing with the most iterations."""
    cells = runs.planned[(runs.planned["method"] == "em") & (runs.planned["status"] == "ok")]
    cells = cells[cells["iterations"].fillna(0) > 1]
    cells = cells[cells["iterations"] == cells["iterations"].max()]
    found = {
        int(seed): _gathered(runs.arrays(str(cell))) for seed, cell in zip(cells["seed"], cells["cell"], strict=True)
    }
    known = {seed: value for seed, value in found.items() if value is not None}
    return [(known, str(cells["label"].iloc[0]))] if known else []


def _gathered(arrays: Mapping[str, NDArray[Any]]) -> float | None:
    """Mean distance of votes to the right class, first iteration minus last; None if it was not kept."""
    if "vote_distances" not in arrays or len(arrays["vote_distances"]) < 2:
        return None
    edges, right = arrays["vote_distances_edges"], arrays["vote_labels"].astype(int)
    own = arrays["vote_distances"][:, np.arange(len(right)), right].sum(axis=1)  # (iterations, bins)
    means = (own * (edges[1:] + edges[:-1]) / 2).sum(axis=1) / np.maximum(own.sum(axis=1), 1e-12)
    return float(means[0] - means[-1])


def _nearness_gained(runs: Runs) -> Statistics:
    """`gathered` after the last iteration minus after the first, for EM routing trained with the most iterations."""
    rows = runs.values("gathered")
    most = max((one.iterations or 0 for one in rows["method"] if one.label == "em"), default=0)
    rows = rows[[one.label == "em" and one.iterations == most for one in rows["method"]]]
    if most > 1:
        by_seed = rows.pivot_table(index="seed", columns="test_iterations", values="value")
        gains = by_seed[by_seed.columns.max()] - by_seed[1]
        yield {int(str(seed)): float(gain) for seed, gain in gains.items()}, "em"


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        "Training ends with a slightly lower loss with routing than without",
        KIEFER,
        "training loss of the last epoch, none less dynamic T=3: above 0",
        "accuracy",
        partial(_loss_of_routing, "max"),
        "accuracy",
    ),
    PaperClaim(
        "Routing gains no accuracy",
        KIEFER,
        f"points, dynamic T=3 less none: below {MARGIN:g}; it fails where above 0",
        "accuracy",
        _accuracy_of_routing,
        "accuracy",
        no_gain=True,
    ),
    PaperClaim(
        "Without routing, training converges more slowly at first",
        KIEFER,
        "training loss of the first epoch, none less dynamic T=3: above 0",
        "accuracy",
        partial(_loss_of_routing, "min"),
        "accuracy",
        at_first=True,
    ),
    PaperClaim(
        "Class capsules are sparse without routing",
        "Kiefer et al., figure 1",
        f"Hoyer's sparsity of lengths without routing, less {SPARSE:g}: above 0 (the paper defines no statistic)",
        "sparsity",
        partial(_sparseness, "classes", UNROUTED, 1),
        "sparsity",
    ),
    PaperClaim(
        "Capsules of a layer in between are not sparse",
        "Kiefer et al., section 3",
        f"{SPARSE:g} less Hoyer's sparsity of lengths there, dynamic T=3: above 0",
        "sparsity",
        partial(_sparseness, "middle", ROUTED, -1),
        "sparsity --model capsnet-small-intermediate",
    ),
    PaperClaim(
        "A layer in between costs no accuracy",
        "Kiefer et al., section 3",
        f"points of accuracy, dynamic T=3 with the layer less without, plus {MARGIN:g}: above 0",
        "sparsity",
        _middle_costs_no_accuracy,
        "sparsity --model capsnet-small --model capsnet-small-intermediate",
        across=True,
    ),
    PaperClaim(
        "Accuracy of dynamic routing falls with T",
        TSAI,
        "points lost per iteration, slope of a straight line over T: above 0",
        "accuracy",
        partial(_slope, "dynamic", -1),
        "accuracy",
    ),
    PaperClaim(
        "EM routing is best with two iterations",
        TSAI,
        "points, T=2 less every other T, the one that decides shown: all above 0",
        "accuracy",
        _em_with_two_iterations,
        "accuracy",
    ),
    PaperClaim(
        "Accuracy of inverted attention rises with T",
        TSAI,
        "points gained per iteration, slope of a straight line over T: above 0",
        "accuracy",
        partial(_slope, "inverted-attention", 1),
        "accuracy",
        form=NORMALISED,
    ),
    PaperClaim(
        "Votes gather around the right class over iterations of EM",
        f"{HINTON}, figure 2",
        "mean distance of votes to the right class after the first iteration less after the last: above 0",
        "sparsity",
        _votes_gathered,
        "sparsity",
    ),
    PaperClaim(
        "Inference in place of routing leaves class capsules sparser with an L1 penalty than without",
        "Kiefer et al., section 3.1",
        "Hoyer's sparsity of lengths after inference, right label clamped, with L1 less without a penalty: above 0",
        "predictive-coding",
        _sparseness_after_inference,
        "kiefer-sparsity",
    ),
    PaperClaim(
        "Inference without a penalty spreads activity evenly over class capsules",
        "Kiefer et al., section 3.1",
        f"{SPARSE:g} less Hoyer's sparsity of lengths after inference without a penalty, right label clamped: above 0",
        "predictive-coding",
        _evenness_after_inference,
        "kiefer-sparsity",
    ),
    PaperClaim(
        "The right class capsule stays longer than others without a penalty",
        "Kiefer et al., section 3.1",
        "length of the right capsule less the mean of the others after inference without a penalty: above 0; the "
        "clamped label gives it away",
        "predictive-coding",
        _right_longer_after_inference,
        "kiefer-sparsity",
    ),
    PaperClaim(
        "Five iterations of EM routing are worse than three",
        f"{HINTON}, table 1",
        "points, T=3 less T=5: above 0",
        "accuracy",
        _three_iterations_of_em_less_five,
        "hinton-table1 --preset full",
    ),
    PaperClaim(
        "Votes near a class's mean are more and more the right class's over iterations of EM",
        f"{HINTON}, figure 2",
        "weight of votes near the right class's mean less that near another's, in % of all, last iteration less first: "
        "above 0",
        "sparsity",
        _nearness_gained,
        "hinton-votes",
    ),
)
