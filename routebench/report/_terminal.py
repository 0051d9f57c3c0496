"""The headlines and the first tables of a plan in a results folder as text, for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pandas import DataFrame, concat

from routebench.analysis._result import Analysis, Role, name_with
from routebench.analysis._runs import Runs
from routebench.analysis.answering import one_class_in_words
from routebench.analysis.folder import open_folder
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report._asking import ask, guarded
from routebench.report._headline import first_analysis, headline_of


@dataclass(frozen=True)
class NetworkAnswer:
    """The findings of a plan on one network.

    Args:
        runs: on it.
        network: its name, if the plan has several; else empty.
        table: the protocol's first, as text; empty if its analysis raises.
        headline: in a few lines; empty without one.
        collapsed: which methods answer one class alone; empty for none.
    """

    runs: Runs
    network: str
    table: DataFrame
    headline: str
    collapsed: str


def answers(results: Path, suite: str | None = None, preset: str | None = None) -> list[NetworkAnswer]:
    """The newest matching plan's answer on each of its networks.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    parts = _newest(results, suite, preset)
    return [_answer(runs, runs.model if len(parts) > 1 else "") for runs in parts]


def between_networks(found: Sequence[NetworkAnswer]) -> tuple[DataFrame, str]:
    """Each method on one network against itself on another: a table as text, and a sentence. Empty for one network."""
    given = tuple(one.runs for one in found)
    name = name_with(Role.NETWORKS)
    analysis = ask(analyses[name], name, given) if name and len(given) > 1 else None
    return (analysis.shown(extra=False), analysis.reading) if isinstance(analysis, Analysis) else (DataFrame(), "")


def comparison_table(results: Path, suite: str | None = None, preset: str | None = None) -> DataFrame:
    """The tables of `answers` as one, with a column `Network` if there are several.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    found = answers(results, suite, preset)
    if len(found) == 1:
        return found[0].table
    tables = [one.table for one in found]
    for one in found:
        one.table.insert(0, "Network", one.network)
    return concat(tables, ignore_index=True)


def headline(results: Path, suite: str | None = None, preset: str | None = None) -> str:
    """The headlines of `answers`, each after its network if there are several.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    found = answers(results, suite, preset)
    told = [f"On {one.network}: {one.headline}" if one.network else one.headline for one in found if one.headline]
    return "\n".join([*told, *filter(None, [between_networks(found)[1]])])


def _answer(runs: Runs, network: str) -> NetworkAnswer:
    analysis = first_analysis(runs.protocol) or first_analysis("accuracy")

    def shown() -> DataFrame | None:
        found = analysis(runs) if analysis else None
        if found is not None and not runs.strength.judges:
            found = found.unjudged
        return None if found is None else found.shown(extra=False)

    table, said = guarded("", shown, analysis or headline_of), headline_of(runs)
    table = table if isinstance(table, DataFrame) else DataFrame()
    return NetworkAnswer(runs, network, table, str(said or ""), one_class_in_words(runs))


def _newest(results: Path, suite: str | None, preset: str | None) -> list[Runs]:
    """The parts of the newest matching plan, one for each network."""
    folder = open_folder(results)
    folder.store.tell()
    for first in folder.parts:
        if suite in (None, first.suite) and preset in (None, first.preset):
            plan = folder.plans[first.name]["plan"]
            return [runs for runs in folder.parts if folder.plans[runs.name]["plan"] == plan]
    raise UserError(f"nothing of suite {suite!r} with preset {preset!r} was planned in {str(results)!r}")
