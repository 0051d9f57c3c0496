"""Bias of selection on test images: the accuracy that papers report, and the one without selection."""

from pandas import DataFrame

from routebench.analysis import (
    METHOD,
    Analysis,
    Column,
    Mean,
    Method,
    Runs,
    analysis_of,
    best_first,
    difference,
    mean_of,
    run,
)
from routebench.analysis.comparison import Contender, contenders_of

BEST = "best_test_accuracy"
COLUMNS = (
    METHOD,
    Mean.of("accuracy", "mean", explained="not selected by test images; mean over seeds, 95 % interval", text="±.2"),
    Column("Best epoch, %", "picked", "±.2", "of the epoch with the highest test accuracy"),
    Column("Added", "added", "±.2", "points that this selection adds, paired by seed"),
    Column("Best of all, %", "best_of_all", ".2f", "of any epoch, seed and T of the method: a single run"),
    Column("Seeds", "n"),
)


@analysis_of("accuracy", "selection-on-test", place=28)
def selection_on_test(runs: Runs) -> Analysis | None:
    """Accuracy (%) without selection, at the best test epoch, and at the best epoch, seed and T.

    Source of the rule: Tsai et al. 2020 report the best epoch on the test images, and the best number of iterations.
    """
    picked = runs.by_seed(BEST)
    measured = [one for one in contenders_of(runs) if one.accuracies]
    if not any(one.method in picked for one in measured):
        return None
    table = best_first(DataFrame([_row(one, picked.get(one.method, {})) for one in measured]), "mean")
    highest: dict[Method, float] = {}
    for method, values in picked.items():
        highest[method.family] = max(*values.values(), highest.get(method.family, 0.0))
    table["best_of_all"] = [highest.get(method.family) for method in table["method"]]
    return Analysis(
        title="What selection on the test images adds",
        reading="How much would choosing the best epoch by test images add?",
        table=table,
        columns=COLUMNS,
        notes=(
            (
                "Everything else on this page uses the first column. The others are there to be put beside papers that "
                "select by test images: they are optimistic, the more so the more epochs, seeds and T there are."
            ),
        ),
    )


def _row(one: Contender, picked: dict[int, float]) -> dict[str, object]:
    return {
        "method": one.method,
        "mean": mean_of(one.values, whole=100),
        "picked": mean_of((value for seed, value in picked.items() if seed in one.accuracies), whole=100),
        "added": difference(picked, one.accuracies),
        "n": len(set(picked) & set(one.accuracies)),
    }


if __name__ == "__main__":
    run(selection_on_test)
