"""`routebench suite`: trains what is missing, measures, and shows what came out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import NOTHING_MEASURED, PIPE_WIDTH, RESULTS, SOME_FAILED, device, say

if TYPE_CHECKING:
    from routebench.engine.running import Call, Counts, PlannedRun

BACKENDS = ("auto", "reference", "fused", "triton")
"""As `routebench.kernels.BACKENDS`, which torch comes with."""


@click.command()
@click.argument("suite", metavar="NAME|FILE.toml|all")
@click.option("--preset", default="quick", show_default=True, help="Size of the run: smoke, quick or full.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME[k=v,...]",
    help="Run this method instead of the suite's (repeatable). Controls run all the same.",
)
@click.option(
    "--data",
    metavar="NAME",
    help="Data set, instead of the preset's; folder:PATH for images of your own, take:N:NAME for N images of a set.",
)
@click.option("--model", "models", multiple=True, metavar="NAME", help="Network, instead of the preset's (repeatable).")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Number of seeds, instead of the preset's.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes at a time [default: one per core, or per GPU]."
)
@device
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="auto",
    show_default=True,
    help="What routing is computed with; auto takes the fastest that agrees with the reference.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default=True,
    metavar="DIR",
    help="Folder that keeps results; a run goes on where that folder stands.",
)
@options.plugins
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads of torch per cell [default: cores / jobs, at most OMP_NUM_THREADS; 1 on a cluster].",
)
@click.option(
    "--isolate/--no-isolate",
    default=None,
    help="Give every cell a process of its own, or with --jobs 1 none [default: where a plug-in takes part].",
)
@click.option(
    "--time-limit", type=options.TIME, help="Stop a cell that takes longer, such as 30m; it becomes a `timeout`."
)
@click.option(
    "--memory-limit", type=options.SIZE, help="Stop a cell that takes more memory, such as 4GB; it becomes an `oom`."
)
@click.option(
    "--budget",
    type=options.TIME,
    help="Begin no cell that is expected to end later than this from now, such as 20m; one never run may.",
)
@click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where cells run: on this machine, or on a running Ray cluster (pip install 'routebench[ray]').",
)
@click.option("--address", default="auto", show_default=True, metavar="HOST:PORT", help="Head of the Ray cluster.")
@click.option(
    "--gpus-per-cell",
    type=click.FloatRange(min=0),
    metavar="X",
    help="GPUs of a cell on a cluster, such as 0.25 [default: 1 where there are GPUs, unless --device cpu].",
)
@click.option("--loss", metavar="NAME", help="Train every entry with this loss, whatever the suite says.")
@click.option(
    "--settings",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Train with the settings that `tune` has chosen, instead of the preset's.",
)
@click.option(
    "--until",
    type=click.FloatRange(min=0, min_open=True),
    metavar="POINTS",
    help="Add seeds until the 95 % interval of every comparison that the suite names is at most this to either side.",
)
@click.option("--cell", "cells", multiple=True, metavar="KEY", help="Run this cell of the plan only (repeatable).")
@click.option(
    "--dry-run", is_flag=True, help="List the cells, what is known of them and the time they take; run nothing."
)
def command(dry_run: bool, **asked: Any) -> None:
    """Run a suite: train what is not trained yet, measure, print the table, write the report.

    NAME is a suite, a file of your own, or `all`: every standard suite, on networks that are trained once.
    """
    from rich.console import Console

    from routebench.engine.running import Counts, SuiteOptions, prepare

    call = prepare(SuiteOptions(**asked))
    for warning in (*call.warnings, *(() if dry_run else call.slow_back_ends)):
        click.echo(f"warning: {warning}", err=True)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if dry_run:
        for planned in call:
            _list(console, planned)
        return
    counts = sum((_run(console, planned) for planned in call), Counts())
    _report(console, call)
    _exit(console, counts)


def _list(console: Any, planned: "PlannedRun") -> None:
    """Says what a suite would run."""
    from routebench.engine.running import listing

    say(console, planned.title)
    _say_taken(console, planned)
    for line in listing(planned.plan, planned.status, planned.queue, planned.config.jobs):
        say(console, line)


def _say_taken(console: Any, planned: "PlannedRun") -> None:
    if planned.plan.taken:
        say(console, f"takes {planned.plan.taken}; --data take:NUMBER:NAME takes another number")


def _run(console: Any, planned: "PlannedRun") -> "Counts":
    """Runs one suite and shows its table."""
    from routebench.engine.running import Display, Follower, time_ahead

    planned.write_plan()
    queue, config, cells = planned.queue, planned.config, len(planned.plan.cells)
    device = f"{len(config.devices)} GPUs" if config.devices else config.device
    where = f"{device}{time_ahead(queue, config.jobs)}" if queue.left else "nothing to run"
    say(console, f"{planned.title}: {cells} cells, {len(planned.status.cached)} of them done before ({where})")
    _say_taken(console, planned)
    with Display(console, Follower(planned)) as listener:
        counts = planned.run(listener)
    if queue.left:
        say(console, f"the budget left {len(queue.left)} of {cells} cells; the same command goes on with:")
        for cell in queue.left:
            say(console, f"  {cell}")
    _show_results(console, planned)
    return counts


def _show_results(console: Any, planned: "PlannedRun") -> None:
    from rich.table import Table
    from rich.text import Text

    from routebench.report import comparison_table, headline

    where = planned.store.path, planned.suite, planned.preset
    rows = comparison_table(*where)
    table = Table(*rows.columns, box=None, pad_edge=False, header_style="bold")
    for row in rows.itertuples(index=False):
        table.add_row(*(Text(str(value)) for value in row))  # as it is: brackets are no markup
    console.print()
    console.print(table, soft_wrap=False)
    console.print()
    say(console, headline(*where))
    if caveat := planned.plan.caveat:
        say(console, caveat)


def _report(console: Any, call: "Call") -> None:
    """Writes the page."""
    from routebench.interface import write_page

    written = write_page(call.store.path, None, call.analyses)
    for warning in dict.fromkeys((*call.store.warnings, *written.warnings)):
        click.echo(f"warning: {warning}", err=True)
    say(console, f"report: {written.page}")


def _exit(console: Any, counts: "Counts") -> None:
    """Leaves with the exit code of what is missing, if anything is."""
    if counts.failed:
        say(console, f"{counts.failed} of {counts.cells} cells have no result; the same command tries them again")
    if counts.failed == counts.run and not counts.cached:
        sys.exit(NOTHING_MEASURED)
    if counts.failed or counts.left:
        sys.exit(SOME_FAILED)
