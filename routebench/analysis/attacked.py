"""Reads adversarial accuracy from runs: budgets, verdicts, and differences by seed."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.analysis import MISSING, Estimate, Method, Runs, Verdict, base_of, corrected, difference, unflattered
from routebench.analysis.contenders import PairedAnswers, is_tied
from routebench.engine.results import outcomes
from routebench.masking import CHECKS, suspicions

Withstood = dict[Method, dict[int, NDArray[np.bool_] | None]]
"""By method and seed, which images withstood every attack."""
LINF = {"norm": "linf"}
ROBUST = "robust"
"""The raw output that has the images which withstood every attack, for each budget."""
OUTCOMES = ("attacked_accuracy", "accuracy_taken")
"""Metrics of an attack that was run."""
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
    """Conditions for the accuracy under an attack, with the loss that was worst for each image.

    Args:
        attack: a key of `NAMES`.
        where: further conditions, such as `eps="0.1"`.
    """
    return {**LINF, "attack": attack, "loss": "" if attack in ("noise", "transfer") else "best", **where}


def of_all(runs: Runs, metric: str) -> float:
    """A value shared by all runs, such as the number of attacked images; NaN without results.

    Args:
        runs: the runs of a suite.
        metric: a value of the column `metric`.
    """
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
    """Checks that fired, and with how many seeds, by method."""
    rows = runs.results[runs.results["metric"] == "check_fired"]
    found: dict[Method, Counter[str]] = {}
    for cell, check, value in zip(rows["cell"], rows["check"], rows["value"], strict=True):
        found.setdefault(runs.methods[cell], Counter()).update([str(check)] if value > 0 else [])
    return found


def verdicts(runs: Runs) -> dict[Method, str]:
    """Verdicts by method: `believable`, or why its numbers are suspect with any seed."""
    found = {method: verdict_on(fired) for method, fired in fired_checks(runs).items()}
    lacking = {
        method: ", ".join(NAMES.get(one, one) for one in attacks) for method, attacks in without_attacks(runs).items()
    }
    return found | {method: f"{Verdict.SUSPECT}: no result of {attacks}" for method, attacks in lacking.items()}


def verdict_on(fired: Iterable[str]) -> str:
    """The verdict on a method's adversarial accuracy, with the reasons if it is suspect.

    Args:
        fired: names of checks that fired.
    """
    reasons = [CHECKS[name].short for name in suspicions(fired)]
    return f"{Verdict.SUSPECT}: {'; '.join(reasons)}" if reasons else Verdict.BELIEVABLE


def without_attacks(runs: Runs) -> dict[Method, list[str]]:
    """L-infinity attacks, by method, that other networks have results of, and one of its own has not.

    The worst of the attacks that are left says too much good of it.
    """
    if "attack" not in runs.results:
        return {}
    made = runs.results[runs.results["metric"].isin(OUTCOMES) & (runs.results["norm"] == "linf")]
    by_cell = {str(cell): {*map(str, own)} for cell, own in made[made["value"].notna()].groupby("cell")["attack"]}
    every = {attack for attacks in by_cell.values() for attack in attacks}
    found: dict[Method, list[str]] = {}
    for cell, attacks in by_cell.items():
        if lacking := every - attacks:
            own = found.setdefault(runs.methods[cell], [])
            own += [attack for attack in NAMES if attack in lacking - {*own}]
    return found


def compared(runs: Runs, base: str, where: Mapping[str, Any]) -> dict[Method, Estimate]:
    """Differences in accuracy under attack to a baseline, in points, corrected over all other methods.

    Paired by seed; where each has one seed, the same, or all seeds differ alike, by image, for the worst case.

    Args:
        runs: the runs of a suite.
        base: label of the baseline.
        where: conditions of the accuracy, as `under` gives them, with the `eps`.

    Returns:
        one for each other measured method; empty without the baseline.
    """
    values = runs.by_seed("attacked_accuracy", **where)
    others = {method: theirs for method in values if (theirs := base_of(method, base, values)) not in (None, method)}
    found, lacking, kept = [], without_attacks(runs), _withstood(runs, where)
    for method, theirs in others.items():
        has_one = len(values[method]) == len(values[theirs]) == len({*values[method]} & {*values[theirs]}) == 1
        by_seed = difference(values[method], values[theirs])
        answers = _answers(runs, kept, method, theirs) if has_one or is_tied(by_seed) else None
        by_image = answers and (answers.difference if has_one else answers.over_images)
        found.append(_fair(lacking, by_image or by_seed, method, theirs))
    return dict(zip(others, corrected(found), strict=True))


def with_other_images(runs: Runs, base: str, where: Mapping[str, Any]) -> dict[Method, Estimate]:
    """The same differences as if the attacked images were drawn anew too, corrected over all other methods.

    Args:
        runs, base, where: as for `compared`.

    Returns:
        as `compared`, of methods of which it was kept which images withstood all attacks.
    """
    values = runs.by_seed("attacked_accuracy", **where)
    others = {method: theirs for method in values if (theirs := base_of(method, base, values)) not in (None, method)}
    kept = _withstood(runs, where)
    known = {method: _answers(runs, kept, method, theirs) for method, theirs in others.items()}
    lacking = without_attacks(runs)
    found = {
        method: _fair(lacking, one.difference, method, others[method])
        for method, one in known.items()
        if one is not None
    }
    return dict(zip(found, corrected(found.values()), strict=True))


def _fair(lacking: Container[Method], found: Estimate, ours: Method, theirs: Method) -> Estimate:
    """The difference, without a test where it is for a side that lost seeds or lacks attacks."""
    flattered = (found.mean >= 0 and ours in lacking) or (found.mean <= 0 and theirs in lacking)
    return found.untested(MISSING) if flattered else unflattered(found, ours, theirs)


def _answers(runs: Runs, kept: Withstood, ours: Method, theirs: Method) -> PairedAnswers | None:
    """Images that withstood with shared seeds; None if outcomes were not kept, or some images show one object."""
    one, other = kept.get(ours, {}), kept.get(theirs, {})
    shared = {*one} & {*other}
    ours_kept, theirs_kept = ([array for seed in shared if (array := own[seed]) is not None] for own in (one, other))
    if not shared or len(ours_kept) + len(theirs_kept) < 2 * len(shared):
        return None
    if len({array.shape for array in (*ours_kept, *theirs_kept)}) > 1 or runs.views(ours_kept[0].size) != 1:
        return None
    return PairedAnswers(np.stack(ours_kept), np.stack(theirs_kept))


def _withstood(runs: Runs, where: Mapping[str, Any]) -> Withstood:
    """The images that withstood every attack, by method and seed; None if that was not kept, or contradicts the record.

    Empty for the conditions of a single attack.
    """
    found: Withstood = {}
    if where["attack"] != "worst":
        return found
    known, rows = budgets(runs), runs.values("attacked_accuracy", **where)
    for method, seed, *run in zip(*(rows[name] for name in ("method", "seed", "cell", "value")), strict=True):
        found.setdefault(method, {})[int(seed)] = _robust(runs, known, where["eps"], *run)
    return found


def _robust(runs: Runs, known: Sequence[str], eps: str, cell: str, share: float) -> NDArray[np.bool_] | None:
    """Tells which images of a run withstood every attack of a budget, one of the `known`."""
    kept = runs.arrays(cell).get(ROBUST)
    if kept is None or len(kept) != len(known):
        return None
    found, fault = outcomes(np.asarray(kept)[known.index(eps)], [share])
    if fault:
        runs.tell_fault(cell, ROBUST, fault)
    return found
