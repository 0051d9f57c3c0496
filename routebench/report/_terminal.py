"""The headlines and the first tables of a plan in a results folder, for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from pandas import DataFrame, concat

from routebench.analysis._result import Analysis, Role, name_with
from routebench.analysis._runs import Runs
from routebench.analysis.answering import one_class_in_words
from routebench.analysis.folder import Folder
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report._asking import ask, guarded
from routebench.report._headline import Headline, first_analysis, headline_of


@dataclass(frozen=True)
class NetworkAnswer:
    """The findings of a plan on one network.

    Args:
        runs: on it.
        network: its name, if the plan has several; else empty.
        analysis: the protocol's first; None if it raises or finds nothing.
        headline: None without one.
        collapsed: which methods answer one class alone; empty for none.
    """

    runs: Runs
    network: str
    analysis: Analysis | None
    headline: Headline | None
    collapsed: str

    @property
    def table(self) -> DataFrame:
        """The table of the analysis as text, after a column `Network` if there are several."""
        table = DataFrame() if self.analysis is None else self.analysis.shown(extra=False)
        if self.network:
            table.insert(0, "Network", self.network)
        return table


def answers(folder: Folder, suite: str | None = None, preset: str | None = None) -> list[NetworkAnswer]:
    """The newest matching plan's answer on each of its networks.

    Args:
        folder: the results folder.
        suite, preset: names; None for any.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    parts = _newest(folder, suite, preset)
    return [_answer(runs, runs.model if len(parts) > 1 else "") for runs in parts]


def between_networks(found: Sequence[NetworkAnswer]) -> Analysis | None:
    """Each method on one network against itself on another; None for one network."""
    given = tuple(one.runs for one in found)
    name = name_with(Role.NETWORKS)
    analysis = ask(analyses[name], name, given) if name and len(given) > 1 else None
    return analysis if isinstance(analysis, Analysis) else None


def comparison_table(found: Sequence[NetworkAnswer]) -> DataFrame:
    """The tables of answers as one.

    Args:
        found: what `answers` gives.
    """
    return concat([one.table for one in found], ignore_index=True)


def headline(found: Sequence[NetworkAnswer]) -> str:
    """The headlines of answers, each after its network if there are several.

    Args:
        found: what `answers` gives.
    """
    told = [f"On {one.network}: {one.headline}" if one.network else str(one.headline) for one in found if one.headline]
    return "\n".join(told)


def _answer(runs: Runs, network: str) -> NetworkAnswer:
    analysis = first_analysis(runs.protocol) or first_analysis("accuracy")

    def found() -> Analysis | None:
        own = analysis(runs) if analysis else None
        own = own.unjudged if own is not None and not runs.strength.judges else own
        if own is not None:
            _ = own.printed  # columns may be the user's code, which may raise, too
        return own

    first = guarded("", found, analysis or headline_of)
    first = first if isinstance(first, Analysis) else None
    return NetworkAnswer(runs, network, first, headline_of(runs), one_class_in_words(runs))


def _newest(folder: Folder, suite: str | None, preset: str | None) -> list[Runs]:
    """The parts of the newest matching plan, one for each network."""
    folder.store.tell()
    for first in folder.parts:
        if suite in (None, first.suite) and preset in (None, first.preset):
            plan = folder.plans[first.name]["plan"]
            return [runs for runs in folder.parts if folder.plans[runs.name]["plan"] == plan]
    raise UserError(f"nothing of suite {suite!r} with preset {preset!r} was planned in {str(folder.path)!r}")
