"""Reads adversarial accuracy from runs: budgets, verdicts, and differences by seed."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from routebench import statistics
from routebench.analysis import Estimate, Method, Runs, base_of, corrected, difference
from routebench.catalogue import views_of
from routebench.masking import verdict

LINF = {"norm": "linf"}
NAMES = {
    "noise": "Noise",
    "fgsm": "FGSM",
    "bim": "BIM",
    "pgd": "PGD",
    "momentum": "Momentum",
    "apgd-ce": "APGD-CE",
    "apgd-t": "APGD-T",
    "fab-t": "FAB-T",
    "square": "Square",
    "transfer": "Black box",
    "worst": "Worst case",
    "carlini-wagner": "Carlini-Wagner",
    "deepfool": "DeepFool",
    "boundary": "Boundary",
    "hop-skip-jump": "HopSkipJump",
}
"""Display names of attacks."""


def under(attack: str, **where: str) -> dict[str, str]:
    """Conditions for the accuracy under an attack, with the loss that was worst for each image."""
    return {**LINF, "attack": attack, "loss": "" if attack in ("noise", "transfer") else "best", **where}


def of_all(runs: Runs, metric: str) -> float:
    """A value shared by all runs, such as the number of attacked images; NaN without results."""
    found = runs.results.loc[runs.results["metric"] == metric, "value"]
    return math.nan if found.empty else float(found.iloc[0])


def main_eps(runs: Runs) -> str | None:
    """The budget at which the costly checks were made, as results write it; None without results."""
    found = of_all(runs, "main_eps")
    return None if math.isnan(found) else f"{found:g}"


def budgets(runs: Runs) -> list[str]:
    """Every eps of the L-infinity attacks, rising, as results write them."""
    if "eps" not in runs.results:
        return []
    own = runs.results[(runs.results["norm"] == "linf") & runs.results["eps"].notna()]
    return sorted(map(str, own["eps"].unique()), key=float)


def fired_checks(runs: Runs) -> dict[Method, Counter[str]]:
    """By method: the checks that fired, and with how many seeds."""
    rows = runs.results[runs.results["metric"] == "check_fired"]
    found: dict[Method, Counter[str]] = {}
    for cell, check, value in zip(rows["cell"], rows["check"], rows["value"], strict=True):
        found.setdefault(runs.methods[cell], Counter()).update([str(check)] if value > 0 else [])
    return found


def verdicts(runs: Runs) -> dict[Method, str]:
    """By method: `believable`, or why its numbers are suspect with any seed."""
    return {method: verdict(fired) for method, fired in fired_checks(runs).items()}


def compared(runs: Runs, base: str, where: Mapping[str, Any]) -> dict[Method, Estimate]:
    """Differences in accuracy under attack to a baseline, in points, corrected over all other methods.

    Paired by seed; where each has one seed, the same, by image, for the worst case.

    Returns:
        one for each other measured method; empty without the baseline.
    """
    values = runs.by_seed("attacked_accuracy", **where)
    others = {method: theirs for method in values if (theirs := base_of(method, base, values)) not in (None, method)}
    found = []
    for method, theirs in others.items():
        has_one = len(values[method]) == len(values[theirs]) == len({*values[method]} & {*values[theirs]}) == 1
        by_image = _by_image(runs, method, theirs, where) if has_one else None
        found.append(by_image or difference(values[method], values[theirs]))
    return dict(zip(others, corrected(found), strict=True))


def _by_image(runs: Runs, ours: Method, theirs: Method, where: Mapping[str, Any]) -> Estimate | None:
    """The difference over images of the one shared seed; None if outcomes were not kept, or some show one object."""
    if where["attack"] != "worst":
        return None
    rows = runs.values("attacked_accuracy", **where)
    one, other = (rows[rows["method"] == method].set_index("seed")["cell"] for method in (ours, theirs))
    (seed,) = {*one.index} & {*other.index}
    right, others_right = (_robust(runs, cells[seed], where["eps"]) for cells in (one, other))
    if (
        right is None
        or others_right is None
        or right.shape != others_right.shape
        or views_of(runs.data, right.size) != 1
    ):
        return None
    found = statistics.paired_samples(right, others_right)
    return Estimate.of(found, scale=100)


def _robust(runs: Runs, cell: str, eps: str) -> np.ndarray | None:
    """Which images of a cell withstood every attack."""
    kept = runs.arrays(cell).get("robust")
    known = budgets(runs)
    return None if kept is None or len(kept) != len(known) else np.asarray(kept)[known.index(eps)].astype(bool)
