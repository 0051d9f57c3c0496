"""What the source papers claim without a number, each as a test on one part of a results folder.

A test gives a statistic per seed and its mean with a 95 % interval over seeds; the verdict is read off the interval,
and is never given without one. Where the papers define no statistic, the one taken here is said beside the claim.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis.comparison import Entry, entries_of
from routebench.analysis.pairs import MARGIN

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds here", "does not hold here", "undecided", "not run"
KIEFER = "Kiefer et al., section 3.1 and appendix A"
TSAI = "Tsai et al. 2020, figure 4"
HINTON = "Hinton et al. 2018"
SPARSE = 0.5  # Hoyer: half way between evenly spread, 0, and one capsule alone, 1
ROUTED = 3  # iterations of dynamic routing in Kiefer et al.
BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Finding:
    """What one part of a folder says of a claim.

    Args:
        interval: of the statistic, over seeds.
        verdict: one of this module's.
        of: the methods that were compared.
    """

    interval: statistics.Interval
    verdict: str
    of: str


@dataclass(frozen=True)
class PaperClaim:
    """A claim and its test.

    Args:
        claim: in our words.
        source: where it is made.
        tested: the statistic, its unit, and what of it the claim says.
        protocol: of the parts that can test it.
        test: None where a part holds too little for it; no test where none is written.
        needs: what has to be run for it.
    """

    claim: str
    source: str
    tested: str
    protocol: str = ""
    test: Callable[[Runs], Finding | None] | None = None
    needs: str = ""


def above_zero(values: BySeed, of: str) -> Finding | None:
    """The claim is that the values, one per seed, are above zero."""
    found = _interval(values)
    return None if found.n == 0 else Finding(found, _side(found), of)


def below_margin(values: BySeed, of: str) -> Finding | None:
    """The claim is that the values, in points, are no gain: below the margin; it fails where they are above zero."""
    found = _interval(values)
    verdict = UNDECIDED
    if _has_limits(found):
        verdict = FAILS if found.low > 0 else HOLDS if found.high < MARGIN else UNDECIDED
    return None if found.n == 0 else Finding(found, verdict, of)


def routing_ends_with_lower_loss(runs: Runs) -> Finding | None:
    """Training loss in the last epoch: none less dynamic routing."""
    return _loss_difference(runs, last=True)


def no_routing_starts_more_slowly(runs: Runs) -> Finding | None:
    """Training loss in the first epoch: none less dynamic routing."""
    return _loss_difference(runs, last=False)


def routing_gains_no_accuracy(runs: Runs) -> Finding | None:
    """Accuracy of dynamic routing less none: shown to gain less than the margin, or shown to gain."""
    routed, unrouted = _entry(runs, "dynamic", ROUTED), _entry(runs, "none", None)
    if routed is None or unrouted is None:
        return None
    return below_margin(difference(routed.accuracies, unrouted.accuracies), f"{routed.name}, {unrouted.name}")


def dynamic_falls_with_iterations(runs: Runs) -> Finding | None:
    """Minus the slope of accuracy over T."""
    slopes, of = _slopes(runs, "dynamic")
    return above_zero({seed: -slope for seed, slope in slopes.items()}, of)


def attention_rises_with_iterations(runs: Runs) -> Finding | None:
    """The slope of accuracy over T."""
    return above_zero(*_slopes(runs, "inverted-attention"))


def em_loses_from_three_to_five(runs: Runs) -> Finding | None:
    """Accuracy with T=3 less that with T=5."""
    line = _line(runs, "em")
    if 3 not in line or 5 not in line:
        return None
    return above_zero(difference(line[3].accuracies, line[5].accuracies), line[3].label)


def em_is_best_with_two(runs: Runs) -> Finding | None:
    """Accuracy with T=2 less that with each other T: holds where all are above 0; the one that decides is shown."""
    line = _line(runs, "em")
    if len(line) < 3 or 2 not in line:
        return None
    gaps = [_interval(difference(line[2].accuracies, other.accuracies)) for steps, other in line.items() if steps != 2]
    gaps = [gap for gap in gaps if gap.n]
    if not gaps:
        return None
    sides = [_side(gap) for gap in gaps]
    verdict = FAILS if FAILS in sides else HOLDS if set(sides) == {HOLDS} else UNDECIDED
    deciding = min(gaps, key=lambda gap: gap.high if verdict == FAILS else gap.low)
    return Finding(deciding, verdict, line[2].label)


def classes_are_sparse_without_routing(runs: Runs) -> Finding | None:
    """Hoyer's sparsity of the lengths of class capsules, less `SPARSE`."""
    found = _metric(runs, "none", None, "hoyer", layer="classes", of="length")
    return above_zero({seed: value - SPARSE for seed, value in found.items()}, "none")


def middle_layer_is_not_sparse(runs: Runs) -> Finding | None:
    """`SPARSE` less Hoyer's sparsity of the lengths of the capsules in between."""
    found = _metric(runs, "dynamic", ROUTED, "hoyer", layer="middle", of="length")
    return above_zero({seed: SPARSE - value for seed, value in found.items()}, wording.name_of("dynamic", ROUTED))


