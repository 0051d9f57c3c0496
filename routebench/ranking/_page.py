"""Shows a board with a new method on it: as a table, in sentences, and as an HTML page."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pandas import DataFrame

from routebench import atomic
from routebench.analysis import Analysis, Method, Verdict, figures, forest, palette, wording
from routebench.ranking._standing import Machines, Row, Standing
from routebench.report import rendered

SHOWN = {
    Verdict.BETTER: "better",
    Verdict.BETTER_BY_LITTLE: "better, by less than half a point",
    Verdict.WORSE: "worse",
    Verdict.WORSE_BY_LITTLE: "worse, by less than half a point",
    Verdict.EQUAL: "equal within half a point",
    Verdict.OPEN: "no difference shown",
    Verdict.UNTESTABLE: "no test possible",
}
"""The words for what a comparison shows, from the side of the new method."""
COLUMNS = ("Method", "Rank", "Accuracy, %", "Gain, points", "Yours minus it", "Shown", "Training time")
EXPLAINED = {
    "Rank": "places that a method may have, 95 % for all of a row's comparisons together",
    "Gain, points": "above uniform routing on the machine of the row, paired by seed, with the 95 % interval",
    "Yours minus it": "points, with the 95 % interval",
    "Shown": "from your method's side, after Holm's correction: over uniform routing and the CNN, and over all rows "
    "for the others and for ranks",
    "Training time": "training time, as a multiple of uniform routing's on the same machine",
}
MOST_REASONS = 5


def as_table(standing: Standing) -> DataFrame:
    """The board as text, one row per configuration, the highest accuracy first.

    Args:
        standing: the board with the new method on it.

    Returns:
        columns `Method, Rank, Accuracy, %, Gain, points, Yours minus it, Shown, Training time`.
    """
    return DataFrame([_cells(row, standing) for row in standing.rows], columns=COLUMNS)


def as_numbers(standing: Standing) -> DataFrame:
    """The board as plain numbers and texts, as analyses save their tables, in the order of `as_table`.

    Args:
        standing: the board with the new method on it.
    """
    parts = ("method", "rank", "mean", "gain", "apart", "verdict", "cost", "parameters", "is_mine")
    rows = [{part: getattr(row, part) for part in parts} for row in standing.rows]
    return Analysis("", "", DataFrame(rows, columns=parts)).numbers


def _cells(row: Row, standing: Standing) -> tuple[str, ...]:
    return (
        name_of(row, standing.mine),
        row.rank,
        format(row.mean, "±.2"),
        _gain(row),
        format(row.apart, "+.2") if row.apart.known else wording.NOTHING,
        SHOWN[row.verdict] if row.verdict is not None else wording.NOTHING,
        wording.NOTHING if math.isnan(row.cost) else f"{row.cost:.1f} ×",
    )


def name_of(row: Row, ranked: Method | None = None) -> str:
    """The name of a row, with what has to be known of it in parentheses.

    Args:
        row: the row.
        ranked: the new method's configuration that is ranked; None where rows of others are left out.
    """
    is_beside = row.is_mine and ranked is not None and row.method != ranked
    marks = [*(["exploratory"] if is_beside else []), *(["earlier version"] if row.older else [])]
    return " ".join([row.method.marked, *(f"({mark})" for mark in marks)])


def _gain(row: Row) -> str:
    if row.method.is_base and not row.is_mine:
        return wording.NOTHING
    return format(row.gain, "+.2") if row.gain.known else wording.NOTHING


def told(standing: Standing) -> list[str]:
    """Says the place of the new method, then what has to be known of it, a sentence each.

    Args:
        standing: the board with the new method on it.
    """
    return [*_answer(standing), *_machines(standing), *_missing(standing), *_older(standing)]


def _answer(standing: Standing) -> list[str]:
    if standing.mine is None or not standing.seeds:
        return ["No run of the method has a result, so that it has no place."]
    row = next(row for row in standing.rows if row.is_mine and row.method == standing.mine)
    place = "" if standing.ranks is None else f"place {standing.place}, "
    said = [f"{standing.mine.text}: {place}{row.mean:±.2} % over {wording.plural(standing.seeds, 'seed')}."]
    for against, (found, verdict) in standing.named.items():
        if found.known:
            p_value = "" if math.isnan(found.p_holm) else f", p {_p(found.p_holm)}"
            said.append(f"{found:+.2} points against {against.title}: {SHOWN[verdict]}{p_value}.")
    return said


def _machines(standing: Standing) -> list[str]:
    between = f"{standing.between:+.2} points" if standing.between.known else "unknown"
    if standing.machines is Machines.SAME:
        told = "Uniform routing gave the published answers on this machine with every seed: all is paired by seed."
    elif standing.machines is Machines.ALIKE:
        told = (
            f"Uniform routing was trained on this machine too: {between} against the published runs; no difference is "
            "shown. Gains over uniform routing are compared between the machines (Welch), so that what a machine adds "
            "to all methods cancels."
        )
    else:
        told = (
            "Nothing is ranked: uniform routing reaches another accuracy on this machine, "
            f"{between} against the published runs (p {_p(standing.between.p)}). Only the gain over uniform routing on "
            "this machine holds."
        )
    return [told]


def _p(value: float) -> str:
    """`= 0.031`, or `< 0.001`."""
    told = wording.probability(value)
    return told if told.startswith("<") else f"= {told}"


def _missing(standing: Standing) -> list[str]:
    """Says which seeds have no result; one that was not run yet is missing, but not lost."""
    lost = len(standing.mine.lost) if standing.mine else 0
    ahead = standing.planned - standing.seeds - lost
    more = len(standing.reasons) - MOST_REASONS
    of_all = f"of {wording.plural(standing.planned, 'seed')}"
    return [
        *([f"No result from {lost} {of_all}, so that no verdict favours it."] if lost else []),
        *_missing_baselines(standing),
        *([f"Not run yet: {ahead} {of_all}; the same call goes on."] if ahead > 0 else []),
        *standing.reasons[:MOST_REASONS],
        *([f"and {wording.plural(more, 'more run')} without a result"] if more > 0 else []),
    ]


def _missing_baselines(standing: Standing) -> list[str]:
    """Says which seeds of uniform routing have no result; where all is paired by seed, gains over it do not count."""
    after = "." if standing.machines is Machines.SAME else ", so that no verdict favours the method."
    sides = zip(("Uniform routing here", "Published uniform routing"), standing.baselines_lost, strict=True)
    return [f"{side} has no result from {wording.plural(lost, 'seed')}{after}" for side, lost in sides if lost]


def _older(standing: Standing) -> list[str]:
    """Names rows that were made with an earlier version of a part."""
    rows = [row for row in standing.rows if row.older]
    parts = wording.listed([*dict.fromkeys(part for row in rows for part in row.older)], 6) if rows else ""
    many = wording.plural(len(rows), "row")
    told = f"{many} marked `earlier version` stay until they are measured again: {parts} changed since."
    return [told] if rows else []


def write_page(
    standing: Standing, page: Path, facts: Mapping[str, str], settings: Sequence[tuple[str, Any]] = ()
) -> Path:
    """Writes the board as one HTML page, with the new method highlighted. It opens offline.

    Args:
        standing: the board with the new method on it.
        page: the file.
        facts: what else is told about how the method was measured, by name.
        settings: the chosen settings of the method, by name.

    Returns:
        the file.

    Raises:
        UserError: it cannot be written.
    """
    answer, *rest = told(standing)
    explained = {"Accuracy, %": f"share of {standing.board.counted}, mean over seeds", **EXPLAINED}
    text = rendered(
        "routebench.ranking",
        "place.html",
        own=("board.css",),
        standing=standing,
        title=answer,
        said=rest,
        columns=[(name, explained.get(name, "")) for name in COLUMNS],
        rows=[(row, _cells(row, standing)) for row in standing.rows],
        figure=_figure(standing),
        edges=forest.EDGES,
        facts={"board": standing.board.title, "published results": standing.origin, **facts},
        settings=settings,
    )
    atomic.write_output(page, text, "the board")
    return page


def _figure(standing: Standing) -> Any:
    """Differences of the new method to each published one, the best of these first; None where nothing is ranked."""
    rows = [row for row in standing.rows if row.apart.known]
    if not rows:
        return None
    lines = [forest.Line(row.method.marked, row.apart, palette.COLOURS["blue"], row.images) for row in rows]
    names = [line.name for line in lines]
    drawn = figures.figure_of(forest.draw, lines, "yours minus it, points", height=figures.height_of_rows(names))
    alternative = "Differences of your method to each published one with intervals, one line per method."
    return figures.inline_svg(figures.to_svg(drawn), "board", alternative)
