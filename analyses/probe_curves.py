"""How accuracy falls as test digits are turned further: trained upright, and trained on digits turned as far."""

from dataclasses import replace

from matplotlib.axes import Axes
from pandas import DataFrame, concat

from routebench.analysis import Analysis, Column, Method, Runs, analysis_of, figures, numbers, run, wording
from routebench.analysis.probe import SAVED, by_seed, gains, probed, turned_up_to

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
    seeds = by_seed(runs)
    ahead = [gains(seeds if key == "upright" else {}, part) for key, part in parts.items()]
    table = concat(
        [part.assign(gain=gain) for part, gain in zip(parts.values(), ahead, strict=True)], ignore_index=True
    )
    panels = _panels(table)
    return Analysis(
        title="Accuracy against rotation",
        reading=_reading(table),
        table=table,
        figure=figures.figure_of(
            _draw, table, runs, panels, height=0.6 + 2.9 * len(panels), rows=len(panels), sharex=True
        ),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Trained", "trained", lambda row: TRAINED[str(row["trained"])].lower(), numeric=False),
            Column("Up to, °", "angle", explained="largest angle of test digits"),
            Column("Accuracy, %", "mean", "±.1", "of the probe of all features, with its 95 % interval"),
            Column("Gain over equal shares", "gain", "+.2", "points, paired by seed", extra=True),
            Column("Seeds", "mean.n", extra=True),
        ),
        notes=(
            "Linear classifier on all features of a network; bars are 95 % t intervals over seeds, paired for gains.",
            "Solid: methods; dashed: controls and one iteration; dotted: models that saw no labels.",
        ),
        alternative="Lines of accuracy over the largest angle, one per method.",
        saved=" ".join(SAVED.get(column, column) for column in [*table, "gain_low", "gain_high"]),
    )


def _panels(table: DataFrame) -> list[tuple[str, str]]:
    """How networks were trained, and the column that is drawn."""
    panels = [(trained, "mean") for trained in TRAINED if (table["trained"] == trained).any()]
    if (numbers(table["gain"]).abs() > 0).any():
        panels.insert(1, ("upright", "gain"))
    return panels


def _draw(axes: list[Axes], table: DataFrame, runs: Runs, panels: list[tuple[str, str]]) -> None:
    for one, (trained, key) in zip(axes, panels, strict=True):
        _draw_panel(one, table[(table["trained"] == trained) & numbers(table[key]).notna()], runs, key)
        one.set_title(f"{TRAINED[trained]}: accuracy, %" if key == "mean" else "Gain over equal shares, points")
    axes[-1].set_xlabel("largest angle of test digits, degrees")


def _draw_panel(axes: Axes, table: DataFrame, runs: Runs, key: str) -> None:
    angles, unseen = sorted(set(table["angle"])), set(table.loc[table["unsupervised"], "method"])
    step = (angles[-1] - angles[0]) / 180

    def dashes(method: Method) -> object:
        if method in unseen:
            return (0, (1, 1.2))
        return (0, (4, 2)) if method.is_control or method.iterations == 1 else "-"

    beside = 1.2 * step  # so that intervals stand side by side
    ends, _ = figures.lines(axes, table, "angle", key, runs.colour, step=beside, dashes=dashes, linewidth=1.6)
    methods = set(table["method"])
    named = {_short(one, methods): one for one in sorted(set(table.loc[table["angle"] == angles[-1], "method"]))}
    axes.set_xticks(angles)
    axes.grid(visible=False, axis="x")
    if key == "mean":
        axes.set_ylim(0, 101)
    ends = {short: ends[str(method)] for short, method in named.items()}
    colours = {short: runs.colour(method) for short, method in named.items()}
    figures.label_ends(axes, angles[-1] + 8 * step, ends, colours, gap=0.085)


def _short(method: Method, methods: set[Method]) -> str:
    """A name without hyperparameters, where no other label of the same method is shown."""
    alike = {other.label for other in methods if other.name == method.name}
    return str(replace(method, params="", variant="")) if alike == {method.label} else str(method)


def _reading(table: DataFrame) -> str:
    table = table.assign(mean=numbers(table["mean"]))
    upright = table[table["trained"] == "upright"]
    told = []
    if not upright.empty:
        first, last = int(upright["angle"].min()), int(upright["angle"].max())
        at = upright.pivot_table(index="method", columns="angle", values="mean")[[first, last]].dropna()
        at = at.loc[at[last].sort_values(ascending=False, kind="stable").index]
        if len(at):
            shown = "upright digits" if first == 0 else f"digits turned by up to {first}°"
            rest = f", the highest there, and {_fall(at, -1)}, the lowest" if len(at) > 1 else ""
            told.append(f"From {shown} to ones turned by up to {last}°, accuracy goes {_fall(at, 0)}{rest}")
    alike = table[(table["trained"] == "alike") & (table["angle"] > 0)]
    if not alike.empty:
        largest = alike[alike["angle"] == alike["angle"].max()].sort_values("mean", ascending=False)
        told.append(
            f"trained on digits turned as far, {largest['method'].iloc[0]} is right for {largest['mean'].iloc[0]:.1f} %"
        )
    return f"{'; '.join(told)}." if told else f"Accuracies of {wording.plural(table['method'].nunique(), 'method')}."


def _fall(at: DataFrame, place: int) -> str:
    """Of the method in one row, from the first column to the last."""
    row = at.iloc[place]
    return f"from {row.iloc[0]:.1f} to {row.iloc[-1]:.1f} % with {at.index[place]}"


if __name__ == "__main__":
    run(probe_curves)
