"""Accuracy against the budget of attacks, and success rates of targeted attacks."""

import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Runs, analysis_of, figures, run
from routebench.analysis.attacked import NAMES, of_all, under

UNTARGETED = ("noise", "fgsm", "bim", "pgd", "momentum", "transfer", "worst")
COLUMNS = (
    Column("Method", "method", numeric=False),
    Column("Attack", "attack", lambda row: f"{NAMES[row['attack']]}{', chosen class' if row['targeted'] else ''}",
           numeric=False),
    Column("eps", "eps", "g", "L-infinity, pixels from 0 to 1"),
    Column("eps, std", "eps_std", ".2f",
           "the same in standard deviations of training pixels, the unit that Hinton et al. 2018 may mean"),
    Column("Grey levels", "levels", "", "of 255, that a pixel may change by"),
    Column("%", "mean", "±.1", "accuracy; for a chosen class, images that came out as that class"),
)  # fmt: skip


@analysis_of("robustness", "attack-curves", place=20)
def attack_curves(runs: Runs) -> Analysis | None:
    """Accuracy by eps under FGSM, BIM and all attacks, and success of targeted ones; Hinton et al. 2018, figure 3."""
    table = _table(runs)
    if table.empty:
        return None
    lines = table[(table["attack"] == "worst") & ~table["targeted"]]
    lines = lines if len(lines) else table[~table["targeted"] & (table["attack"] == table["attack"].iloc[0])]
    return Analysis(
        title="Accuracy by the budget of attacks",
        reading="How fast does accuracy fall as attacks may change more?",
        table=table,
        figure=figures.figure_of(_draw, lines, runs, **figures.panels_of(lines)),
        columns=COLUMNS,
        notes=(
            "Each image with the loss that is worst for it. eps 0 is the accuracy without an attack.",
            "Success is the mean over the chosen classes; images of the chosen class itself are left out.",
            (
                "Mean over seeds; bars are 95 % t intervals, for other seeds and the same images. Nothing is tested: "
                "tests at all budgets would be one family."
            ),
        ),
        alternative="Lines over eps, one panel per attack.",
    )


def _table(runs: Runs) -> DataFrame:
    """One row per method, attack and eps."""
    parts = [
        runs.means("attacked_accuracy", by=["eps"], **under(attack)).assign(attack=attack) for attack in UNTARGETED
    ]
    parts = [part for part in parts if not part.empty]
    if not parts:
        return DataFrame()
    clean = runs.means("clean_accuracy").assign(eps=0.0)
    parts += [clean.assign(attack=part["attack"].iloc[0]) for part in parts]
    aimed = runs.means("targeted_success", by=["attack", "eps"])
    table = pd.concat([part.assign(targeted=part is aimed) for part in (*parts, aimed)], ignore_index=True)
    table = table.astype({"eps": float})
    table["eps_std"] = table["eps"] / of_all(runs, "pixel_std")
    table["levels"] = (table["eps"] * 255 + 1e-6).astype(int)
    table["place"] = table["attack"].map(UNTARGETED.index)
    return table.sort_values(["targeted", "place", "method", "eps"], ignore_index=True)


def _draw(grid: list[Axes], lines: DataFrame, runs: Runs) -> None:
    for axes in grid:
        axes.set_ylim(-3, 103)
    figures.multiples(grid, lines, "eps", "mean", runs.colour, markersize=3)
    grid[0].figure.supxlabel("eps, L-infinity, pixels from 0 to 1", fontsize=9)
    grid[0].figure.supylabel(f"accuracy, %: {NAMES[lines['attack'].iloc[0]].lower()}", fontsize=9)


if __name__ == "__main__":
    run(attack_curves)
