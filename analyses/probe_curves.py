"""Probe accuracy against the angle of test digits: trained upright, and trained on digits turned as far."""

from matplotlib.axes import Axes
from pandas import DataFrame, concat

from routebench.analysis import Analysis, Column, Method, Runs, analysis_of, figures, run
from routebench.analysis.probe import by_seed, gains, probed, turned_up_to

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
    trained, drawn = next(iter(parts.items()))
    return Analysis(
        title="Accuracy against rotation",
        reading="How far does accuracy fall as digits are turned?",
        table=table,
        figure=figures.figure_of(_draw, drawn, runs, **figures.panels_of(drawn)),
        columns=(
            Column("Method", "method", numeric=False),
            Column("Trained", "trained", lambda row: TRAINED[str(row["trained"])].lower(), numeric=False),
            Column("Up to, °", "angle", explained="largest angle of test digits"),
            Column("Accuracy, %", "mean", "±.1", "of the probe of all features, with its 95 % interval"),
            Column("Gain over uniform routing", "gain", "+.2", "points, paired by seed", extra=True),
            Column("Seeds", "mean.n", extra=True),
        ),
        notes=(
            "Linear classifier on all features of a network; bars are 95 % t intervals over seeds, paired for gains.",
            f"{TRAINED[trained]}. Grey: the other methods. Dashed: baselines and one iteration.",
        ),
        alternative="Lines of accuracy over the largest angle, a panel per method.",
    )


def _draw(grid: list[Axes], table: DataFrame, runs: Runs) -> None:
    def dashes(method: Method) -> object:
        return (0, (4, 2)) if method.is_control or method.iterations == 1 else "-"

    angles = sorted(set(table["angle"]))
    for axes in grid:
        axes.set_xticks([angles[0], angles[-1]])
        axes.set_ylim(0, 101)
    figures.multiples(grid, table, "angle", "mean", runs.colour, dashes=dashes, markersize=3)
    grid[0].figure.supxlabel("largest angle of test digits, degrees", fontsize=9)
    grid[0].figure.supylabel("accuracy, %", fontsize=9)


if __name__ == "__main__":
    run(probe_curves)
