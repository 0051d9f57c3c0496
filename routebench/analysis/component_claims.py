"""Claims of Hinton et al. 2018 and Tsai et al. 2020 on the parts of their networks, each as a test on a folder's part.

Statistics and verdicts as in `routebench.analysis.paper_claims`. Variants are found by the words that the suites
`hinton-table1`, `tsai-table1`, `tsai-iterations` and `tsai-overlap` give them.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from routebench.analysis._method import Method
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import MARGIN
from routebench.analysis.attacked import LINF, main_eps
from routebench.analysis.judging import (
    PaperClaim,
    Statistics,
    accuracy_gain,
    deviations,
    difference,
    lines_of,
    slopes,
    values_of,
)
from routebench.analysis.paper_claims import HINTON, NORMALISED, TSAI
from routebench.catalogue import facts_of_data

ATTENTION = "inverted-attention"
ABLATIONS = (f"{ATTENTION}[layer_norm=false]", f"{ATTENTION}[schedule=sequential]", f"{ATTENTION}[activations=true]")
REFERENCE = "cnn"
LARGER_POSES = f"{ATTENTION} (6x6 poses)"
TRAINED: dict[str, dict[str, Any]] = {"train_loss": {}, "accuracy": {"split": "test", "as_trained": True}}
"""Where a metric of the recipe's T stands."""


def _rise_over_ablations(runs: Runs) -> Statistics:
    """Slope of accuracy over T of the method less that of each ablation, if all were measured."""
    lines = lines_of(runs, ATTENTION)
    whole = slopes(lines.get(ATTENTION, {}))
    gains = [(difference(whole, slopes(lines.get(label, {}))), f"{ATTENTION}, {label}") for label in ABLATIONS]
    return gains if all(values for values, _ in gains) else []


def _gain_under_attack(attack: str, loss: str | None, runs: Runs) -> Statistics:
    """Accuracy under an attack, em with the most iterations less the CNN, at the main eps."""
    eps, where = main_eps(runs), {**LINF, "attack": attack} | ({"loss": loss} if loss else {})
    found = runs.by_seed("attacked_accuracy", eps=eps, **where)
    routed, plain = _em_and_cnn(found)
    if routed and plain:
        yield difference(found[routed], found[plain]), f"{routed}, {REFERENCE}, eps {eps}"


def _share_of_zeros(runs: Runs) -> Statistics:
    """% of elements of the gradient that are exactly zero, the CNN less em with the most iterations."""
    for values, of in _beside_cnn(runs, "zero_gradient_elements"):
        yield {seed: theirs - ours for seed, (ours, theirs) in values.items()}, of


def _orders_of_magnitude(runs: Runs) -> Statistics:
    """By which gradients of em are smaller than the CNN's, less one and a half."""
    for values, of in _beside_cnn(runs, "gradient_magnitude"):
        yield {seed: math.log10(theirs / ours) - 1.5 for seed, (ours, theirs) in values.items() if ours and theirs}, of


def _beside_cnn(runs: Runs, metric: str) -> Iterator[tuple[dict[int, tuple[float, float]], str]]:
    """Of the gradient of the training loss, by seed: em with the most iterations, and the CNN."""
    found = runs.by_seed(metric, loss="training")
    routed, plain = _em_and_cnn(found)
    if routed and plain:
        seeds = sorted({*found[routed]} & {*found[plain]})
        yield {seed: (found[routed][seed], found[plain][seed]) for seed in seeds}, f"{routed}, {REFERENCE}"


def _above_chance(runs: Runs) -> Statistics:
    """Of em with the most iterations, under FGSM on the training loss: the lowest accuracy at any eps less chance."""
    where: dict[str, Any] = {**LINF, "attack": "fgsm", "loss": "training"}
    rows = runs.values("attacked_accuracy", **where)
    routed, _ = _em_and_cnn(rows["method"])
    lowest = rows[rows["method"] == routed].groupby("seed")["value"].min()
    facts = facts_of_data(runs.data)
    if routed and "classes" in facts:
        chance = 100 / facts["classes"]
        yield {int(str(seed)): float(value) - chance for seed, value in lowest.items()}, str(routed)


def _em_and_cnn(methods: Iterable[Method]) -> tuple[Method | None, Method | None]:
    known = {*methods}
    routed = [method for method in known if method.label == "em"]
    plain = next((method for method in known if method.label == REFERENCE), None)
    return max(routed, key=lambda one: one.iterations or 0, default=None), plain


