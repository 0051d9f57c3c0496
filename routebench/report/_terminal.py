"""The headline and the first table of a results folder as text, for a terminal."""

from pathlib import Path

from pandas import DataFrame

from routebench.analysis._runs import Runs
from routebench.analysis.folder import open_folder
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report._asking import guarded
from routebench.report._headline import first_analysis, headline_of


def comparison_table(results: Path, suite: str | None = None, preset: str | None = None) -> DataFrame:
    """The protocol's first table as text, from the newest matching plan. Empty if its analysis raises.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    runs = _newest(results, suite, preset)
    analysis = first_analysis(runs.protocol) or analyses["accuracy-table"]

    def shown() -> DataFrame | None:
        found = analysis(runs)
        if found is not None and not runs.strength.judges:
            found = found.unjudged
        return None if found is None else found.shown(extra=False)

    table = guarded("", shown, analysis)
    return table if isinstance(table, DataFrame) else DataFrame()


def headline(results: Path, suite: str | None = None, preset: str | None = None) -> str:
    """The headline in a few lines, from the newest matching plan. Empty without one.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    found = headline_of(_newest(results, suite, preset))
    return "" if found is None else str(found)


def _newest(results: Path, suite: str | None, preset: str | None) -> Runs:
    folder = open_folder(results)
    folder.store.tell()
    for runs in folder.parts:
        if suite in (None, runs.suite) and preset in (None, runs.preset):
            return runs
    raise UserError(f"nothing of suite {suite!r} with preset {preset!r} was planned in {str(results)!r}")
