"""Table of whether slots draw one shape each, beside clustering of pixels."""

import math

from matplotlib.axes import Axes
from pandas import DataFrame, concat

from routebench.analysis import (
    METHOD,
    SEEDS,
    Analysis,
    Column,
    Estimate,
    Main,
    Mean,
    Method,
    Runs,
    analysis_of,
    answer_of,
    figures,
    gains_over,
    palette,
    run,
    table_of,
    wording,
)

MOST = 4
"""Shapes in a picture, of training; such pictures are always measured."""
BASELINES = {"kmeans": "k-means by place and colour", "components": "neighbours of one colour"}


@analysis_of("objects", "objects-table", place=10)
def objects_table(runs: Runs) -> Analysis | None:
    """Agreement of masks and of coupling with the shapes, and the error of pictures, per method."""
    measured = runs.means("fg_ari", ["objects"], as_trained=True)
    if measured.empty:
        return None
    columns = _columns({int(number) for number in measured["objects"]})
    table = table_of(runs, columns, order="found")
    main = Main.of(
        "fg_ari", "found", "Objects found (FG-ARI)",
        gains=gains_over("uniform", runs.by_seed("fg_ari", objects=MOST, as_trained=True)),
    )  # fmt: skip
    table = concat([_baselines(runs, columns), table], ignore_index=True)
    return Analysis(
        title="Does each shape have a slot of its own?",
        reading=answer_of(main, runs) or "Do slots find the shapes?",
        table=table,
        figure=figures.figure_of(_draw, table, runs, height=figures.height_of_rows(map(str, table["method"]))),
        columns=columns,
        notes=(
            "Mean over pictures, then over seeds with its 95 % t interval. 1 is right, 0 is chance.",
            "First rows: clustering of pixels without learning, the same for all methods.",
            "k-means sees the pixels that show a shape, and is told how many shapes are seen.",
        ),
        main=main,
        alternative=f"FG-ARI in pictures of {MOST} shapes with intervals, one line per method.",
    )


def _draw(axes: Axes, table: DataFrame, runs: Runs) -> None:
    """Rows as in the table: a tick for the mean, a line for its interval."""
    rows = zip(table["method"], table["found"], strict=True)
    known = [(method, found) for method, found in rows if math.isfinite(found.mean)]
    for place, (method, found) in enumerate(known):
        colour = palette.MUTED if found.n == 1 else runs.colour(method)
        axes.plot(found.mean, place, "|", color=colour, markersize=9, markeredgewidth=2.5)
        if found.has_limits:
            axes.hlines(place, found.low, found.high, color=colour, linewidth=2.5, alpha=0.5)
    axes.set_yticks(range(len(known)), [wording.in_lines(str(method)) for method, _ in known])
    axes.set(xlim=(min(0.0, *(found.mean for _, found in known)), 1), ylim=(len(known) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"FG-ARI, pictures of {MOST} shapes")


def _columns(numbers: set[int]) -> tuple[Column, ...]:
    """Columns for pictures with the most shapes of training, then for others."""
    index = "adjusted Rand index over the pixels that show a shape, of"
    found: list[Column] = [
        METHOD,
        Mean.of("fg_ari", "found", explained=f"{index} the slot that draws a pixel against the shape seen, {MOST} "
                "shapes", where={"objects": MOST, "as_trained": True}),
        Mean.of("fg_ari_coupling", "coupled", explained=f"{index} the slot with most of the coupling at a pixel, "
                f"{MOST} shapes", where={"objects": MOST, "as_trained": True}),
    ]  # fmt: skip
    for number in sorted(numbers - {MOST}):
        told = "more than training has" if number > MOST else "as the first column"
        found.append(
            Mean.of("fg_ari", f"found_{number}", f"FG-ARI, {number} shapes", told,
                    where={"objects": number, "as_trained": True}, extra=MOST > number > min(numbers))
        )  # fmt: skip
    error = Mean.of("squared_error", "error", where={"objects": MOST, "as_trained": True})  # fmt: skip
    return (*found, error, SEEDS)


def _baselines(runs: Runs, columns: tuple[Column, ...]) -> DataFrame:
    """A row for each way to cluster pixels, from whatever run measured it."""
    rows = []
    for name, words in BASELINES.items():
        row: dict[str, object] = {"method": Method(words, model=runs.model, role="control"), "n": 1}
        for column in columns:
            if isinstance(column, Mean):
                clustered = column.metric == "fg_ari"
                found = _values(runs, name, column.where["objects"]) if clustered else []
                row[column.key] = Estimate(found[0], n=1) if found else Estimate()
        rows.append(row)
    return DataFrame(rows)


def _values(runs: Runs, name: str, objects: object) -> list[float]:
    return [float(value) for value in runs.values(f"baseline_{name}", objects=objects)["value"]]


if __name__ == "__main__":
    run(objects_table)