def _starts(sign: int, start: str, metric: str, epoch: str, runs: Runs) -> Statistics:
    """Of inverted attention at the largest T that both starts have: zeros less the other start, or the reverse."""
    label = f"{ATTENTION}[start={start}]"
    plain_steps, steps = (
        {one.iterations for one in runs.methods.values() if one.label == name and one.iterations}
        for name in (ATTENTION, label)
    )
    if shared := plain_steps & steps:
        plain, other = (
            values_of(runs, (name, max(shared)), metric, epoch, **TRAINED[metric]) for name in (ATTENTION, label)
        )
        yield {seed: sign * gap for seed, gap in difference(plain, other).items()}, f"{ATTENTION}, {label}"


def _spread_over_t(method: str, runs: Runs) -> Statistics:
    """Standard deviation of accuracy over T, a method's less that of inverted attention."""
    own, other = lines_of(runs, ATTENTION).get(ATTENTION, {}), lines_of(runs, method)
    label = max(other, key=lambda one: (len(other[one]), one == method), default=method)
    line = other.get(label, {})
    shared = sorted({*own} & {*line})
    if len(shared) > 2:
        ours, theirs = (deviations({steps: one[steps] for steps in shared}) for one in (own, line))
        yield difference(theirs, ours), f"{label}, {ATTENTION}, T={', '.join(map(str, shared))}"


def _jitters(runs: Runs) -> dict[Method, dict[int, float]]:
    """By method and seed: the deviation of held-out accuracy from a smooth curve over epochs, in points.

    Second differences cancel a straight line; of independent noise they have six times its variance.
    """
    curves = runs.values("held_out_accuracy")
    curves = curves[curves["epoch"].notna()].sort_values("epoch")
    found: dict[Method, dict[int, float]] = {}
    for method, rows in curves.groupby("method", sort=False):
        bends = rows.pivot_table(index="epoch", columns="seed", values="value").diff().diff().dropna()
        if len(bends) > 1:
            found[method] = {int(str(seed)): value for seed, value in ((bends**2).mean() / 6).pow(0.5).items()}  # type: ignore[index]
    return found


def _jitter_of_iterating(runs: Runs) -> Statistics:
    """That of inverted attention with the most iterations less that with the fewest."""
    found = _jitters(runs)
    own = sorted((one for one in found if one.label == ATTENTION), key=lambda one: one.iterations or 0)
    if len(own) > 1:
        yield difference(found[own[-1]], found[own[0]]), f"{own[-1]}, {own[0]}"


def _jitter_of_small_poses(runs: Runs) -> Statistics:
    """That of inverted attention less that with larger poses and the same T."""
    found = _jitters(runs)
    for larger in (one for one in found if one.label == LARGER_POSES):
        plain = next((one for one in found if (one.label, one.iterations) == (ATTENTION, larger.iterations)), None)
        if plain:
            yield difference(found[plain], found[larger]), f"{plain}, {larger}"


def _start_of_tsai(
    claim: str, tested: str, statistics: Callable[[Runs], Statistics], *, no_gain: bool = False
) -> PaperClaim:
    return PaperClaim(
        claim,
        "Tsai et al. 2020, footnote 1",
        tested,
        "accuracy",
        statistics,
        "tsai-iterations",
        no_gain=no_gain,
    )


def _part_of_hinton(claim: str, variant: str) -> PaperClaim:
    return PaperClaim(
        claim,
        f"{HINTON}, table 1",
        f"points, em less em ({variant}), same T: above 0",
        "accuracy",
        partial(accuracy_gain, "em", f"em ({variant})"),
        "hinton-table1",
    )


def _loss_of_tsai(loss: str) -> PaperClaim:
    return PaperClaim(
        f"The {loss} loss is no better than the cross entropy",
        "Tsai et al. 2020, section 5",
        f"points, {ATTENTION} ({loss} loss) less {ATTENTION}: below {MARGIN:g}; it fails where above 0",
        "accuracy",
        partial(accuracy_gain, f"{ATTENTION} ({loss} loss)", ATTENTION),
        "tsai-table1",
        no_gain=True,
    )


