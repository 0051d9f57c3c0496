"""Claims of Hinton et al. 2018, each as a test on a folder's part: votes, iterations, parts of the network, attacks.

Statistics and verdicts as in `routebench.analysis.judging`. Variants are found by the words that the suite
`hinton-table1` gives them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.analysis import MARGIN, Method, Runs
from routebench.analysis.attacked import LINF, main_eps
from routebench.analysis.judging import Compared, PaperClaim, Statistics, accuracy_gain, difference, longest_line
from routebench.catalogue import facts_of_data

HINTON = "Hinton et al. 2018"
REFERENCE = "cnn"


def _votes_gathered(runs: Runs) -> Statistics:
    """Statistics of EM routing with the most iterations, in the network of the runs."""
    planned = runs.planned
    cells = planned[(planned["label"] == "em") & (planned["model"] == runs.model) & (planned["status"] == "ok")]
    cells = cells[cells["iterations"].fillna(0) > 1]
    cells = cells[cells["iterations"] == cells["iterations"].max()]
    found = {
        int(seed): _gathered(runs.arrays(str(cell))) for seed, cell in zip(cells["seed"], cells["cell"], strict=True)
    }
    known = {seed: value for seed, value in found.items() if value is not None}
    return [(known, (str(cells["label"].iloc[0]),))] if known else []


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
        yield {int(str(seed)): float(gain) for seed, gain in gains.items()}, ("em",)


def _three_iterations_of_em_less_five(runs: Runs) -> Statistics:
    label, line = longest_line(runs, "em")
    if 3 in line and 5 in line:
        yield difference(line[3], line[5]), (label,)


def _gain_under_attack(attack: str, loss: str | None, runs: Runs) -> Statistics:
    """Accuracy under an attack, em with the most iterations less the CNN, at the main eps."""
    eps, where = main_eps(runs), {**LINF, "attack": attack} | ({"loss": loss} if loss else {})
    found = runs.by_seed("attacked_accuracy", eps=eps, **where)
    routed, plain = _em_and_cnn(found)
    if routed and plain:
        yield difference(found[routed], found[plain]), (routed, REFERENCE, f"eps {eps}")


def _share_of_zeros(runs: Runs) -> Statistics:
    """% of elements of the gradient that are exactly zero, the CNN less em with the most iterations."""
    for values, of in _beside_cnn(runs, "zero_gradient_elements"):
        yield {seed: theirs - ours for seed, (ours, theirs) in values.items()}, of


def _orders_of_magnitude(runs: Runs) -> Statistics:
    """Orders of magnitude by which gradients of em are smaller than the CNN's, less one and a half."""
    for values, of in _beside_cnn(runs, "gradient_magnitude"):
        yield {seed: math.log10(theirs / ours) - 1.5 for seed, (ours, theirs) in values.items() if ours and theirs}, of


def _beside_cnn(runs: Runs, metric: str) -> Iterator[tuple[dict[int, tuple[float, float]], Compared]]:
    """Gradients of the training loss by seed: em with the most iterations, and the CNN."""
    found = runs.by_seed(metric, loss="training")
    routed, plain = _em_and_cnn(found)
    if routed and plain:
        seeds = sorted({*found[routed]} & {*found[plain]})
        yield {seed: (found[routed][seed], found[plain][seed]) for seed in seeds}, (routed, REFERENCE)


def _above_chance(runs: Runs) -> Statistics:
    """The lowest accuracy at any eps less chance, of em with the most iterations, under FGSM on the training loss."""
    where: dict[str, Any] = {**LINF, "attack": "fgsm", "loss": "training"}
    rows = runs.values("attacked_accuracy", **where)
    routed, _ = _em_and_cnn(rows["method"])
    lowest = rows[rows["method"] == routed].groupby("seed")["value"].min()
    facts = facts_of_data(runs.data) or {}
    if routed and "classes" in facts:
        chance = 100 / facts["classes"]
        yield {int(str(seed)): float(value) - chance for seed, value in lowest.items()}, (routed,)


def _em_and_cnn(methods: Iterable[Method]) -> tuple[Method | None, Method | None]:
    known = {*methods}
    routed = [method for method in known if method.label == "em"]
    plain = next((method for method in known if method.label == REFERENCE), None)
    return max(routed, key=lambda one: one.iterations or 0, default=None), plain


def _part(claim: str, variant: str) -> PaperClaim:
    return PaperClaim(
        claim,
        f"{HINTON}, table 1",
        f"points, em less em ({variant}), same T: above 0",
        "accuracy",
        partial(accuracy_gain, "em", f"em ({variant})"),
        "hinton-table1",
    )


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        "Votes gather around the right class over iterations of EM",
        f"{HINTON}, figure 2",
        "mean distance of votes to the right class after the first iteration less after the last: above 0",
        "sparsity",
        _votes_gathered,
        "sparsity",
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
    _part("Coordinate addition helps", "no coordinates"),
    _part("Matrix poses beat vector poses", "vector poses"),
    _part("The spread loss beats the margin loss", "margin loss"),
    _part("The spread loss beats the cross entropy", "cross entropy"),
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
