"""`routebench rank`: one command places a method among the published ones."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import NOTHING_MEASURED, PATH, PIPE_WIDTH, RESULTS, SOME_FAILED, Amount, Count, device
from routebench.errors import shown

if TYPE_CHECKING:
    from routebench.engine.running import Listener, PlannedRun
    from routebench.ranking import Standing


@click.command()
@click.argument("method", metavar="FILE.py[:Name]|METHOD")
@click.option(
    "--board",
    default="quick",
    show_default=True,
    metavar="NAME|FILE.toml:PRESET",
    help="The comparison to join: quick, full, mnist, overlap, viewpoint, transfer or robustness; that of a suite of "
    "your own needs --beside.",
)
@click.option(
    "--method",
    "chosen",
    metavar="NAME[k=v,...]",
    help="The method of the file, where it has several, or with hyperparameters that are then not tuned.",
)
@options.plugins
@click.option("--beside", type=PATH, metavar="DIR", help="Results that stand in place of those in the package.")
@click.option("--jobs", type=Count(min=1), metavar="N", help="Processes at a time [default: one per core, or per GPU].")
@device
@click.option("--results", type=PATH, default=RESULTS, show_default=True, metavar="DIR", help="Folder for results.")
@click.option("--isolate/--no-isolate", default=None, help="Give every run a process of its own [default: yes].")
@click.option("--time-limit", type=options.TIME, help="Stop a run that takes longer, such as 30m.")
@click.option("--memory-limit", type=options.SIZE, help="Stop a run that takes more memory, such as 4GB.")
@click.option("--budget", type=options.TIME, help="Start no run that is expected to finish after this time.")
@click.option(
    "--until",
    type=Amount(min=0, min_open=True),
    metavar="POINTS",
    help="Add seeds until the interval over uniform routing is at most this to either side (boards full and mnist).",
)
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help="The page [default: rank.SUITE.PRESET.html in the results]."
)
@click.option("--dry-run", is_flag=True, help="List what would run, and run nothing.")
def command(method: str, output: Path | None, dry_run: bool, **asked: Any) -> None:
    """Place a routing method among the published ones, fairly tuned, with an interval and a rank.

    The method is checked, tuned with the published budget, and trained with the published seeds, as uniform routing is
    on this machine. Interrupted, the same command goes on.
    """
    from rich.console import Console

    from routebench.joining import listed_ranking, ranked

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    tell = OnTerminal(console)
    if dry_run:
        for line in listed_ranking(method, **asked):
            tell.say(line)
        return
    if sys.stderr.isatty():
        click.echo(f"checking {shown(method)}, which takes up to a minute ...", err=True)
    found = ranked(method, tell, output=output, **asked)
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
