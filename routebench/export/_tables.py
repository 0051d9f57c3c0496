"""The comparison table of each part of a results folder, as Markdown or LaTeX."""

from routebench.analysis import Estimate, wording
from routebench.analysis._result import Analysis
from routebench.analysis._runs import Runs
from routebench.analysis.folder import Folder
from routebench.errors import UserError
from routebench.export._provenance import origins_of_part, part_lines
from routebench.report import Broken, ask, best_of, cells_of, first_analysis
from routebench.statistics import NO_VALUE
from routebench.tables import TextTable


def tables_of(folder: Folder, parts: list[Runs], command: str) -> list[TextTable]:
    """One table per measured part: that of the first analysis of its report.

    Args:
        folder: that holds the parts.
        parts: with a suite, preset, data set and network each.
        command: recorded as what wrote the export.

    Raises:
        UserError: an analysis of the user's raised.
    """
    tables = []
    for runs in parts:
        analyse = first_analysis(runs.protocol)
        found = None if analyse is None or (runs.planned["status"] != "ok").all() else ask(analyse, runs.suite, runs)
        if isinstance(found, Broken):
            raise UserError(str(found))
        if found is not None and not found.table.empty:
            tables.append(_table(folder, runs, found, command))
    return tables


def _table(folder: Folder, runs: Runs, analysis: Analysis, command: str) -> TextTable:
    plan = folder.plans[runs.name]
    origins = origins_of_part(folder, runs)
    places = [place for place, column in enumerate(analysis.printed_columns) if not column.extra]
    columns = [analysis.printed_columns[place] for place in places]
    return TextTable(
        name=runs.name,
        question=str(plan.get("question", "")),
        caption=tuple(_caption(runs, analysis, any(best_of(analysis)))),
        header=tuple(column.title for column in columns),
        numeric=tuple(column.numeric for column in columns),
        rows=cells_of(analysis, places),
        notes=(*_notes(analysis), *_unfinished(runs)),
        caveats=origins.caveats,
        origin=tuple(part_lines(runs, plan, origins, command)),
    )


def _caption(runs: Runs, analysis: Analysis, ranked: bool) -> list[str]:
    """Sentences: where the numbers come from, how many seeds, what an interval is, what bold is."""
    seeds = runs.planned["seed"].nunique()
    sentences = [f"{runs.data}, {runs.model}, {wording.plural(seeds, 'seed')}, preset {runs.preset}."]
    kinds = _intervals(analysis)
    if kinds:
        sentences.append(f"Beside a mean: {' or '.join(kinds)}.")
    if ranked:
        sentences.append("Bold: may be the best; no method is significantly better by these runs.")
    return sentences


def _intervals(analysis: Analysis) -> list[str]:
    """The kinds of interval beside the means that the scorecard shows, in words."""
    column = analysis.main.column if analysis.main else "mean"
    kinds = dict.fromkeys(cell.kind for cell in analysis.table.get(column, ()) if isinstance(cell, Estimate))
    return [wording.interval_in_words(kind) for kind in kinds if kind and kind != NO_VALUE]


def _notes(analysis: Analysis) -> list[str]:
    """Its notes without those that only say what the caption says."""
    return [note for note in analysis.notes if not any(kind in note for kind in _intervals(analysis))]


def _unfinished(runs: Runs) -> list[str]:
    """One sentence on the runs without a result: how many of each method, and how they ended."""
    missing = runs.planned[runs.planned["status"] != "ok"]
    if missing.empty:
        return []
    counts: dict[str, int] = {}
    for row in missing.to_dict("records"):
        steps = f" T={row['iterations']}" if isinstance(row["iterations"], int) else ""
        one = f"{row['label']}{steps} {row['status']}"
        counts[one] = counts.get(one, 0) + 1
    told = [one if count == 1 else f"{one} ({count} times)" for one, count in counts.items()]
    return [f"No result from {len(missing)} of {wording.plural(len(runs.planned), 'planned run')}: {'; '.join(told)}."]
