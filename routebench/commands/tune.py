"""`routebench tune`: tries settings with one budget for every configuration, and writes those that were chosen."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import FILE, SOME_FAILED
from routebench.errors import shown
from routebench.options import TuneOptions
from routebench.quantities import plural
from routebench.terminal import PIPE_WIDTH, answer, console_of_notes, note, tell, voice

if TYPE_CHECKING:
    from routebench.engine.running import PlannedRun


@click.command()
@click.argument("suite", metavar="NAME|FILE.toml", shell_complete=options.known("suites"))
@options.of(
    TuneOptions,
    without="seeds backend compile threads gpus_per_run memory_limit settings until changes cells beside",
    methods="Method to tune instead of the suite's (repeatable). Baselines are tuned as well, unless the suite brings "
    "settings of theirs that were chosen with the same budget.",
    time_limit="Most time of a trial, such as 30m, or in seconds; beyond it, the trial scores chance.",
)
@click.option(
    "-o",
    "--output",
    "--write",
    "write",
    type=FILE,
    metavar="FILE",
    help="File for the chosen settings  [default: SUITE.PRESET.settings.json in the results folder].",
)
@click.option("--dry-run", is_flag=True, help="List the trials; run nothing.")
def command(write: Path | None, dry_run: bool, **asked: Any) -> None:
    """Tune every method and baseline of a suite with the same number of trials.

    Settings are scored on held-out folds of the training images; no trial sees a test image. `suite --settings FILE`
    trains with what was chosen.
    """
    options.begin(asked, dry_run=dry_run)
    from routebench import atomic
    from routebench.engine.running import prepare
    from routebench.engine.tuning import told_of_kept

    if write is not None:
        atomic.expect_place(write, "settings")
    call = prepare(TuneOptions(**asked), dry_run=dry_run)
    for warning in call.warnings:
        click.echo(f"warning: {warning}", err=True)
    if told := told_of_kept(call.plans[0][0]):
        tell(told)
    if dry_run:
        _list(next(iter(call)))
        call.store.tell_gone()
        options.warn(call.store)
        return
    left = 0
    for planned in call:  # all trials, then repeats of the best
        left = _run(planned)
    with options.warning_of(call.store):
        call.store.tell_gone()
        _choose(planned, write, f"{planned.suite}.{asked['preset']}.settings.json", left)
    if left:
        sys.exit(SOME_FAILED)


def _list(planned: "PlannedRun") -> None:
    """Says which trials would run."""
    from routebench.engine.running import listing, plan_as_plain
    from routebench.engine.tuning import to_repeat

    known = planned.plan, planned.status, planned.queue, planned.config.jobs
    told = to_repeat(planned.plan)
    for line in (*planned.remarks, *listing(*known), *filter(None, [told])):
        tell(line)
    answer(lambda: plan_as_plain(*known) | {"to_repeat": told, "remarks": planned.remarks})


def _run(planned: "PlannedRun") -> int:
    """Runs the trials; returns how many were left or failed."""
    from routebench.engine.running import Display, Follower, time_ahead

    planned.write_plan()
    queue, cells = planned.queue, len(planned.plan.cells)
    where = f"{planned.config.device}{time_ahead(queue, planned.config.jobs)}" if queue.left else "nothing to run"
    note(f"{planned.title}: {plural(cells, 'trial')}, {len(planned.status.cached)} done before ({where})")
    for line in planned.remarks:
        note(line)
    with Display(console_of_notes(), Follower(planned)) as listener:
        counts = planned.run(listener)
    if counts.left:
        tell(f"the budget left {counts.left} of {plural(cells, 'trial')}; the same command goes on")
    if counts.failed:
        tell(f"{plural(counts.failed, 'trial')} failed, and a failure scores chance; the same command tries again")
    return counts.left + counts.failed


def _choose(planned: "PlannedRun", write: Path | None, name: str, left: int) -> None:
    """Writes the chosen settings where it was asked for, else by this name to the results folder, and shows them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from routebench import atomic
    from routebench.engine.tuning import at_ends, choose_beside

    settings = choose_beside(planned.plan, planned.store)
    file = write or planned.store.path / name
    atomic.write_output(file, settings.written, "settings", named=write is not None, keeps_settings=True)
    table = Table(
        "configuration", "T", "score (%)", "trial", "diverged", "failed", "settings", box=None, pad_edge=False
    )
    for one in settings.choices:
        told = ", ".join(f"{name}={value}" for name, value in one.point.items())
        steps = "" if one.iterations is None else str(one.iterations)
        cells = (one.method, steps, f"{one.score:.2f}", str(one.trial), str(one.diverged), str(one.failed), told)
        table.add_row(*map(Text, cells))
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, quiet=voice().json)
    console.print()
    console.print(table)
    console.print()
    tell(settings.told(settings.data).told)
    ends = at_ends(planned.plan, settings)
    for line in ends:
        tell(f"at an end: {line}; a wider range may have better ones")
    tell(f"settings: {shown(file)}")
    choices = [vars(one) for one in settings.choices]
    answer(lambda: {"settings": file, "choices": choices, "at_an_end": ends, "left": left})
