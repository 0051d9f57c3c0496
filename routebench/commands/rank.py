"""`routebench rank`: one command places a method among the published ones."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import NOTHING_MEASURED, PIPE_WIDTH, SOME_FAILED
from routebench.errors import shown
from routebench.options import RankOptions

if TYPE_CHECKING:
    from routebench.engine.running import Listener, PlannedRun
    from routebench.ranking import Standing


@click.command()
@click.argument("method", metavar="FILE.py[:Name]|METHOD")
@options.of(RankOptions)
@click.option("--dry-run", is_flag=True, help="List what would run, and run nothing.")
def command(method: str, dry_run: bool, **asked: Any) -> None:
    """Place a routing method among the published ones, fairly tuned, with an interval and a rank.

    The method is checked, tuned with the published budget, and trained with the published seeds, as uniform routing is
    on this machine. Interrupted, the same command goes on.
    """
    from rich.console import Console

    from routebench.joining import listed_ranking, ranked

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    tell, wanted = OnTerminal(console), RankOptions(**asked)
    if dry_run:
        for line in listed_ranking(method, wanted):
            tell.say(line)
        return
    if sys.stderr.isatty():
        click.echo(f"checking {shown(method)}, which takes up to a minute ...", err=True)
    found = ranked(method, wanted, tell)
    if found.standing is not None:
        _show(console, found.standing)
    for line in found.told:
        tell.say(line)
    if found.page is not None:
        tell.say(f"page: {shown(found.page)}")
    if found.left:
        tell.say(f"the budget left {found.left} runs; the same command goes on with them")
        sys.exit(SOME_FAILED)
    if found.standing is None or not found.standing.seeds:
        sys.exit(NOTHING_MEASURED)
    if found.standing.reasons:
        sys.exit(SOME_FAILED)


class OnTerminal:
    """Tells on a terminal how far a ranking is."""

    def __init__(self, console: Any):
        self.console = console

    def say(self, text: str) -> None:
        """Prints one line."""
        options.say(self.console, text)

    @contextlib.contextmanager
    def follow(self, planned: "PlannedRun") -> Iterator["Listener"]:
        """Shows the runs of one stage."""
        from routebench.engine.running import Display, Follower, time_ahead

        queue, cells = planned.queue, len(planned.plan.cells)
        ahead = f"{planned.config.device}{time_ahead(queue, planned.config.jobs)}" if queue.left else "nothing to run"
        self.say(f"{planned.title}: {cells} runs, {len(planned.status.cached)} of them done before ({ahead})")
        with Display(self.console, Follower(planned)) as listener:
            yield listener


def _show(console: Any, standing: "Standing") -> None:
    """The board, the new method in bold, baselines dimmed."""
    from rich.table import Table
    from rich.text import Text

    from routebench.ranking import as_table

    table = as_table(standing)
    shown = Table(*table.columns, box=None, pad_edge=False, header_style="bold")
    for row, cells in zip(standing.rows, table.itertuples(index=False), strict=True):
        style = "bold cyan" if row.is_mine else "dim" if row.method.is_control else None
        shown.add_row(*(Text(str(cell)) for cell in cells), style=style)
    console.print()
    console.print(shown, soft_wrap=False)
    console.print()
