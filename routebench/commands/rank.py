"""`routebench rank`: one command places a method among the published ones."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import NOTHING_MEASURED, SOME_FAILED
from routebench.errors import shown
from routebench.options import RankOptions
from routebench.quantities import plural
from routebench.terminal import PIPE_WIDTH, answer, console_of_notes, note, tell, voice

if TYPE_CHECKING:
    from routebench.engine.running import Listener, PlannedRun
    from routebench.joining import Placement
    from routebench.ranking import Standing


@click.command()
@click.argument("method", metavar="FILE.py[:Name]|METHOD", shell_complete=options.known("methods"))
@options.of(RankOptions)
@click.option("--dry-run", is_flag=True, help="List what would run, and run nothing.")
def command(method: str, dry_run: bool, **asked: Any) -> None:
    """Place a routing method among the published ones, fairly tuned, with an interval and a rank.

    The method is checked, tuned with the published budget, and trained with the published seeds, as uniform routing is
    on this machine. Interrupted, the same command goes on.
    """
    from routebench.joining import listed_ranking, ranked

    wanted = RankOptions(**asked)
    if dry_run:
        ahead = listed_ranking(method, wanted)
        for line in ahead.lines():
            tell(line)
        answer(lambda: vars(ahead))
        return
    if sys.stderr.isatty():
        note(f"checking {shown(method)}, which takes up to a minute ...", err=True)
    found = ranked(method, wanted, OnTerminal())
    if found.standing is not None:
        _show(found.standing)
    for line in found.told:
        tell(line)
    if found.page is not None:
        tell(f"page: {shown(found.page)}")
    answer(lambda: _as_plain(found))
    if found.left:
        tell(f"the budget left {plural(found.left, 'run')}; the same command goes on")
        sys.exit(SOME_FAILED)
    if found.standing is None or not found.standing.seeds:
        sys.exit(NOTHING_MEASURED)
    if found.standing.reasons:
        sys.exit(SOME_FAILED)


class OnTerminal:
    """Tells on a terminal how far a ranking is."""

    say = staticmethod(note)

    @contextlib.contextmanager
    def follow(self, planned: "PlannedRun") -> Iterator["Listener"]:
        """Shows the runs of one stage."""
        from routebench.engine.running import Display, Follower, time_ahead

        queue, cells = planned.queue, len(planned.plan.cells)
        ahead = f"{planned.config.device}{time_ahead(queue, planned.config.jobs)}" if queue.left else "nothing to run"
        self.say(f"{planned.title}: {plural(cells, 'run')}, {len(planned.status.cached)} done before ({ahead})")
        with Display(console_of_notes(), Follower(planned)) as listener:
            yield listener


def _as_plain(found: "Placement") -> dict[str, Any]:
    """The board with the method on it, for a program."""
    from routebench.ranking import as_numbers

    known: dict[str, Any] = {"told": found.told, "page": found.page, "left": found.left}
    if found.standing is None:
        return known | {"board": None, "place": None, "rows": []}
    rows = as_numbers(found.standing).to_dict("records")
    return known | {"board": found.standing.board.name, "place": found.standing.ranks, "rows": rows}


def _show(standing: "Standing") -> None:
    """Shows the board, the new method in bold, baselines dimmed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from routebench.ranking import as_table

    table = as_table(standing)
    shown = Table(*table.columns, box=None, pad_edge=False, header_style="bold")
    for row, cells in zip(standing.rows, table.itertuples(index=False), strict=True):
        style = "bold cyan" if row.is_mine else "dim" if row.method.is_control else None
        shown.add_row(*(Text(str(cell)) for cell in cells), style=style)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, quiet=voice().json)
    console.print()
    console.print(shown, soft_wrap=False)
    console.print()
