"""What Hinton et al. 2018 and Tsai et al. 2020 say of the parts of their networks, each as a test on a folder's part.

Statistics and verdicts as in `routebench.analysis.paper_claims`. Variants are found by the words that the suites
`hinton-table1`, `tsai-table1`, `tsai-iterations` and `tsai-overlap` give them.
"""

from collections.abc import Callable
from functools import partial

from routebench.analysis._runs import Runs
from routebench.analysis.attacked import LINF, main_eps
from routebench.analysis.comparison import Entry, entries_of
from routebench.analysis.pairs import MARGIN
from routebench.analysis.paper_claims import (
    FAILS,
    HINTON,
    HOLDS,
    TSAI,
    UNDECIDED,
    Finding,
    PaperClaim,
    above_zero,
    below_margin,
    by_seed,
    difference,
    slopes_of,
)

ATTENTION = "inverted-attention"
ABLATIONS = (f"{ATTENTION}[layer_norm=false]", f"{ATTENTION}[schedule=sequential]", f"{ATTENTION}[activations=true]")
REFERENCE = "cnn"


def better_than_variant(method: str, variant: str, runs: Runs) -> Finding | None:
    """Accuracy of a method's plain form less that of its variant, at the T that the variant has."""
    return _between(runs, method, f"{method} ({variant})")


def no_better_than_plain(method: str, variant: str, runs: Runs) -> Finding | None:
    """Accuracy of a variant less that of the plain form: shown to gain less than the margin, or shown to gain."""
    pair = _pair(runs, f"{method} ({variant})", method)
    return None if pair is None else below_margin(difference(pair[0].accuracies, pair[1].accuracies), _names(pair))


def vectors_beat_matrices(runs: Runs) -> Finding | None:
    """Exact match with vector poses less that with matrix poses, inverted attention."""
    return _between(runs, f"{ATTENTION} (vector poses)", f"{ATTENTION} (matrix poses)")


def only_the_whole_method_rises(runs: Runs) -> Finding | None:
    """Slope of accuracy over T of the method less that of each ablation; the smallest difference is shown."""
    whole = slopes_of(runs, ATTENTION)
    found = [(label, difference(whole, slopes_of(runs, label))) for label in ABLATIONS]
    tested = [finding for label, gaps in found if (finding := above_zero(gaps, label)) is not None]
    if not whole or len(tested) < len(ABLATIONS):
        return None
    verdicts = {finding.verdict for finding in tested}
    verdict = FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else UNDECIDED
    deciding = min(tested, key=lambda finding: finding.interval.low if verdict != FAILS else finding.interval.high)
    return Finding(deciding.interval, verdict, f"{ATTENTION}, {deciding.of}")


def withstands_white_boxes(runs: Runs) -> Finding | None:
    """Accuracy under BIM on the training loss, em less the CNN, at the main eps."""
    return _under_attack(runs, {"attack": "bim", "loss": "training"}, above_zero)


def withstands_black_boxes_no_better(runs: Runs) -> Finding | None:
    """Accuracy under images made for another CNN, em less the CNN, at the main eps."""
    return _under_attack(runs, {"attack": "transfer"}, below_margin)


def _under_attack(
    runs: Runs, where: dict[str, str], judge: Callable[[dict[int, float], str], Finding | None]
) -> Finding | None:
    eps = main_eps(runs)
    if eps is None or "attack" not in runs.results:
        return None
    own = runs.results[(runs.results["metric"] == "attacked_accuracy") & runs.results["value"].notna()]
    for column, value in {**LINF, "eps": eps, **where}.items():
        own = own[own[column] == value]
    steps = own.loc[own["label"] == "em", "iterations"].max()
    routed, plain = own[(own["label"] == "em") & (own["iterations"] == steps)], own[own["label"] == REFERENCE]
    if routed.empty or plain.empty:
        return None
    return judge(difference(by_seed(routed), by_seed(plain)), f"em T={steps}, {REFERENCE}, eps {eps}")


def _between(runs: Runs, better: str, worse: str) -> Finding | None:
    pair = _pair(runs, better, worse)
    return None if pair is None else above_zero(difference(pair[0].accuracies, pair[1].accuracies), _names(pair))


def _pair(runs: Runs, one: str, other: str) -> tuple[Entry, Entry] | None:
    """Two labels with a result at the same T, the largest of several."""
    known = {(entry.label, entry.iterations): entry for entry in entries_of(runs) if entry.accuracies}
    shared = [steps for label, steps in known if label == one and (other, steps) in known]
    if not shared:
        return None
    steps = max(shared, key=lambda found: found or 0)
    return known[one, steps], known[other, steps]


def _names(pair: tuple[Entry, Entry]) -> str:
    return ", ".join(entry.name for entry in pair)


def _part_of_hinton(claim: str, variant: str) -> PaperClaim:
    return PaperClaim(
        claim,
        f"{HINTON}, table 1",
        f"points, em less em ({variant}), same T: above 0",
        "accuracy",
        partial(better_than_variant, "em", variant),
        "the suite hinton-table1",
    )


def _loss_of_tsai(loss: str) -> PaperClaim:
    return PaperClaim(
        f"The {loss} loss is no better than the cross entropy",
        "Tsai et al. 2020, section 5",
        f"points, {ATTENTION} ({loss} loss) less {ATTENTION}: below {MARGIN:g}; it fails where above 0",
        "accuracy",
        partial(no_better_than_plain, ATTENTION, f"{loss} loss"),
        "the suite tsai-table1",
    )


COMPONENT_CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        "Only the concurrent method with layer normalisation gains from iterations",
        TSAI,
        "points per iteration, slope of the method less that of each ablation, the smallest shown: all above 0",
        "accuracy",
        only_the_whole_method_rises,
        "the suite tsai-iterations",
    ),
    _loss_of_tsai("margin"),
    _loss_of_tsai("spread"),
    PaperClaim(
        "Vector poses beat matrix poses at equal width",
        "Tsai et al. 2020, section 6",
        "points of exact match, vector poses less matrix poses: above 0",
        "overlap",
        vectors_beat_matrices,
        "the suite tsai-overlap",
    ),
    PaperClaim(
        "Matrix poses beat vector poses at equal parameters",
        "Tsai et al. 2020, section 6",
        "",
        needs="the paper does not say how its matrix network was enlarged",
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
        withstands_white_boxes,
        "the suite hinton-attacks",
    ),
    PaperClaim(
        "Capsules withstand black-box attacks no better than a CNN",
        f"{HINTON}, section 6",
        f"points of accuracy on images made for another CNN, em less the CNN: below {MARGIN:g}; it fails where above 0",
        "robustness",
        withstands_black_boxes_no_better,
        "the suite hinton-attacks",
    ),
)