def l1_inference_is_sparser(runs: Runs) -> Finding | None:
    """Hoyer's sparsity after inference with L1 less that without a penalty, the right label clamped in both."""
    sparse, plain = (
        _metric(runs, "none", None, "hoyer", inference=penalty, targets="label", free="classes")
        for penalty in ("l1", "plain")
    )
    return above_zero(difference(sparse, plain), "none")


def votes_gather(runs: Runs) -> Finding | None:
    """Mean distance of votes to the right class after the first iteration less that after the last, EM routing."""
    cells = runs.planned[(runs.planned["method"] == "em") & (runs.planned["status"] == "ok")]
    cells = cells[cells["iterations"].fillna(0) > 1]
    cells = cells[cells["iterations"] == cells["iterations"].max()]
    gathered: dict[int, float] = {}
    for seed, cell in zip(cells["seed"], cells["cell"], strict=True):
        arrays = runs.arrays(str(cell))
        if "vote_distances" in arrays and len(arrays["vote_distances"]) > 1:
            edges, right = arrays["vote_distances_edges"], arrays["vote_labels"].astype(int)
            middle = (edges[1:] + edges[:-1]) / 2
            own = arrays["vote_distances"][:, np.arange(len(right)), right].sum(axis=1)  # (iterations, bins)
            means = (own * middle).sum(axis=1) / np.maximum(own.sum(axis=1), 1e-12)
            gathered[int(seed)] = float(means[0] - means[-1])
    return above_zero(gathered, str(cells["label"].iloc[0])) if gathered else None


def near_votes_are_of_the_right_class(runs: Runs) -> Finding | None:
    """`gathered` after the last iteration less that after the first, EM routing as trained with most iterations."""
    found = runs.results[(runs.results["label"] == "em") & (runs.results["metric"] == "gathered")]
    found = found[found["iterations"].fillna(0) > 1]
    found = found[found["iterations"] == found["iterations"].max()]
    if found.empty:
        return None
    by_seed = found.pivot_table(index="seed", columns="test_iterations", values="value")
    gains = by_seed[by_seed.columns.max()] - by_seed[1]
    return above_zero({int(seed): float(gain) for seed, gain in gains.items()}, "em")


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        "Training ends with a slightly lower loss with routing than without",
        KIEFER,
        "training loss of the last epoch, none less dynamic T=3: above 0",
        "accuracy",
        routing_ends_with_lower_loss,
        "dynamic T=3 and none in a suite of accuracy",
    ),
    PaperClaim(
        "Routing gains no accuracy",
        KIEFER,
        f"points, dynamic T=3 less none: below {MARGIN:g}; it fails where above 0",
        "accuracy",
        routing_gains_no_accuracy,
        "dynamic T=3 and none in a suite of accuracy",
    ),
    PaperClaim(
        "Without routing, training converges more slowly at first",
        KIEFER,
        "training loss of the first epoch, none less dynamic T=3: above 0",
        "accuracy",
        no_routing_starts_more_slowly,
        "dynamic T=3 and none in a suite of accuracy",
    ),
    PaperClaim(
        "Class capsules are sparse without routing",
        "Kiefer et al., figure 1",
        f"Hoyer's sparsity of lengths without routing, less {SPARSE:g}: above 0 (the paper defines no statistic)",
        "sparsity",
        classes_are_sparse_without_routing,
        "none in the suite sparsity",
    ),
    PaperClaim(
        "Capsules of a layer in between are not sparse",
        "Kiefer et al., section 3",
        f"{SPARSE:g} less Hoyer's sparsity of lengths there, dynamic T=3: above 0",
        "sparsity",
        middle_layer_is_not_sparse,
        "the suite sparsity on a network with a layer in between",
    ),
    PaperClaim(
        "Accuracy of dynamic routing falls slowly with T",
        TSAI,
        "points lost per iteration, slope of a straight line over T: above 0",
        "accuracy",
        dynamic_falls_with_iterations,
        "dynamic with three T or more",
    ),
    PaperClaim(
        "EM routing is best with two iterations",
        TSAI,
        "points, T=2 less every other T, the one that decides shown: all above 0",
        "accuracy",
        em_is_best_with_two,
        "em with T=2 and two others",
    ),
    PaperClaim(
        "Accuracy of inverted attention rises with T",
        TSAI,
        "points gained per iteration, slope of a straight line over T: above 0",
        "accuracy",
        attention_rises_with_iterations,
        "inverted-attention with three T or more",
    ),
    PaperClaim(
        "Votes gather around the right class over iterations of EM",
        f"{HINTON}, figure 2",
        "mean distance of votes to the right class after the first iteration less after the last: above 0",
        "sparsity",
        votes_gather,
        "em in the suite sparsity",
    ),
    PaperClaim(
        "Inference in place of routing leaves class capsules sparser with an L1 penalty than without",
        "Kiefer et al., section 3.1",
        "Hoyer's sparsity of lengths after inference, right label clamped, with L1 less without a penalty: above 0",
        "predictive-coding",
        l1_inference_is_sparser,
        "none in the suite kiefer-sparsity",
    ),
    PaperClaim(
        "Five iterations of EM routing are worse than three",
        f"{HINTON}, table 1",
        "points, T=3 less T=5: above 0",
        "accuracy",
        em_loses_from_three_to_five,
        "em with T=3 and T=5, as in the preset full of hinton-table1",
    ),
    PaperClaim(
        "Votes near a class's mean are more and more the right class's over iterations of EM",
        f"{HINTON}, figure 2",
        "weight of votes near the right class's mean less that near another's, in % of all, last iteration less first: "
        "above 0",
        "sparsity",
        near_votes_are_of_the_right_class,
        "em in the suite sparsity or hinton-votes; older results have no metric `gathered`",
    ),
    PaperClaim(
        "Probes on presences read less after training on turned digits",
        "Smith et al., figure 4",
        wording.NOTHING,
        needs="the generative capsule model; it is not among the networks yet",
    ),
)


