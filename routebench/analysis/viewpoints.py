"""Compares networks on novel viewpoints, at epochs at which they are equally good on familiar ones.

Other changes of images than the viewpoint do as well: see `Kinds`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from routebench.analysis import (
    Estimate,
    Method,
    Runs,
    SeedValues,
    best_first,
    by_method,
    corrected,
    difference,
    mean_of,
    unflattered,
    wording,
)

REFERENCE = "cnn"
NAME = "the CNN"
"""The baseline that networks are matched to."""
TOLERANCE = 1.0
"""Two networks count as equally good up to this difference, in points of accuracy."""
HELD_OUT, FAMILIAR, LAST = "held_out", "familiar", "last"
MATCHINGS = (HELD_OUT, FAMILIAR)
"""Matchings on held-out images, or on the familiar part of the test images, as in the paper."""

BELOW, ABOVE, BETWEEN = "never as good", "better from the start", "passing between two epochs"

CURVES = {"held_out": "held_out_accuracy", "familiar": "familiar_accuracy", "novel": "novel_accuracy"}


@dataclass(frozen=True)
class Kinds:
    """Names of the two parts of the test images.

    Args:
        novel, familiar: images of each part.
        training: how training images and test images differ otherwise, in a sentence.
    """

    novel: str
    familiar: str
    training: str

    @classmethod
    def of(cls, runs: Runs) -> "Kinds":
        """Viewpoints, where accuracy by viewpoint was measured; else changed images."""
        if (runs.results["metric"] == "accuracy_by_view").any():
            return cls(
                "novel viewpoints",
                "familiar viewpoints",
                "Trained on familiar viewpoints only; tested on other objects.",
            )
        return cls(
            "changed images",
            "unchanged images",
            "Trained on unchanged images only (familiar); tested on changed ones too (novel).",
        )


@dataclass(frozen=True)
class Match:
    """The epoch at which a network is as good as another one.

    Args:
        epoch: from 1; None if no epoch is near enough.
        gap: how much better the network is at the nearest epoch, in points.
        reason: why no epoch is near enough, a constant of this module; else empty.
    """

    epoch: int | None
    gap: float
    reason: str = ""


def match(accuracies: Sequence[float], target: float, tolerance: float = TOLERANCE) -> Match:
    """Finds the epoch whose accuracy is nearest to the target; the first of several.

    Args:
        accuracies: after each epoch, in %.
        target: in %.
        tolerance: in points; up to this gap the network counts as equally good.
    """
    gaps = np.asarray(accuracies, dtype=float) - target
    nearest = int(np.abs(gaps).argmin())
    gap = float(gaps[nearest])
    if abs(gap) <= tolerance:
        return Match(nearest + 1, gap)
    return Match(None, gap, BELOW if gaps.max() < 0 else ABOVE if gaps.min() > 0 else BETWEEN)


def matched_to_reference(runs: Runs) -> DataFrame:
    """One row per method, seed and way of matching, with errors in %.

    The better network is taken at the epoch at which it matches the final accuracy of the other one. If the method
    becomes better than the reference, this is an epoch of the method, as in the paper; else an epoch of the reference.

    Columns: `method, seed, matching` (a constant of this module; `last` is the last epoch, unmatched), `epoch, gap,
    reason` as in `Match`, `familiar, novel`, errors at that epoch, and `their_epoch, their_familiar, their_novel`,
    those of the reference with the same seed, all NaN where there is none. Empty where nothing was measured.
    """
    curves = _curves(runs)
    reference = next((method for method in curves if method.label == REFERENCE), None)
    theirs = curves[reference] if reference else {}
    return DataFrame(
        {"method": method, "seed": seed, **row}
        for method, of_method in curves.items()
        for seed, own in sorted(of_method.items())
        for row in _rows(own, theirs.get(seed), is_reference=method is reference)
    )


def summary(runs: Runs) -> DataFrame:
    """One row per method: its errors, and how much smaller than the reference's that on novel viewpoints is.

    Columns: `method, planned`; for the last epoch and each way of matching M, `M_novel` and `M_familiar`, mean errors
    in %; for the ways of matching `M_gap`, `M_epoch`, `M_their_epoch` and `M_their_novel`, means as numbers,
    `M_reduction`, the mean over seeds of the reduction of the novel error in % of the reference's, corrected over all
    methods, and `M_unmatched`, why seeds are missing. Best first by the reduction at matched held-out accuracy.
    """
    rows = matched_to_reference(runs)
    if rows.empty:
        return rows
    rows = runs.without_twins(rows)
    planned = Counter(runs.methods.values())
    found = []
    for method, group in by_method(rows):
        row: dict[str, object] = {"method": method, "planned": planned[method]}
        for matching in (LAST, *MATCHINGS):
            own = group[group["matching"] == matching]
            row |= {f"{matching}_{key}": value for key, value in _means(own, matching, runs.first).items()}
        found.append(row)
    table = DataFrame(found)
    base = next((method for method in planned if method.label == REFERENCE), None)
    for matching in MATCHINGS:
        never = never_as_good(rows, matching)
        ours = [method.less(never.get(method, frozenset())) for method in table["method"]]
        known = [*table[f"{matching}_reduction"]]
        if base is not None:
            known = [unflattered(one, method, base) for one, method in zip(known, ours, strict=True)]
        table[f"{matching}_reduction"] = Series(corrected(known))
    first, second = (f"{matching}_reduction" for matching in MATCHINGS)
    return best_first(best_first(table, second), first)


def never_as_good(rows: DataFrame, matching: str) -> dict[Method, frozenset[int]]:
    """The seeds with which a method never was as good as the reference: those that are left may be its good ones.

    Args:
        rows: those of `matched_to_reference`.
        matching: one of `MATCHINGS`.
    """
    never = rows[(rows["matching"] == matching) & (rows["reason"] == BELOW)]
    return {method: frozenset(map(int, own["seed"])) for method, own in by_method(never)}


def _curves(runs: Runs) -> dict[Method, dict[int, DataFrame]]:
    """Accuracies in % by method and seed: one row per epoch, columns as `CURVES`; none where a value is missing."""
    wanted = runs.results[runs.results["metric"].isin(CURVES.values())]
    whole = wanted[~wanted["cell"].isin(wanted.loc[wanted["value"].isna(), "cell"])]
    found: dict[Method, dict[int, DataFrame]] = {}
    curves = whole.pivot_table(index=["cell", "seed", "epoch"], columns="metric", values="value")
    for _, rows in curves.reindex(columns=[*CURVES.values()]).groupby(["cell", "seed"]):
        cell, seed, _ = rows.index[0]
        if rows.notna().all(axis=None) and [*rows.index.get_level_values("epoch")] == [*range(1, len(rows) + 1)]:
            curve = rows.droplevel(["cell", "seed"]).set_axis([*CURVES], axis=1)
            found.setdefault(runs.methods[cell], {})[int(seed)] = curve
    return {method: found[method] for method in sorted(found)}


def _rows(own: DataFrame, theirs: DataFrame | None, *, is_reference: bool) -> list[dict[str, Any]]:
    """The epochs where network and reference are taken, and the errors of both there, for each way of matching."""
    last = None if theirs is None else len(theirs)
    met = {LAST: (Match(len(own), math.nan), last)}
    for matching in MATCHINGS:
        if theirs is None:
            met[matching] = Match(None, math.nan, f"without a {REFERENCE} of theirs"), None
        elif is_reference:
            met[matching] = Match(len(own), 0.0), last
        else:
            met[matching] = _meet([*own[matching]], [*theirs[matching]])
    return [
        {"matching": matching, "epoch": found.epoch or math.nan, "gap": found.gap, "reason": found.reason}
        | _errors(own, found.epoch)
        | {"their_epoch": epoch or math.nan}
        | {f"their_{key}": error for key, error in _errors(theirs, epoch).items()}
        for matching, (found, epoch) in met.items()
    ]


def _meet(own: list[float], theirs: list[float]) -> tuple[Match, int]:
    """The match where the better of two networks is as good as the other at its end, and the epoch of theirs there."""
    found = match(own, theirs[-1])
    if found.reason == BELOW:
        other = match(theirs, own[-1])
        if other.epoch is not None:
            return Match(len(own), -other.gap), other.epoch
    return found, len(theirs)


def _errors(curve: DataFrame | None, epoch: int | None) -> dict[str, float]:
    if curve is None or epoch is None:
        return {"familiar": math.nan, "novel": math.nan}
    row = curve.iloc[epoch - 1]
    return {"familiar": 100 - float(row["familiar"]), "novel": 100 - float(row["novel"])}


def _means(rows: DataFrame, matching: str, first: int | None) -> dict[str, object]:
    """Means over the seeds that were matched."""
    done = rows[rows["novel"].notna()]
    found: dict[str, object] = {key: mean_of(done[key], whole=100) for key in ("novel", "familiar")}
    if matching == LAST:
        return found
    found |= {key: float(done[key].mean()) for key in ("epoch", "gap", "their_epoch", "their_novel")}
    found["unmatched"] = ", ".join(
        f"{wording.plural(len(group), 'seed')} {reason}{_apart(group['gap'])}"
        for reason, group in rows[rows["reason"] != ""].groupby("reason")
    )
    return found | {"reduction": _reduction(done, first)}


def _reduction(done: DataFrame, first: int | None) -> Estimate:
    if any(method.label == REFERENCE for method in done["method"]):
        return Estimate()
    paired = done[done["their_novel"] > 0]
    shares = 100 * (1 - paired["novel"] / paired["their_novel"])
    known = SeedValues(dict(zip(paired["seed"], shares, strict=True)), first, (-math.inf, 100.0))
    return difference(known, SeedValues(dict.fromkeys(known, 0.0), within=(0.0, 0.0)))


def _apart(gaps: "Series[float]") -> str:
    """The distance of the nearest epochs, ` (1.2 to 4.0 points)`."""
    sizes = [f"{size:.1f}" for size in (gaps.abs().min(), gaps.abs().max())]
    if gaps.isna().any():
        return ""
    return f" ({sizes[0]} points)" if sizes[0] == sizes[1] else f" ({sizes[0]} to {sizes[1]} points)"
