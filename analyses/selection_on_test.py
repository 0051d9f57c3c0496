"""What selection by test images adds: the accuracy that papers report beside the one that nothing was selected for."""

import math
from collections.abc import Callable

from pandas import DataFrame

from routebench import statistics
from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, run, wording
from routebench.analysis.comparison import Contender, contenders_of
from routebench.analysis.means import value_with_interval

BEST = "best_test_accuracy"


@analysis_of("accuracy", "selection-on-test", place=28)
def selection_on_test(runs: Runs) -> Analysis | None:
    """Accuracy (%) without selection by test images, of the best epoch by them, and the best epoch, seed and T of all.

    Source of the rule: Tsai et al. 2020 report the best epoch on the test images, and the best number of iterations.
    """
    best = _best_by_cell(runs)
    entries = [entry for entry in contenders_of(runs) if entry.accuracies]
    if not best or not any(cell in best for entry in entries for cell in entry.cells.values()):
        return None
    table = DataFrame([_row(entry, best) for entry in entries]).astype({"iterations": "Int64"})
    table = _with_best_of_all(table, entries, best).sort_values("mean", ascending=False).reset_index(drop=True)
    return Analysis(
        title="What selection on the test images adds",
        reading=_reading(table),
        table=table,
        columns=_columns(),
        notes=(
            (
                "Everything else on this page uses the first column. The others are there to be put beside papers that "
                "select by test images: they are optimistic, the more so the more epochs, seeds and T there are."
            ),
        ),
    )


def _best_by_cell(runs: Runs) -> dict[str, float]:
    own = runs.results[(runs.results["metric"] == BEST) & runs.results["value"].notna()]
    return dict(zip(own["cell"].astype(str), own["value"].astype(float), strict=True))


def _row(entry: Contender, best: dict[str, float]) -> dict[str, object]:
    seeds = [seed for seed in sorted(entry.accuracies) if entry.cells[seed] in best]
    honest = statistics.mean_interval([entry.accuracies[seed] for seed in sorted(entry.accuracies)])
    picked = statistics.mean_interval([best[entry.cells[seed]] for seed in seeds])
    gained = statistics.mean_interval([best[entry.cells[seed]] - entry.accuracies[seed] for seed in seeds])
    return {
        "name": entry.name,
        "label": entry.label,
        "role": entry.role,
        "iterations": entry.iterations,
        "mean": honest.mean,
        "low": honest.low,
        "high": honest.high,
        "picked": picked.mean,
        "picked_low": picked.low,
        "picked_high": picked.high,
        "added": gained.mean,
        "added_low": gained.low,
        "added_high": gained.high,
        "n": len(seeds),
    }


def _with_best_of_all(table: DataFrame, entries: list[Contender], best: dict[str, float]) -> DataFrame:
    """Adds `best_of_all`, the highest test accuracy of any epoch and seed with any T of the method."""
    highest: dict[str, float] = {}
    for entry in entries:
        for cell in entry.cells.values():
            if cell in best:
                highest[entry.label] = max(best[cell], highest.get(entry.label, -math.inf))
    return table.assign(best_of_all=table["label"].map(highest))


def _columns() -> tuple[Column, ...]:
    return (
        Column(
            "Method", "name", wording.marked, "routing method, and T, the iterations it was trained with", numeric=False
        ),
        Column("Accuracy, %", "mean", _cell_of("mean"), "not selected by test images; mean over seeds, 95 % interval"),
        Column("Best epoch, %", "picked", _cell_of("picked"), "of the epoch with the highest test accuracy"),
        Column("Added", "added", _cell_of("added"), "points that this selection adds, paired by seed"),
        Column("Best of all, %", "best_of_all", _best_of_all, "of any epoch, seed and T of the method: a single run"),
        Column("Seeds", "n", lambda row: wording.whole(row["n"])),
    )


def _cell_of(key: str) -> Callable[[Row], str]:
    """Shows a mean with its interval, from the columns `key`, `key_low` and `key_high`; `mean` has `low` and `high`."""
    low, high = ("low", "high") if key == "mean" else (f"{key}_low", f"{key}_high")
    return lambda row: value_with_interval(row[key], row[low], row[high], digits=2)


def _best_of_all(row: Row) -> str:
    return wording.NOTHING if math.isnan(row["best_of_all"]) else f"{row['best_of_all']:.2f}"


def _reading(table: DataFrame) -> str:
    added = table.dropna(subset=["added"]).sort_values("added", ascending=False)
    return (
        f"Picking the best epoch by test images adds {added['added'].min():.2f} to {added['added'].max():.2f} points "
        f"in the mean over seeds, most for {added['name'].iloc[0]}."
    )


if __name__ == "__main__":
    run(selection_on_test)
