"""Claims of Hinton et al. 2018 and Tsai et al. 2020 on the parts of their networks, each as a test on a folder's part.

Statistics and verdicts as in `routebench.analysis.paper_claims`. Variants are found by the words that the suites
`hinton-table1`, `tsai-table1`, `tsai-iterations` and `tsai-overlap` give them.
"""

from functools import partial

from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import MARGIN
from routebench.analysis.attacked import LINF, main_eps
from routebench.analysis.paper_claims import (
    HINTON,
    TSAI,
    PaperClaim,
    Statistics,
    accuracy_gain,
    difference,
    lines_of,
    slopes,
)

ATTENTION = "inverted-attention"
ABLATIONS = (f"{ATTENTION}[layer_norm=false]", f"{ATTENTION}[schedule=sequential]", f"{ATTENTION}[activations=true]")
REFERENCE = "cnn"


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
    routed = max(
        (method for method in found if method.label == "em"), key=lambda one: one.iterations or 0, default=None
    )
    plain = next((method for method in found if method.label == REFERENCE), None)
    if routed and plain:
        yield difference(found[routed], found[plain]), f"{routed}, {REFERENCE}, eps {eps}"


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
)
