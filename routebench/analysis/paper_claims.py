"""Claims of three papers in words, each with its test: iterations, votes, routing or none, inference in its place."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import MARGIN
from routebench.analysis.judging import (
    BySeed,
    Condition,
    PaperClaim,
    Statistics,
    accuracies,
    difference,
    lines_of,
    rows_of,
    slopes,
    values_of,
)

KIEFER = "Kiefer et al., section 3.1 and appendix A"
TSAI = "Tsai et al. 2020, figure 4"
HINTON = "Hinton et al. 2018"
SPARSE = 0.5  # Hoyer: half way between evenly spread, 0, and one capsule alone, 1
ROUTED: Condition = ("dynamic", 3)
UNROUTED: Condition = ("none", None)
"""The two conditions that Kiefer et al. compare."""
PLAIN = {"inference": "plain", "targets": "label", "free": "classes"}
"""Inference without a penalty, as in figure 1 of Kiefer et al."""
MIDDLE = "-intermediate"
"""How the names end of networks with a layer in between."""
NORMALISED = {"layer_norm": True}
"""Inverted attention as its paper has it: without, it is ablation A."""


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
    """Of EM routing with the most iterations, in the network of the runs."""
    planned = runs.planned
    cells = planned[(planned["label"] == "em") & (planned["model"] == runs.model) & (planned["status"] == "ok")]
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
