"""Pre-specified comparisons against the number of training images: does a method help more where images are few?"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from pandas import DataFrame

from routebench.analysis import METHOD, Analysis, Column, Row, Runs, analysis_of, figures, palette, run, wording
from routebench.analysis._verdicts import GAINS, LOSSES
from routebench.analysis.named import named_table
from routebench.data_names import few_of

SIGNS = dict.fromkeys(GAINS, "▲") | dict.fromkeys(LOSSES, "▼")

Sizes = Mapping[int | None, Runs]
"""Parts by their number of training images; None for all of the set."""


@analysis_of("", "training-images", place=22, folder=True)
def training_images(parts: tuple[Runs, ...]) -> Analysis | None:
    """Each pre-specified difference (points) for each number of training images of one data set."""
    groups = _groups(runs for runs in parts if runs.primary and runs.strength.judges)
    found = [(sizes, table) for sizes in groups if not (table := _table(sizes)).empty]
    if not found:
        return None
    (sizes, table), *others = found
    runs = next(iter(sizes.values()))
    drawn = _drawn(sizes, table)
    left = [
        f"suite {one.suite} on {few_of(one.data)[1]}" for other, _ in others for one in [next(iter(other.values()))]
    ]
    return Analysis(
        title="Number of training images",
        reading="Does a method help more where training images are few?",
        table=table,
        figure=None if drawn.empty else figures.figure_of(_draw, drawn, runs, sizes, **figures.panels_of(drawn)),
        columns=(
            METHOD,
            Column("Against", "against", numeric=False),
            *(Column(f"{_images(size)}, points", _key(size), _shown(size)) for size in sizes),
        ),
        notes=(
            (
                "Differences in test accuracy, ours less theirs, with 95 % intervals over seeds; each run has all test "
                "images. ▲ better, ▼ worse, after Holm's correction over the pre-specified comparisons of that size."
            ),
            (
                "A number of training images counts those held out too. Settings are those of the plan for each size, "
                "the best T among them, and the images of a smaller one are the same for all seeds."
            ),
            f"Suite {runs.suite} on {few_of(runs.data)[1]}, {runs.model}.",
            *(
                [f"Not shown: {wording.listed(left, len(left))}. A folder with one of them alone shows it."]
                if left
                else []
            ),
            *_notes_on_missing(sizes, table),
            "Drawn: differences to uniform routing. Grey: the other methods.",
        ),
        alternative="Gain over uniform routing against the number of training images, a panel for each method.",
    )


def _groups(parts: Iterable[Runs]) -> list[Sizes]:
    """Groups of runs that differ only in the number of training images of one data set, all images first."""
    groups: dict[tuple[str, ...], dict[int | None, Runs]] = {}
    for runs in parts:
        count, data = few_of(runs.data)
        own = groups.setdefault((runs.suite, data, runs.model, runs.protocol), {})
        if count not in own or runs.strength.tier > own[count].strength.tier:
            own[count] = runs
    several = (group for group in groups.values() if len(group) > 1)
    return [dict(sorted(group.items(), key=lambda one: -(one[0] or math.inf))) for group in several]


def _notes_on_missing(sizes: Sizes, table: DataFrame) -> list[str]:
    """Tells of comparisons that only some sizes have; empty where all have all."""
    counts = {_images(size).lower(): len(named_table(runs)) - len(table) for size, runs in sizes.items()}
    told = [f"{count} with {images}" for images, count in counts.items() if count]
    return [f"Left out, because not every size has them: {wording.listed(told)}."] if told else []


def _images(size: int | None) -> str:
    return "All images" if size is None else f"{size:,} images"


def _key(size: int | None) -> str:
    return f"difference {'all' if size is None else size}"


def _shown(size: int | None) -> Any:
    """The form of a cell: the difference and its sign, and T where that differs between sizes."""

    def shown(row: Row) -> str:
        ours = row[f"method {_key(size)}"]
        steps = "" if row["method"] == ours else f" (T = {ours.iterations})"
        return f"{row[_key(size)]:+.2} {SIGNS.get(row[f'verdict {_key(size)}'], '')}".rstrip() + steps

    return shown


def _table(sizes: Sizes) -> DataFrame:
    """One row per comparison that every size has; columns of differences, verdicts and methods for each size.

    A method has its best T at each size, which its tuning there chose.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for size, runs in sizes.items():
        found = named_table(runs)
        for row in [] if found.empty else found.to_dict("records"):
            ours, theirs = row["method"], row["against"]
            own = rows.setdefault((ours.label, ours.model, theirs.label, theirs.model), {"against": theirs})
            own |= {_key(size): row["difference"], f"verdict {_key(size)}": row["verdict"]}
            own[f"method {_key(size)}"] = ours
    whole = [row for row in rows.values() if all(_key(size) in row and row[_key(size)].known for size in sizes)]
    largest = _key(next(iter(sizes)))
    for kept in whole:
        first, *others = (kept[f"method {_key(size)}"] for size in sizes)
        kept["method"] = first if all(one == first for one in others) else replace(first, iterations=None)

    def place(row: Row) -> tuple[bool, float]:
        return not row["against"].is_base, -row[largest].mean

    ordered = sorted(whole, key=place)
    return DataFrame(ordered)


def _drawn(sizes: Sizes, table: DataFrame) -> DataFrame:
    """Differences to uniform routing by method and place of the size, the fewest images at the left."""
    rows = [row for row in table.to_dict("records") if row["against"].is_base]
    return DataFrame(
        [
            {"method": row["method"], "place": place, "gain": row[_key(size)]}
            for row in rows
            for place, size in enumerate(reversed([*sizes]))
        ]
    )


def _draw(grid: list[Axes], drawn: DataFrame, runs: Runs, sizes: Sizes) -> None:
    ends = [end for cell in drawn["gain"] for end in (cell.mean, cell.low, cell.high) if math.isfinite(end)]
    for axes in grid:
        axes.set_ylim(min(0.0, *ends) - 0.3, max(0.0, *ends) + 0.3)
        axes.axhline(0, color=palette.INK, linewidth=0.8)
        axes.set_xticks(range(len(sizes)), ["all" if size is None else f"{size:,}" for size in reversed([*sizes])])
        axes.set_xlim(-0.3, len(sizes) - 0.7)
    figures.multiples(grid, drawn, "place", "gain", runs.colour)
    grid[0].figure.supxlabel("training images", fontsize=9)
    grid[0].figure.supylabel("points over uniform routing", fontsize=9)


if __name__ == "__main__":
    run(training_images)
