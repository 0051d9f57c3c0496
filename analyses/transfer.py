"""Images made for another network: do capsules withstand them better than a second CNN does?"""

import math

import pandas as pd
from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.attacked import LINF, accuracies, budgets, compared, main_eps
from routebench.analysis.means import means_of, value_with_interval

KINDS = {"noise": ("Noise", "o"), "transfer": ("Black box", "D"), "worst": ("All attacks", "s")}
SECOND = "cnn"
ALPHA = 0.05


@analysis_of("robustness", "transfer", place=40)
def transfer(runs: Runs) -> Analysis | None:
    """Accuracy under noise, under images made for another CNN, and under all attacks; Hinton et al. 2018, section 6."""
    eps = main_eps(runs)
    table = _table(runs)
    if eps is None or table.empty:
        return None
    shown = table[table["eps"] == float(eps)].sort_values("transfer", kind="stable")
    with figures.look():
        figure, (axes,) = figures.new_figure(1.2 + 0.32 * len(shown))
        _draw(axes, shown, runs)
        axes.set_xlabel(f"accuracy, % (eps {eps}, L-infinity)")
        figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9, handletextpad=0.2)
    reading = _reading(runs, shown, eps)
    return Analysis(
        title="Black box against white box",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("eps", "eps", lambda row: f"{row['eps']:g}", "L-infinity, pixels from 0 to 1"),
            Column("Noise, %", "noise", lambda row: _shown(row, "noise"), "accuracy under uniform noise"),
            Column("Black box, %", "transfer", lambda row: _shown(row, "transfer"), "accuracy on another CNN's images"),
            Column("All attacks, %", "worst", lambda row: _shown(row, "worst"), "worst case, image by image"),
            Column("The source, %", "source", lambda row: _shown(row, "source"),
                   "images that the network they were made for withstands, of those this one has right"),
        ),
        notes=(
            (
                "Black-box images are made by FGSM and momentum on the CNN of another seed, for the difference of "
                "logits; an image is broken if either breaks it. The control cnn is thus a second CNN."
            ),
            "Mean over seeds with its 95 % t interval.",
        ),
        alternative="Points per method: noise, black box and all attacks.",
    )  # fmt: skip


def _table(runs: Runs) -> DataFrame:
    parts = []
    for eps in budgets(runs):
        table = accuracies(runs, "transfer", eps)
        if table.empty:
            continue
        table = table.rename(columns={"mean": "transfer", "low": "transfer_low", "high": "transfer_high"})
        found = {"noise": accuracies(runs, "noise", eps), "worst": accuracies(runs, "worst", eps)}
        where = {**LINF, "attack": "transfer", "eps": eps}
        found["source"] = means_of(runs, "source_accuracy", where=where)
        for key, means in found.items():
            by_name = means.drop_duplicates("name").set_index("name")
            for part, column in (("mean", key), ("low", f"{key}_low"), ("high", f"{key}_high")):
                table[column] = table["name"].map(by_name[part]).astype(float)
        parts.append(table.assign(eps=float(eps)).drop(columns="interval"))
    return pd.concat(parts, ignore_index=True) if parts else DataFrame()


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    for line, row in enumerate(table.to_dict("records")):
        colour = runs.colours.get(str(row["label"]), palette.MUTED)
        values = [row[key] for key in KINDS if not math.isnan(row[key])]
        axes.plot([min(values), max(values)], [line, line], color=palette.MUTED, lw=0.8, zorder=1)
        for key, (_, marker) in KINDS.items():
            face = "none" if key == "noise" else colour
            axes.plot(row[key], line, marker, color=colour, markerfacecolor=face, markersize=6)
    for title, marker in KINDS.values():
        face = "none" if title == "Noise" else palette.INK
        axes.plot([], [], marker, color=palette.INK, markerfacecolor=face, markersize=6, label=title)
    axes.set_yticks(range(len(table)), list(table["name"]))
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlim(-3, 103)


def _shown(row: Row, key: str) -> str:
    return value_with_interval(row[key], row[f"{key}_low"], row[f"{key}_high"], 1)


def _reading(runs: Runs, shown: DataFrame, eps: str) -> str:
    routed = shown[shown["name"] != SECOND].sort_values("transfer", ascending=False)
    second = shown[shown["name"] == SECOND]
    if routed.empty or second.empty:
        best = shown.sort_values("transfer").iloc[-1]
        return f"Of images made for another CNN with eps {eps}, {best['name']} has {best['transfer']:.1f} % right."
    found = compared(runs, routed["name"], SECOND, {**LINF, "attack": "transfer", "eps": eps})
    ahead = list(found.loc[(found["p_holm"] < ALPHA) & (found["gain"] > 0), "name"])
    behind = list(found.loc[(found["p_holm"] < ALPHA) & (found["gain"] < 0), "name"])
    first = (
        f"Of images made for another CNN with eps {eps}, a second CNN has {second['transfer'].iloc[0]:.1f} % right, "
        f"the networks with capsules {routed['transfer'].min():.1f} to {routed['transfer'].max():.1f} %"
    )
    if found["p_holm"].isna().all():
        return f"{first}; with these seeds no difference could be tested."
    better = f"{wording.listed(ahead, 4)} significantly better" if ahead else "none significantly better"
    worse = f"{wording.listed(behind, 4)} significantly worse" if behind else "none significantly worse"
    return f"{first}: {better}, {worse}."


if __name__ == "__main__":
    run(transfer)