def _loss_difference(runs: Runs, *, last: bool) -> Finding | None:
    losses = [_losses(runs, "dynamic", ROUTED, last=last), _losses(runs, "none", None, last=last)]
    return above_zero(difference(losses[1], losses[0]), f"none, {wording.name_of('dynamic', ROUTED)}")


def _losses(runs: Runs, label: str, iterations: int | None, *, last: bool) -> dict[int, float]:
    curves = _rows(runs, label, iterations)
    curves = curves[(curves["metric"] == "train_loss") & curves["epoch"].notna() & curves["value"].notna()]
    if curves.empty:
        return {}
    epoch = curves["epoch"].max() if last else curves["epoch"].min()
    return by_seed(curves[curves["epoch"] == epoch])


def _metric(runs: Runs, label: str, iterations: int | None, metric: str, **where: str) -> dict[int, float]:
    rows = _rows(runs, label, iterations)
    rows = rows[(rows["metric"] == metric) & rows["value"].notna()]
    for column, value in where.items():
        rows = rows[rows[column] == value] if column in rows else rows.head(0)
    return by_seed(rows)


def _rows(runs: Runs, label: str, iterations: int | None) -> pd.DataFrame:
    """Results of a method's own cells on the part's network."""
    own = runs.results[(runs.results["label"] == label) & (runs.results["model"] == runs.model)]
    return own[own["iterations"].isna() if iterations is None else (own["iterations"] == iterations).fillna(False)]


def by_seed(rows: pd.DataFrame) -> dict[int, float]:
    """The value of each seed, from rows of results with one per seed."""
    return {int(seed): float(value) for seed, value in zip(rows["seed"], rows["value"], strict=True)}


def _entry(runs: Runs, label: str, iterations: int | None) -> Entry | None:
    known = (entry for entry in entries_of(runs) if entry.accuracies and entry.model == runs.model)
    return next((entry for entry in known if (entry.label, entry.iterations) == (label, iterations)), None)


def _line(runs: Runs, method: str) -> dict[int, Entry]:
    """A method's entries by T, of its label with the most of them; of equal ones, the first by name."""
    lines: dict[str, dict[int, Entry]] = {}
    for entry in entries_of(runs):
        if entry.accuracies and entry.iterations and entry.label.partition("[")[0] == method:
            lines.setdefault(entry.label, {})[entry.iterations] = entry
    return max(lines.values(), key=len, default={})


def _slopes(runs: Runs, method: str) -> tuple[dict[int, float], str]:
    """Points per iteration by least squares, for each seed that has every T; and the label."""
    line = _line(runs, method)
    return _slopes_over(line), next((entry.label for entry in line.values()), method)


def slopes_of(runs: Runs, label: str) -> dict[int, float]:
    """Points of accuracy per iteration by least squares, by seed, of one label with three T or more; else empty."""
    return _slopes_over(
        {e.iterations: e for e in entries_of(runs) if e.label == label and e.accuracies and e.iterations}
    )


def _slopes_over(line: Mapping[int, Entry]) -> dict[int, float]:
    if len(line) < 3:
        return {}
    seeds = set.intersection(*(set(entry.accuracies) for entry in line.values()))
    steps = sorted(line)
    return {seed: float(np.polyfit(steps, [line[t].accuracies[seed] for t in steps], 1)[0]) for seed in seeds}


def difference(ours: BySeed, theirs: BySeed) -> dict[int, float]:
    """`ours - theirs`, for each seed that has both."""
    return {seed: ours[seed] - theirs[seed] for seed in sorted(set(ours) & set(theirs))}


def _interval(values: BySeed) -> statistics.Interval:
    return statistics.mean_interval([values[seed] for seed in sorted(values)])


def _has_limits(found: statistics.Interval) -> bool:
    return found.kind == statistics.OVER_SEEDS and not math.isnan(found.low)


def _side(found: statistics.Interval) -> str:
    if not _has_limits(found):
        return UNDECIDED
    return HOLDS if found.low > 0 else FAILS if found.high < 0 else UNDECIDED
