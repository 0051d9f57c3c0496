"""Accuracy against the budget of attacks, and how often an attack reaches a class that it chose."""

import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.attacked import NAMES, accuracies, budgets
from routebench.analysis.means import means_of, value_with_interval

UNTARGETED = ("noise", "fgsm", "bim", "pgd", "momentum", "transfer", "worst")
DRAWN = ("fgsm", "bim", "worst")
MOST = 10  # lines in a panel
HALF = 50.0


@analysis_of("robustness", "attack-curves", place=20)
def attack_curves(runs: Runs) -> Analysis | None:
    """Accuracy by eps under FGSM, BIM and all attacks, and success of targeted ones; Hinton et al. 2018, figure 3."""
    table = _table(runs)
    if table.empty:
        return None
    drawn = _drawn(table)
    panels = [attack for attack in DRAWN if attack in set(drawn.loc[~drawn["targeted"], "attack"])]
    aimed = [attack for attack in UNTARGETED if attack in set(drawn.loc[drawn["targeted"], "attack"])]
    with figures.look():
        figure, axes = figures.new_figure(2.5 * (len(panels) + len(aimed)), rows=len(panels) + len(aimed), sharex=True)
        for one, attack in zip(axes, panels, strict=False):
            _draw(one, drawn[(drawn["attack"] == attack) & ~drawn["targeted"]], runs)
            one.set_title(f"{NAMES[attack]}{' over all attacks' if attack == 'worst' else ', untargeted'}")
            one.set_ylabel("accuracy, %")
        for one, attack in zip(axes[len(panels) :], aimed, strict=True):
            _draw(one, drawn[(drawn["attack"] == attack) & drawn["targeted"]], runs)
            one.set_title(f"{NAMES[attack]}, towards a chosen class")
            one.set_ylabel("success, %")
        axes[-1].set_xlabel("eps, L-infinity, pixels from 0 to 1")
    reading = _reading(table)
    return Analysis(
        title="Accuracy by the budget of attacks",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("Attack", "attack", _attack, numeric=False),
            Column("eps", "eps", lambda row: f"{row['eps']:g}", "L-infinity, pixels from 0 to 1"),
            Column("eps, std", "eps_std", lambda row: f"{row['eps_std']:.2f}",
                   "the same in standard deviations of training pixels, the unit that Hinton et al. 2018 may mean"),
            Column("Grey levels", "levels", lambda row: str(row["levels"]), "of 255, that a pixel may change by"),
            Column("%", "mean", _shown, "accuracy; for a chosen class, images that came out as that class"),
        ),
        notes=(
            "Each image with the loss that is worst for it. eps 0 is the accuracy without an attack.",
            "Success is the mean over the chosen classes; images of the chosen class itself are left out.",
            "Mean over seeds; bars are 95 % t intervals.",
        ),
        alternative="Lines over eps, one panel per attack.",
    )  # fmt: skip


def _table(runs: Runs) -> DataFrame:
    """One row per method, attack and eps."""
    parts = [
        accuracies(runs, attack, eps).assign(attack=attack, eps=float(eps), targeted=False)
        for attack in UNTARGETED
        for eps in budgets(runs)
    ]
    parts = [part for part in parts if not part.empty]
    if not parts:
        return DataFrame()
    clean = means_of(runs, "clean_accuracy").assign(eps=0.0, targeted=False)
    parts += [clean.assign(attack=attack) for attack in dict.fromkeys(part["attack"].iloc[0] for part in parts)]
    aimed = means_of(runs, "targeted_success", by=("attack", "eps"))
    if not aimed.empty:
        parts.append(aimed.assign(eps=aimed["eps"].astype(float), targeted=True))
    deviation = float(runs.results.loc[runs.results["metric"] == "pixel_std", "value"].iloc[0])
    table = pd.concat(parts, ignore_index=True)
    table["eps_std"] = table["eps"] / deviation
    table["levels"] = (table["eps"] * 255 + 1e-6).astype(int)
    order = {name: place for place, name in enumerate(UNTARGETED)}
    table["place"] = table["attack"].map(order)
    keys = ["targeted", "place", "name", "eps"]
    kept = ["name", "label", "iterations", "role", "attack", "targeted", "eps", "eps_std", "levels", "mean", "low"]
    return table.sort_values(keys)[[*kept, "high", "n"]].reset_index(drop=True)


def _drawn(table: DataFrame) -> DataFrame:
    """The lines that there is room for: single iterations are left out first."""
    names = table.drop_duplicates("name").assign(single=lambda rows: rows["iterations"].fillna(0) == 1)
    kept = names.sort_values("single", kind="stable")["name"].head(MOST)
    return table[table["name"].isin(kept)]


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    ends, colours = {}, {}
    for place, (name, line) in enumerate(table.groupby("name")):
        label = str(line["label"].iloc[0])
        colour = colours[str(name)] = runs.colours.get(label, palette.MUTED)
        dashes = (0, (3, 2)) if line["iterations"].fillna(0).iloc[0] == 1 else "-"
        axes.plot(
            line["eps"], line["mean"], color=colour, linestyle=dashes, marker=figures.MARKERS[place % 10], markersize=4
        )
        axes.vlines(line["eps"], line["low"].clip(0, 100), line["high"].clip(0, 100), color=colour, lw=0.8, alpha=0.5)
        ends[str(name)] = float(line["mean"].iloc[-1])
    axes.set_ylim(-3, 110)
    axes.set_yticks(range(0, 101, 20))
    figures.label_ends(axes, float(table["eps"].max()), ends, colours, gap=0.1)


def _attack(row: Row) -> str:
    return f"{NAMES[str(row['attack'])]}{', chosen class' if row['targeted'] else ''}"


def _shown(row: Row) -> str:
    return value_with_interval(row["mean"], row["low"], row["high"], 1)


def _reading(table: DataFrame) -> str:
    worst = table[(table["attack"] == "worst") & ~table["targeted"]]
    held = worst[worst["mean"] >= HALF].groupby("name")["eps"].max()
    far = float(held.max()) if len(held) else 0.0
    names = [str(name) for name in held.index[held == far]]
    if far == 0:
        first = "No method keeps half of the images at any eps that was tried"
    else:
        count = worst["name"].nunique()
        who = f"all {count} methods" if len(names) == count else wording.listed(names, 5)
        first = f"Against all attacks half of the images are kept up to eps {far:g} by {who}"
    return f"{first}{_aimed(table)}."


def _aimed(table: DataFrame) -> str:
    rows = table[table["targeted"]]
    if rows.empty:
        return ""
    last = rows[rows["eps"] == rows["eps"].max()].sort_values("mean")
    last = last[last["attack"] == last["attack"].iloc[-1]]
    low, high = last.iloc[0], last.iloc[-1]
    told = f"{high['mean']:.0f} % with {high['name']}"
    if len(last) > 1:
        told = f"{low['mean']:.0f} % ({low['name']}) to {high['mean']:.0f} % ({high['name']})"
    return f"; at eps {high['eps']:g} {NAMES[str(high['attack'])]} reaches a chosen class in {told}"


if __name__ == "__main__":
    run(attack_curves)