COMPONENT_CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        "Only the concurrent method with layer normalisation gains from iterations",
        TSAI,
        "points per iteration, slope of the method less that of each ablation, the smallest shown: all above 0",
        "accuracy",
        _rise_over_ablations,
        "tsai-iterations",
    ),
    PaperClaim(
        "Accuracy depends less on T with inverted attention than with dynamic routing",
        f"{TSAI}, column std",
        "points, standard deviation over T, dynamic less the method: above 0",
        "accuracy",
        partial(_spread_over_t, "dynamic"),
        "tsai-iterations",
        form=NORMALISED,
    ),
    PaperClaim(
        "Accuracy depends less on T with inverted attention than with EM routing",
        f"{TSAI}, column std",
        "points, standard deviation over T, em less the method: above 0",
        "accuracy",
        partial(_spread_over_t, "em"),
        "tsai-iterations",
        form=NORMALISED,
    ),
    PaperClaim(
        "Training curves jitter more with more iterations",
        "Tsai et al. 2020, section 5",
        "points of held-out accuracy about a smooth curve, the most iterations less the fewest: above 0",
        "accuracy",
        _jitter_of_iterating,
        "tsai-iterations --preset long",
        at_first=True,
    ),
    PaperClaim(
        "Training curves jitter less with larger poses",
        "Tsai et al. 2020, section 5",
        "points of held-out accuracy about a smooth curve, 4x4 less 6x6 poses, same T: above 0",
        "accuracy",
        _jitter_of_small_poses,
        "tsai-iterations --preset long",
        at_first=True,
    ),
    _start_of_tsai(
        "Parents that start at random learn more slowly",
        "training loss of the first epoch, random start less zeros, same T: above 0",
        partial(_starts, -1, "random", "train_loss", "min"),
    ),
    _start_of_tsai(
        "Parents that start at random end as good",
        f"points, zeros less a random start, same T: below {MARGIN:g}; it fails where above 0",
        partial(_starts, 1, "random", "accuracy", ""),
        no_gain=True,
    ),
    _start_of_tsai(
        "A learned start of parents is no better than zeros",
        f"points, a learned start less zeros, same T: below {MARGIN:g}; it fails where above 0",
        partial(_starts, -1, "learned", "accuracy", ""),
        no_gain=True,
    ),
    _loss_of_tsai("margin"),
    _loss_of_tsai("spread"),
    PaperClaim(
        "Vector poses beat matrix poses at equal width",
        "Tsai et al. 2020, section 6",
        "points of exact match, vector poses less matrix poses: above 0",
        "overlap",
        partial(accuracy_gain, f"{ATTENTION} (vector poses)", f"{ATTENTION} (matrix poses)"),
        "tsai-overlap",
    ),
    PaperClaim(
        "Matrix poses beat vector poses at equal parameters",
        "Tsai et al. 2020, section 6",
        "",
        untestable="the paper does not say how its matrix network was enlarged",
    ),
    _part_of_hinton("Coordinate addition helps", "no coordinates"),
    _part_of_hinton("Matrix poses beat vector poses", "vector poses"),
    _part_of_hinton("The spread loss beats the margin loss", "margin loss"),
    _part_of_hinton("The spread loss beats the cross entropy", "cross entropy"),
    PaperClaim(
        "Capsules withstand white-box attacks better than a CNN",
        f"{HINTON}, section 6",
        "points of accuracy under BIM on the training loss, em less the CNN: above 0",
        "robustness",
        partial(_gain_under_attack, "bim", "training"),
        "hinton-attacks",
    ),
    PaperClaim(
        "Capsules withstand black-box attacks no better than a CNN",
        f"{HINTON}, section 6",
        f"points of accuracy on images made for another CNN, em less the CNN: below {MARGIN:g}; it fails where above 0",
        "robustness",
        partial(_gain_under_attack, "transfer", None),
        "hinton-attacks",
        no_gain=True,
    ),
    PaperClaim(
        "FGSM never takes capsules below chance",
        f"{HINTON}, section 6",
        "lowest accuracy of em at any eps of FGSM on the training loss, less chance: above 0",
        "robustness",
        _above_chance,
        "hinton-attacks",
    ),
    PaperClaim(
        "Fewer gradients of the input are exactly zero for capsules than for a CNN",
        f"{HINTON}, section 6",
        "% of elements of the training loss's gradient, the CNN less em: above 0",
        "robustness",
        _share_of_zeros,
        "hinton-attacks",
    ),
    PaperClaim(
        "Gradients of the input are two orders of magnitude smaller for capsules than for a CNN",
        f"{HINTON}, section 6",
        "decimal logarithm of the CNN's mean gradient over that of em, less 1.5: above 0",
        "robustness",
        _orders_of_magnitude,
        "hinton-attacks",
    ),
)
