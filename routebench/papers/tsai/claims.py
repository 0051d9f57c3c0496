"""Claims of Tsai et al. 2020, each as a test on a folder's part: iterations, ablations, starts, losses, poses.

Statistics and verdicts as in `routebench.analysis.judging`. Variants are found by the words that the suites
`tsai-table1`, `tsai-iterations` and `tsai-overlap` give them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from routebench.analysis import MARGIN, Method, Runs
from routebench.analysis.judging import (
    PaperClaim,
    Statistics,
    accuracy_gain,
    deviations,
    difference,
    lines_of,
    longest_line,
    slopes,
    values_of,
)

TSAI = "Tsai et al. 2020, figure 4"
ATTENTION = "inverted-attention"
ABLATIONS = (f"{ATTENTION}[layer_norm=false]", f"{ATTENTION}[schedule=sequential]", f"{ATTENTION}[activations=true]")
LARGER_POSES = f"{ATTENTION} (6x6 poses)"
NORMALISED = {"layer_norm": True}
"""Inverted attention as the paper has it: without, it is ablation A."""
TRAINED: dict[str, dict[str, Any]] = {"train_loss": {}, "accuracy": {"split": "test", "as_trained": True}}
"""Coordinates at which a metric of the recipe's T stands."""


def _slope(method: str, sign: int, runs: Runs) -> Statistics:
    label, line = longest_line(runs, method)
    yield {seed: sign * slope for seed, slope in slopes(line).items()}, (label,)


def _em_with_two_iterations(runs: Runs) -> Statistics:
    """Accuracy with T=2 minus accuracy with each other T."""
    label, line = longest_line(runs, "em")
    others = [own for steps, own in line.items() if steps != 2]
    return [(difference(line[2], own), (label,)) for own in others] if 2 in line and len(others) > 1 else []


def _rise_over_ablations(runs: Runs) -> Statistics:
    """Slope of accuracy over T of the method less that of each ablation, if all were measured."""
    lines = lines_of(runs, ATTENTION)
    whole = slopes(lines.get(ATTENTION, {}))
    gains = [(difference(whole, slopes(lines.get(label, {}))), (ATTENTION, label)) for label in ABLATIONS]
    return gains if all(values for values, _ in gains) else []


def _starts(sign: int, start: str, metric: str, epoch: str, runs: Runs) -> Statistics:
    """Statistics of inverted attention at the largest T of both starts: zeros less the other start, or the reverse."""
    label = f"{ATTENTION}[start={start}]"
    plain_steps, steps = (
        {one.iterations for one in runs.methods.values() if one.label == name and one.iterations}
        for name in (ATTENTION, label)
    )
    if shared := plain_steps & steps:
        plain, other = (
            values_of(runs, (name, max(shared)), metric, epoch, **TRAINED[metric]) for name in (ATTENTION, label)
        )
        yield {seed: sign * gap for seed, gap in difference(plain, other).items()}, (ATTENTION, label)


def _spread_over_t(method: str, runs: Runs) -> Statistics:
    """Standard deviation of accuracy over T, a method's less that of inverted attention."""
    own, other = lines_of(runs, ATTENTION).get(ATTENTION, {}), lines_of(runs, method)
    label = max(other, key=lambda one: (len(other[one]), one == method), default=method)
    line = other.get(label, {})
    shared = sorted({*own} & {*line})
    if len(shared) > 2:
        ours, theirs = (deviations({steps: one[steps] for steps in shared}) for one in (own, line))
        yield difference(theirs, ours), (label, ATTENTION, f"T={', '.join(map(str, shared))}")


def _jitters(runs: Runs) -> dict[Method, dict[int, float]]:
    """Deviation of held-out accuracy from a smooth curve over epochs, in points, by method and seed.

    Second differences cancel a straight line; of independent noise they have six times its variance.
    """
    curves = runs.values("held_out_accuracy")
    curves = curves[curves["epoch"].notna()].sort_values("epoch", kind="stable")
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
        yield difference(found[own[-1]], found[own[0]]), (own[-1], own[0])


def _jitter_of_small_poses(runs: Runs) -> Statistics:
    """That of inverted attention less that with larger poses and the same T."""
    found = _jitters(runs)
    for larger in (one for one in found if one.label == LARGER_POSES):
        plain = next((one for one in found if (one.label, one.iterations) == (ATTENTION, larger.iterations)), None)
        if plain:
            yield difference(found[plain], found[larger]), (plain, larger)


def _start(claim: str, tested: str, statistics: Callable[[Runs], Statistics], *, no_gain: bool = False) -> PaperClaim:
    return PaperClaim(
        claim,
        "Tsai et al. 2020, footnote 1",
        tested,
        "accuracy",
        statistics,
        "tsai-iterations",
        no_gain=no_gain,
    )


def _loss(loss: str) -> PaperClaim:
    return PaperClaim(
        f"The {loss} loss is no better than the cross entropy",
        "Tsai et al. 2020, section 4.2",
        f"points, {ATTENTION} ({loss} loss) less {ATTENTION}: below {MARGIN:g}; it fails where above 0",
        "accuracy",
        partial(accuracy_gain, f"{ATTENTION} ({loss} loss)", ATTENTION),
        "tsai-table1",
        no_gain=True,
    )


CLAIMS: tuple[PaperClaim, ...] = (
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
    _start(
        "Parents that start at random learn more slowly",
        "training loss of the first epoch, random start less zeros, same T: above 0",
        partial(_starts, -1, "random", "train_loss", "min"),
    ),
    _start(
        "Parents that start at random end as good",
        f"points, zeros less a random start, same T: below {MARGIN:g}; it fails where above 0",
        partial(_starts, 1, "random", "accuracy", ""),
        no_gain=True,
    ),
    _start(
        "A learned start of parents is no better than zeros",
        f"points, a learned start less zeros, same T: below {MARGIN:g}; it fails where above 0",
        partial(_starts, -1, "learned", "accuracy", ""),
        no_gain=True,
    ),
    _loss("margin"),
    _loss("spread"),
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
)
