"""Claims of Kiefer et al., each as a test on a folder's part: routing or none, sparsity, inference in routing's place.

Statistics and verdicts as in `routebench.analysis.judging`.
"""

from collections.abc import Sequence
from functools import partial

from routebench.analysis import MARGIN, Runs, wording
from routebench.analysis.judging import (
    Condition,
    PaperClaim,
    Statistics,
    accuracies,
    difference,
    rows_of,
    values_of,
)

from .conditions import ROUTED, UNROUTED

KIEFER = "Kiefer et al., section 3.1 and appendix A"
SPARSE = 0.5  # Hoyer: half way between evenly spread, 0, and one capsule alone, 1
PLAIN = {"inference": "plain", "targets": "label", "free": "classes"}
"""Inference without a penalty, as in figure 1 of the paper."""
MIDDLE = "-intermediate"
"""End of the names of networks with a layer in between."""


def _accuracy_of_routing(runs: Runs) -> Statistics:
    found = accuracies(runs)
    known = {(one.label, one.iterations): one for one in found if one.model == runs.model}
    if ROUTED in known and UNROUTED in known:
        routed, unrouted = known[ROUTED], known[UNROUTED]
        yield difference(found[routed], found[unrouted]), (routed, unrouted)


def _loss_of_routing(epoch: str, runs: Runs) -> Statistics:
    """Nothing where both were trained with losses of different kinds, as tuning may choose them."""
    rows = [rows_of(runs, one, "train_loss") for one in (UNROUTED, ROUTED)]
    kinds = {runs.training(str(cell)).get("loss") for own in rows for cell in own["cell"].unique()}
    if len(kinds) == 1:
        unrouted, routed = (values_of(runs, one, "train_loss", epoch) for one in (UNROUTED, ROUTED))
        yield difference(unrouted, routed), ("none", wording.name_of(*ROUTED))


def _sparseness(layer: str, condition: Condition, sign: int, runs: Runs) -> Statistics:
    found = values_of(runs, condition, "hoyer", layer=layer, of="length")
    yield {seed: sign * (value - SPARSE) for seed, value in found.items()}, (wording.name_of(*condition),)


def _sparseness_after_inference(runs: Runs) -> Statistics:
    sparse, plain = (
        values_of(runs, UNROUTED, "hoyer", inference=penalty, targets="label", free="classes")
        for penalty in ("l1", "plain")
    )
    yield difference(sparse, plain), ("none",)


def _evenness_after_inference(runs: Runs) -> Statistics:
    """Statistics of inference without a penalty, the right label clamped."""
    found = values_of(runs, UNROUTED, "hoyer", **PLAIN)
    yield {seed: SPARSE - value for seed, value in found.items()}, ("none",)


def _right_longer_after_inference(runs: Runs) -> Statistics:
    right, others = (values_of(runs, UNROUTED, metric, **PLAIN) for metric in ("right_length", "other_length"))
    yield difference(right, others), ("none",)


def _middle_costs_no_accuracy(runs: Runs, parts: Sequence[Runs]) -> Statistics:
    """Statistics of two parts that differ in nothing but a layer in between."""
    same = (runs.suite, runs.preset, runs.data, runs.protocol)
    plain = runs.model.removesuffix(MIDDLE)
    for other in parts:
        if other.model == plain != runs.model and (other.suite, other.preset, other.data, other.protocol) == same:
            ours, theirs = (values_of(one, ROUTED, "right_answers") for one in (runs, other))
            lost = difference(ours, theirs)
            yield {seed: MARGIN + points for seed, points in lost.items()}, (runs.model, other.model)


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
)
