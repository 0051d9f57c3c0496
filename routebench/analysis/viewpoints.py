"""Networks compared on novel viewpoints at epochs at which they are equally good on familiar ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from routebench import statistics
from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.analysis.comparison import Entry, entries_of

REFERENCE = "cnn"
"""What networks are matched to."""
TOLERANCE = 1.0
"""Points of accuracy up to which two networks count as equally good."""
HELD_OUT, FAMILIAR, LAST = "held_out", "familiar", "last"
MATCHINGS = (HELD_OUT, FAMILIAR)
"""By which images: held-out ones, or the familiar part of the test images, as the paper does it."""

BELOW, ABOVE, BETWEEN = "never as good", "better from the start", "passing between two epochs"

CURVES = {"held_out": "held_out_accuracy", "familiar": "familiar_accuracy", "novel": "novel_accuracy"}


@dataclass(frozen=True)
class Match:
    """The epoch at which a network is as good as another one.

    Args:
        epoch: from 1; None where no epoch is near enough.
        gap: how much better it is at the nearest epoch, in points.
        reason: why no epoch is near enough, a constant of this module; empty if one is.
    """

    epoch: int | None
    gap: float
    reason: str = ""


def match(accuracies: Sequence[float], target: float, tolerance: float = TOLERANCE) -> Match:
    """The epoch whose accuracy is nearest to the target, the first of several.

    Args:
        accuracies: after each epoch, in %.
        target: in %.
        tolerance: in points; the largest gap that counts as none.
    """
    gaps = np.asarray(accuracies, dtype=float) - target
    nearest = int(np.abs(gaps).argmin())
    gap = float(gaps[nearest])
    if abs(gap) <= tolerance:
        return Match(nearest + 1, gap)
    return Match(None, gap, BELOW if gaps.max() < 0 else ABOVE if gaps.min() > 0 else BETWEEN)


def matched_to_reference(runs: Runs) -> DataFrame:
    """One row per method, seed and way of matching, with errors in %.

    The better network is taken at the epoch at which it is as good as the other one at its last: the method's own where
    that becomes better than the reference, as in the paper, or the reference's where the method never does.

    Columns: `name, label, iterations, role, seed, matching` (a constant of this module; `last` is the last epoch,
    unmatched), `epoch, gap, reason` as in `Match`, `familiar, novel`, errors at that epoch, and `their_epoch,
    their_familiar, their_novel`, those of the reference with the same seed, all NaN where there is none. Empty where
    nothing was measured.
    """
    curves = _curves(runs)
    entries = [entry for entry in entries_of(runs) if entry.cells]
    reference = next((entry for entry in entries if entry.label == REFERENCE), None)
    rows = []
    for entry in entries:
        for seed, cell in sorted(entry.cells.items()):
            own = curves.get(cell)
            theirs = curves.get(reference.cells.get(seed, "")) if reference is not None else None
            if own is not None:
                rows += _rows(entry, seed, own, theirs, is_reference=entry is reference)
    return DataFrame(rows)


def summary(runs: Runs) -> DataFrame:
    """One row per method: its errors, and how much smaller than the reference's that on novel viewpoints is.

    Columns: `name, label, iterations, role, planned`; for the last epoch and each way of matching M, `M_n` seeds,
    `M_novel` and `M_familiar`, mean errors in % with limits `_low` and `_high`; for the ways of matching `M_gap` and
    `M_epoch`, means, `M_their_novel`, `M_reduction` with limits, the mean over seeds of the reduction of the novel
    error in % of the reference's, `M_p` of a difference paired by seed, `M_p_holm`, corrected over all methods, and
    `M_unmatched`, why seeds are missing. Best first by the reduction at matched held-out accuracy.
    """
    rows = matched_to_reference(runs)
    if rows.empty:
        return rows
    planned = {entry.name: entry.planned for entry in entries_of(runs)}
    found = []
    for name, group in rows.groupby("name", sort=False):
        row: dict[str, object] = {key: group[key].iloc[0] for key in ("name", "label", "iterations", "role")}
        row["planned"] = planned[str(name)]
        for matching in (LAST, *MATCHINGS):
            own = group[group["matching"] == matching]
            row |= {f"{matching}_{key}": value for key, value in _means(own, matching).items()}
        found.append(row)
    table = DataFrame(found)
    for matching in MATCHINGS:
        table[f"{matching}_p_holm"] = statistics.holm(table[f"{matching}_p"].to_numpy(dtype=float))
    order = [f"{HELD_OUT}_reduction", f"{FAMILIAR}_reduction"]
    return table.sort_values(order, ascending=False, na_position="last", kind="stable").reset_index(drop=True)


def dashes_of(line: DataFrame) -> str | tuple[int, tuple[int, ...]]:
    """How the line of a method is drawn: one iteration dashed, to be told from more of the same method."""
    return (0, (3, 2)) if (line["iterations"] == 1).fillna(False).any() else "-"


def _curves(runs: Runs) -> dict[str, DataFrame]:
    """Cell to its accuracies in %, one row per epoch, columns as `CURVES`."""
    wanted = runs.results[runs.results["metric"].isin(CURVES.values()) & runs.results["value"].notna()]
    found = {}
    for cell, rows in wanted.groupby("cell"):
        curve = rows.pivot_table(index="epoch", columns="metric", values="value").sort_index()
        if set(CURVES.values()) <= set(curve.columns):
            found[str(cell)] = curve[list(CURVES.values())].set_axis(list(CURVES), axis=1)
    return found


def _rows(
    entry: Entry, seed: int, own: DataFrame, theirs: DataFrame | None, *, is_reference: bool
) -> list[dict[str, object]]:
    known: dict[str, object] = {"name": entry.name, "label": entry.label, "role": entry.role, "seed": seed}
    known["iterations"] = pd.NA if entry.iterations is None else entry.iterations
    last = {"matching": LAST, "epoch": len(own), "gap": math.nan, "reason": ""}
    rows = [{**known, **last, **_errors(own, len(own)), **_theirs(theirs, None if theirs is None else len(theirs))}]
    for matching in MATCHINGS:
        their_epoch = None
        if theirs is None:
            found = Match(None, math.nan, f"without a {REFERENCE} of theirs")
        elif is_reference:
            found, their_epoch = Match(len(own), 0.0), len(theirs)
        else:
            found, their_epoch = _meet(list(own[matching]), list(theirs[matching]))
        at = {"matching": matching, "epoch": found.epoch or math.nan, "gap": found.gap, "reason": found.reason}
        rows.append({**known, **at, **_errors(own, found.epoch), **_theirs(theirs, their_epoch)})
    return rows


def _meet(own: list[float], theirs: list[float]) -> tuple[Match, int]:
    """Where the better of two networks is as good as the other at its end, and the epoch of theirs there."""
    found = match(own, theirs[-1])
    if found.reason == BELOW:
        other = match(theirs, own[-1])
        if other.epoch is not None:
            return Match(len(own), -other.gap), other.epoch
    return found, len(theirs)


def _theirs(curve: DataFrame | None, epoch: int | None) -> dict[str, float]:
    errors = dict.fromkeys(("familiar", "novel"), math.nan) if curve is None else _errors(curve, epoch)
    return {"their_epoch": epoch or math.nan, **{f"their_{key}": value for key, value in errors.items()}}


def _errors(curve: DataFrame, epoch: int | None) -> dict[str, float]:
    if epoch is None:
        return {"familiar": math.nan, "novel": math.nan}
    row = curve.iloc[epoch - 1]
    return {"familiar": 100 - float(row["familiar"]), "novel": 100 - float(row["novel"])}


def _means(rows: DataFrame, matching: str) -> dict[str, object]:
    """Over the seeds that were matched."""
    done = rows[rows["novel"].notna()]
    found: dict[str, object] = {"n": len(done)}
    for key in ("novel", "familiar"):
        found |= _with_limits(key, done[key], whole=100)
    if matching == LAST:
        return found
    found |= {key: float(done[key].mean()) for key in ("epoch", "gap", "their_epoch", "their_novel")}
    found["unmatched"] = ", ".join(
        f"{wording.plural(len(group), 'seed')} {reason}{_apart(group['gap'])}"
        for reason, group in rows[rows["reason"] != ""].groupby("reason")
    )
    if rows["label"].iloc[0] == REFERENCE:
        return found | _with_limits("reduction", done["novel"].head(0)) | {"p": math.nan}
    paired = done[done["their_novel"] > 0]
    found |= _with_limits("reduction", 100 * (1 - paired["novel"] / paired["their_novel"]))
    ours, theirs = (dict(zip(done["seed"], done[key], strict=True)) for key in ("novel", "their_novel"))
    found["p"] = statistics.paired_difference(ours, theirs).p_value
    return found


def _apart(gaps: "Series[float]") -> str:
    """How far the nearest epochs were away, ` (1.2 to 4.0 points)`."""
    sizes = [f"{size:.1f}" for size in (gaps.abs().min(), gaps.abs().max())]
    if gaps.isna().any():
        return ""
    return f" ({sizes[0]} points)" if sizes[0] == sizes[1] else f" ({sizes[0]} to {sizes[1]} points)"


def _with_limits(key: str, values: "Series[float]", whole: float | None = None) -> dict[str, float]:
    interval = statistics.mean_interval(values.to_numpy(dtype=float), whole=whole)
    return {key: interval.mean, f"{key}_low": interval.low, f"{key}_high": interval.high}
