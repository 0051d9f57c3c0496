"""How accuracy falls as test digits are turned further: trained upright, and trained on digits turned as far."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, concat

from routebench.analysis import Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis.means import value_with_interval
from routebench.analysis.probe import gains, probed, turned_up_to

TRAINED = {"upright": "Trained upright", "alike": "Trained on digits turned as far"}


@analysis_of("linear-probe", "probe-curves", place=20)
def probe_curves(runs: Runs) -> Analysis | None:
    """Accuracy (%) of the probe of all features against the largest angle of test digits, and of training digits."""
    found = probed(runs)
    found = found[found["main"] & (found["kind"] != "affine")]
    parts = {trained: turned_up_to(found, trained) for trained in TRAINED}
    parts = {trained: part.assign(trained=trained) for trained, part in parts.items() if len(set(part["angle"])) > 1}
    if not parts:
        return None
    table = concat(parts.values(), ignore_index=True)
    table = table.merge(gains(runs, found).assign(trained="upright"), on=["name", "angle", "trained"], how="left")
    reading = _reading(table)
    with figures.look():
        figure = _figure(table, runs)
    return Analysis(
        title="Accuracy against rotation",
        reading=reading,
        table=table,
        figure=figure,
        columns=(
            Column("Method", "name", lambda row: str(row["name"]), numeric=False),
            Column("Trained", "trained", lambda row: TRAINED[str(row["trained"])].lower(), numeric=False),
            Column("Up to, °", "angle", lambda row: str(row["angle"]), "largest angle of test digits"),
            Column("Accuracy, %", "mean", _accuracy, "of the probe of all features, with its 95 % interval"),
            Column("Gain over uniform", "gain", wording.gain_with_interval, "points, paired by seed", extra=True),
            Column("Seeds", "n", lambda row: str(row["n"]), extra=True),
        ),
        notes=(
            "Linear classifier on all features of a network; bars are 95 % t intervals over seeds, paired for gains.",
            "Solid: methods; dashed: controls and one iteration; dotted: models that saw no labels.",
        ),
        alternative="Lines of accuracy over the largest angle, one per method.",
    )


def _accuracy(row: Row) -> str:
    return value_with_interval(row["mean"], row["low"], row["high"], 1)


def _figure(table: DataFrame, runs: Runs) -> Figure:
    panels = [(trained, "mean") for trained in TRAINED if (table["trained"] == trained).any()]
    if (table["gain"].abs() > 0).any():
        panels.insert(1, ("upright", "gain"))
    figure, axes = figures.new_figure(0.6 + 2.9 * len(panels), rows=len(panels), sharex=True)
    for one, (trained, key) in zip(axes, panels, strict=True):
        _draw(one, table[(table["trained"] == trained) & table[key].notna()], runs, key)
        one.set_title(f"{TRAINED[trained]}: accuracy, %" if key == "mean" else "Gain over uniform, points")
    axes[-1].set_xlabel("largest angle of test digits, degrees")
    return figure


def _draw(axes: Axes, table: DataFrame, runs: Runs, key: str) -> None:
    angles, shown = sorted(set(table["angle"])), sorted(set(table["name"]))
    step = (angles[-1] - angles[0]) / 180
    low, high = ("low", "high") if key == "mean" else ("gain_low", "gain_high")
    ends, colours = {}, {}
    for place, name in enumerate(shown):
        line = table[table["name"] == name].sort_values("angle")
        colour, marker = (
            runs.colours.get(str(line["label"].iloc[0]), palette.MUTED),
            figures.MARKERS[place % len(figures.MARKERS)],
        )
        x = line["angle"] + 1.2 * step * (place - (len(shown) - 1) / 2)  # so that intervals stand side by side
        axes.plot(x, line[key], color=colour, linestyle=_dashes(line), linewidth=1.6, marker=marker, markersize=4)
        axes.vlines(x, line[low], line[high], color=colour, linewidth=1.4, alpha=0.7)
        if line["angle"].iloc[-1] == angles[-1]:
            ends[_short(line, table)], colours[_short(line, table)] = float(line[key].iloc[-1]), colour
    axes.set_xticks(angles)
    axes.grid(visible=False, axis="x")
    if key == "mean":
        axes.set_ylim(0, 101)
    figures.label_ends(axes, angles[-1] + 8 * step, ends, colours, gap=0.085)


def _short(line: DataFrame, table: DataFrame) -> str:
    """A name without hyperparameters, where no other label of the same method is shown."""
    label, name = str(line["label"].iloc[0]), str(line["name"].iloc[0])
    method = label.partition("[")[0]
    alike = {other for other in table["label"] if str(other).partition("[")[0] == method}
    return name.replace(label, method) if alike == {label} else name


def _dashes(line: DataFrame) -> object:
    role, steps = line["role"].iloc[0], line["iterations"].iloc[0]
    if line["unsupervised"].iloc[0]:
        return (0, (1, 1.2))
    return (0, (4, 2)) if role == "control" or (pd.notna(steps) and steps == 1) else "-"


def _reading(table: DataFrame) -> str:
    upright = table[table["trained"] == "upright"]
    told = []
    if not upright.empty:
        first, last = int(upright["angle"].min()), int(upright["angle"].max())
        at = upright.pivot_table(index="name", columns="angle", values="mean")[[first, last]].dropna()
        at = at.loc[at[last].sort_values(ascending=False, kind="stable").index]
        if len(at):
            shown = "upright digits" if first == 0 else f"digits turned by up to {first}°"
            rest = f", the highest there, and {_fall(at, -1)}, the lowest" if len(at) > 1 else ""
            told.append(f"From {shown} to ones turned by up to {last}°, accuracy goes {_fall(at, 0)}{rest}")
    alike = table[(table["trained"] == "alike") & (table["angle"] > 0)]
    if not alike.empty:
        largest = alike[alike["angle"] == alike["angle"].max()].sort_values("mean", ascending=False)
        told.append(
            f"trained on digits turned as far, {largest['name'].iloc[0]} is right for {largest['mean'].iloc[0]:.1f} %"
        )
    return f"{'; '.join(told)}." if told else f"Accuracies of {wording.plural(table['name'].nunique(), 'method')}."


def _fall(at: DataFrame, place: int) -> str:
    """Of the method in one row, from the first column to the last."""
    row = at.iloc[place]
    return f"from {row.iloc[0]:.1f} to {row.iloc[-1]:.1f} % with {at.index[place]}"


if __name__ == "__main__":
    run(probe_curves)
