"""The Python interface of boards: `routebench.rank`, and what the commands `rank` and `submit` share with it."""

import contextlib
import html
import os
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from routebench.catalogue import refuse_unknown
from routebench.engine.isolation import import_plugin, with_plugins
from routebench.errors import UserError
from routebench.interface import check, only
from routebench.options import RankOptions, described, takes
from routebench.quantities import plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from routebench.engine.running import Listener, PlannedRun, Progress
    from routebench.ranking import Ahead, Measured, Standing, Teller, Wanted
    from routebench.routing import RoutingMethod


@dataclass(frozen=True, repr=False)
class Placement:
    """The result of `rank`. A notebook shows the board, its answer, and a link to the page.

    Args:
        standing: the board with the method on it; None while trials are left.
        told: what it says of the method, a sentence each.
        page: the page; None where nothing was measured yet.
        left: the number of runs that the budget left; the same call goes on with them.
    """

    standing: "Standing | None"
    told: tuple[str, ...]
    page: Path | None
    left: int = 0

    @property
    def table(self) -> "DataFrame":
        """The board, as text, one row per configuration; empty while trials are left."""
        from pandas import DataFrame

        from routebench.ranking import as_table

        return DataFrame() if self.standing is None else as_table(self.standing)

    def __repr__(self) -> str:
        table = [] if self.standing is None else [self.table.to_string(index=False), ""]
        return "\n".join([*table, *self._remarks()])

    def _repr_html_(self) -> str:
        shown = [] if self.standing is None else [self.table.to_html(index=False, border=0)]
        shown += [f"<p>{html.escape(sentence)}</p>" for sentence in self._remarks()]
        if self.page is not None:
            place = quote(os.fsencode(Path(os.path.relpath(self.page)).as_posix()))
            shown.append(f'<p><a href="{place}">board</a></p>')
        return "\n".join(shown)

    def _remarks(self) -> list[str]:
        left = f"the budget left {plural(self.left, 'run')}; the same call goes on"
        return [*self.told, *([left] if self.left else [])]


@described
@dataclass
class RankCall(RankOptions):
    """The arguments of `rank`."""

    method: Annotated[
        "str | Path | type[RoutingMethod]",
        "a file `FILE.py`, `FILE.py:Name`, the name of a method that is known, or a class of this session, whose runs "
        "then take place in this process, one at a time",
    ]
    _: KW_ONLY
    progress: Annotated[
        "Callable[[Progress], None]", "is called with every finished run, and once a second between them"
    ] = lambda _: None


@takes(RankCall)
def rank(asked: RankCall) -> Placement:
    """Places a routing method among the published ones, fairly tuned, with an interval and a rank.

    The method is checked, tuned with the published number of trials, and trained with the published seeds, as uniform
    routing is on this machine. Interrupted, the same call goes on.

    Args:
        asked: those arguments.

    Raises:
        UserError: the method keeps not to its contract, cannot be planned, or nothing published can be read.
        Ended: its check ended or crashed its process.
    """
    from routebench.engine.running import torch_as_before

    with torch_as_before():
        return ranked(asked.method, asked, _Silent(asked.progress))


class _Silent:
    """Tells a program's own function how far a ranking is."""

    def __init__(self, progress: "Callable[[Progress], None]"):
        self.progress = progress

    def say(self, text: str) -> None:
        """Tells nothing: the result holds what has to be known."""

    @contextlib.contextmanager
    def follow(self, planned: "PlannedRun") -> Iterator["Listener"]:
        """Follows the runs of one stage."""
        from routebench.engine.running import Follower, follow

        yield follow(Follower(planned), self.progress)


def ranked(method: "str | Path | type[RoutingMethod]", asked: RankOptions, tell: "Teller") -> Placement:
    """Ranks a method as `rank` does.

    Args:
        method: as for `rank`.
        asked: the options.
        tell: tells how far it is.
    """
    from routebench import ranking

    wanted = _wanted(method, asked)
    ranking.expect_primary(wanted.board, asked.until)
    known = ranking.published(wanted.board, asked.beside)
    page = _page_of(wanted, asked)
    ranking.expect_comparable(wanted, known)
    _expect_conforming(method, wanted)
    measured = ranking.measure(wanted, tell)
    runs = ranking.part_of(measured.store, wanted.board) if measured.settings else None
    if runs is None:
        return Placement(None, (), None, measured.counts.left)
    steps, settings = (measured.best.iterations, measured.best.point) if measured.best else (None, {})
    standing = ranking.standing_of(known, runs, measured.store, measured.label, steps)
    ranking.write_page(standing, page, _facts(measured, wanted), [*settings.items()])
    measured.store.tell_gone()
    told = (*ranking.told(standing), *measured.store.warnings)
    return Placement(standing, told, page, measured.counts.left)


