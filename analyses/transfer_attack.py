"""Transfer attacks: accuracy on images made against another network."""

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import (
    Analysis,
    Column,
    Mean,
    Runs,
    analysis_of,
    best_first,
    figures,
    numbers,
    palette,
    run,
    table_of,
)
from routebench.analysis.attacked import LINF, main_eps, under

KINDS = {"noise": ("Noise", "o"), "transfer": ("Black box", "D"), "worst": ("All attacks", "s")}
ACCURACY = "attacked_accuracy"
COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("eps", "eps", "g", "L-infinity, pixels from 0 to 1"),
    Mean.of(ACCURACY, "noise", "Noise, %", "accuracy under uniform noise", where=under("noise")),
    Mean.of(ACCURACY, "transfer", "Black box, %", "accuracy on another CNN's images", where=under("transfer")),
    Mean.of(ACCURACY, "worst", "All attacks, %", "worst case, image by image", where=under("worst")),
    Mean.of("source_accuracy", "source", "The source, %", where={**LINF, "attack": "transfer"}),
)  # fmt: skip


@analysis_of("robustness", "transfer-attack", place=40)
def transfer_attack(runs: Runs) -> Analysis | None:
    """Accuracy under noise, under images made for another CNN, and under all attacks; Hinton et al. 2018, section 6."""
    eps = main_eps(runs)
    table = _table(runs)
    if eps is None or table.empty:
        return None
    shown = best_first(table[table["eps"] == float(eps)], "transfer")[::-1].reset_index(drop=True)
    return Analysis(
        title="Black box against white box",
        reading="How much accuracy do images take that were made against another network?",
        table=table,
        figure=figures.figure_of(_draw, shown, runs, eps, height=1.2 + 0.32 * len(shown)),
        columns=COLUMNS,
        notes=(
            (
                "Black-box images are made by FGSM and momentum on the CNN of another seed, for the difference of "
                "logits; an image is broken if either breaks it. The baseline cnn is thus a second CNN."
            ),
            (
                "Mean over seeds with its 95 % t interval. Differences to the second CNN are tested over seeds on "
                "these images, at this eps alone; which images were broken was not kept: others may differ."
            ),
        ),
        alternative="Points per method: noise, black box and all attacks.",
    )


def _table(runs: Runs) -> DataFrame:
    table = table_of(runs, COLUMNS, by=["eps"])
    table = table[numbers(table["transfer"]).notna()]
    return table.assign(eps=table["eps"].astype(float)).sort_values("eps", kind="stable", ignore_index=True)


def _draw(axes: Axes, table: DataFrame, runs: Runs, eps: str) -> None:
    for line, row in enumerate(table.to_dict("records")):
        colour = runs.colour(row["method"])
        values = [row[key].mean for key in KINDS if row[key].known]
        axes.plot([min(values), max(values)], [line, line], color=palette.MUTED, lw=0.8, zorder=1)
        for key, (_, marker) in KINDS.items():
            face = "none" if key == "noise" else colour
            axes.plot(row[key].mean, line, marker, color=colour, markerfacecolor=face, markersize=6)
    for title, marker in KINDS.values():
        face = "none" if title == "Noise" else palette.INK
        axes.plot([], [], marker, color=palette.INK, markerfacecolor=face, markersize=6, label=title)
    axes.set_yticks(range(len(table)), [*map(str, table["method"])])
    axes.set(ylim=(-0.6, len(table) - 0.4), xlim=(-3, 103), xlabel=f"accuracy, % (eps {eps}, L-infinity)")
    axes.figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9, handletextpad=0.2)


if __name__ == "__main__":
    run(transfer_attack)
