"""Table of how far poses follow changed images by a linear map, and whether activations stay."""

from collections.abc import Mapping

from routebench.analysis import (
    METHOD,
    SEEDS,
    Analysis,
    Column,
    Mean,
    Method,
    Runs,
    Verdict,
    analysis_of,
    corrected,
    difference,
    run,
    table_of,
    wording,
)
from routebench.analysis.equivariance import EXPLAINED, with_explained_change

HEADLINE = ("turn by 30°", "shift by 2 px")
"""Changes whose columns are shown at first, where a run has them."""
WHICH = {
    "classes": "Class capsules: that of the true class alone. Primary capsules: the mean over places of each type.",
    "objects": "Objects were learned without labels: each counts on all images. A VAE has one pose, its means.",
}
"""Capsules whose poses count, for the name of the last layer."""


@analysis_of("equivariance", "equivariance-table", place=10)
def equivariance_table(runs: Runs) -> Analysis | None:
    """Accuracy, R² of poses with a linear map and without, and correlation of activations, per method and change."""
    if runs.values("pose_r2").empty:
        return None
    runs = with_explained_change(runs)
    measured = runs.values("pose_r2")
    changes = list(dict.fromkeys(measured["change"]))
    shown = [change for change in HEADLINE if change in changes] or changes[:1]
    top = "classes" if "classes" in set(measured["layer"]) else "objects"
    columns = _columns(changes, shown, top)
    by_seed = runs.by_seed("pose_r2", layer=top, change=shown[0])
    table = table_of(runs, columns, order=_key("pose", shown[0]))
    return Analysis(
        title="Do poses follow the image?",
        reading=_iterating(by_seed) or "Do poses follow the image, by a linear map?",
        table=table,
        columns=columns,
        notes=(
            "R² of pose(Tx) = A pose(x) + b on test images, with A and b for each type of capsule; 0 is the mean pose.",
            "A and b are from training images by ridge regression, whose ridge held-out images choose.",
            WHICH[top],
            "Without a map: the same R² with A = 1 and b = 0. An invariant pose reaches as much there as with A.",
            "Change explained: the share of the squared change of poses that the map predicts; 0 is as without a map.",
        ),
    )


def _key(what: str, change: str) -> str:
    return f"{what} {change}"


def _columns(changes: list[str], shown: list[str], top: str) -> tuple[Column, ...]:
    """Those of the shown changes, then of all others. Where nothing says a class, there is no accuracy."""
    labelled = top == "classes"
    found: list[Column] = [METHOD]
    if labelled:
        found.append(Mean.of("right_answers", title="Accuracy, %", explained="on test images as they are"))
    whose = "class capsules" if labelled else "objects"
    for change in [*shown, *(change for change in changes if change not in shown)]:
        of, extra = {"change": change}, change not in shown
        accuracy = Mean.of("changed_accuracy", _key("accuracy", change), f"Accuracy, {change}",
                           "on changed test images, in per cent", where=of, extra=extra)  # fmt: skip
        primary = Mean.of("pose_r2", _key("primary", change), f"Primary, {change}",
                          "pose R² of primary capsules, after the best linear map", where={**of, "layer": "primary"},
                          extra=True)  # fmt: skip
        found += [
            *((accuracy,) if labelled else ()),
            Mean.of("pose_r2", _key("pose", change), f"Pose R², {change}", f"of {whose}, with a linear map",
                    where={**of, "layer": top}, extra=extra),
            Mean(f"Change explained, {change}", _key("explained", change), "±.2",
                 f"of poses of {whose}: the share that the linear map predicts",
                 metric=EXPLAINED, where={**of, "layer": top}, extra=labelled or extra),
            Mean.of("pose_r2_same", _key("same", change), f"Without a map, {change}", f"pose R² of {whose}, if the "
                    "pose before the change is the prediction", where={**of, "layer": top}, extra=labelled or extra),
            *((primary,) if labelled else ()),
            Mean.of("activation_correlation", _key("activations", change), f"Activations, {change}",
                    f"correlation of {'class scores' if labelled else 'activations'} before and after; 1 is invariance",
                    where={**of, "layer": top}, extra=extra),
        ]  # fmt: skip
    return (*found, SEEDS)


def _iterating(by_seed: Mapping[Method, Mapping[int, float]]) -> str:
    """Methods whose R² falls from their fewest iterations to their most, after Holm's correction over them; or none."""
    kinds: dict[Method, list[Method]] = {}
    for method in sorted(by_seed, key=lambda method: method.iterations or 0):
        kinds.setdefault(method.family, []).append(method)
    pairs = [(own[0], own[-1]) for own in kinds.values() if len(own) > 1]
    found = corrected([difference(by_seed[most], by_seed[fewest]) for fewest, most in pairs])
    fallen = [
        f"{fewest.title} by {-one.mean:.2f} (T = {fewest.iterations} to {most.iterations})"
        for (fewest, most), one in zip(pairs, found, strict=True)
        if one.verdict is Verdict.WORSE
    ]
    return f"With more iterations R² of poses falls significantly: {wording.listed(fallen, 4)}." if fallen else ""


if __name__ == "__main__":
    run(equivariance_table)