def submit(method: str | Path, folder: Path, asked: RankOptions, **facts: str) -> str:
    """Writes a submission of a method that was ranked; returns its place, in words.

    Args:
        method: as for `rank`.
        folder: that of the submission.
        asked: `board`, `chosen`, `beside` and `results` as for `rank`.
        facts: facts on the submission: `who`, `licence`, `code`, `cite`.

    Raises:
        UserError: a maintainer would refuse it.
    """
    from routebench import ranking

    wanted = _wanted(method, asked)
    known = ranking.published(wanted.board, asked.beside)
    ranking.submit(wanted, known, folder, {name: value for name, value in facts.items() if value})
    return f"{wanted.method} on {known.board.title}"


def listed_ranking(method: str | Path, asked: RankOptions) -> "Ahead":
    """Says what `ranked` would run; runs nothing.

    Args:
        method: as for `rank`.
        asked: the options.
    """
    from routebench import ranking

    wanted = _wanted(method, asked)
    ranking.expect_primary(wanted.board, asked.until)
    known = ranking.published(wanted.board, asked.beside)
    _page_of(wanted, asked)
    return ranking.ahead(wanted, known)


def _page_of(wanted: "Wanted", asked: RankOptions) -> Path:
    """The page.

    Raises:
        UserError: it cannot be written there.
    """
    from routebench import atomic

    page = asked.output or asked.results / wanted.page
    atomic.expect_page(page, "the board", named=asked.output is not None)
    return page


def _wanted(method: "str | Path | type[RoutingMethod]", asked: RankOptions) -> "Wanted":
    """The method by the name that suites know it by, with the plug-ins that bring it."""
    from routebench import ranking

    own, chosen = ranking.board_of(asked.board), asked.chosen
    if isinstance(method, type):
        return ranking.Wanted(own, _of_session(method), replace(asked, isolate=False))
    text = str(method)
    if not (text.partition(".py:")[0].endswith(".py") or ".py:" in text or os.path.isdir(text)):  # noqa: PTH112  # of names that no file can have, too
        refuse_unknown(asked.plugins, methods=(chosen or text,))
        return ranking.Wanted(own, chosen or text, asked)
    if chosen is None:
        chosen = only(with_plugins((text,), _added, text, gives=list[str]), (text,))
    return ranking.Wanted(own, chosen, replace(asked, plugins=tuple(dict.fromkeys([*asked.plugins, text]))))


def _added(plugin: str) -> list[str]:
    """The methods that a plug-in registers."""
    return [*import_plugin(plugin)["methods"]]


def _of_session(method: "type[RoutingMethod]") -> str:
    """The name of a class of this session, which is registered where it is not."""
    from routebench.registry import kebab, routing

    known = next((name for name in routing if routing[name] is method), "")
    if not known:
        known = kebab(method.__name__)
        routing.register(known)(method)
    return known


def _expect_conforming(method: "str | Path | type[RoutingMethod]", wanted: "Wanted") -> None:
    """Checks a method before hours are spent on it.

    Raises:
        UserError: it does what no method may, or not what it claims.
    """
    known, asked = method if isinstance(method, type) else wanted.method, wanted.asked
    found = check(known, plugins=asked.plugins, device=asked.device)
    if not found.conforms:
        first = found.faults[0]
        raise UserError(f"{found}; {first.name}: {first.seen} ({first.advice}); `routebench check` shows all")


def _facts(measured: "Measured", wanted: "Wanted") -> dict[str, str]:
    """Facts on how the method was measured, for the page."""
    from routebench.engine.origin import command_line, processor, versions

    found = {
        "method": measured.label,
        "processor here": processor(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "command": command_line(),
    }
    if measured.settings is not None:
        found["settings"] = measured.settings.name
    if wanted.asked.plugins:
        found["plug-ins"] = ", ".join(wanted.asked.plugins)
    return found
