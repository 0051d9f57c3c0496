"""`routebench suite`: trains what is missing, measures, and shows what came out."""

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import NOTHING_MEASURED, PIPE_WIDTH, RESULTS, SOME_FAILED, device, say
from routebench.errors import UserError

if TYPE_CHECKING:
    from routebench.engine.results import Record, Store
    from routebench.engine.running import Queue, Setting, Standing
    from routebench.engine.suites import Plan

BACKENDS = ("auto", "reference", "fused", "triton")
"""As `routebench.kernels.BACKENDS`, which torch comes with."""
LEAST_MEMORY = 500_000_000  # bytes


@click.command()
@click.argument("name", metavar="NAME|FILE.toml|all")
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
@click.option("--cell", "cells", multiple=True, metavar="KEY", help="Run this cell of the plan only (repeatable).")
@click.option(
    "--dry-run", is_flag=True, help="List the cells, what is known of them and the time they take; run nothing."
)
def command(  # noqa: PLR0917  # click passes them by name
    name: str,
    preset: str,
    methods: tuple[str, ...],
    data: str | None,
    models: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    device: str,
    backend: str,
    results: Path,
    plugins: tuple[str, ...],
    threads: int | None,
    isolate: bool | None,
    time_limit: float | None,
    memory_limit: int | None,
    budget: float | None,
    executor: str,
    address: str,
    gpus_per_cell: float | None,
    cells: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Run a suite: train what is not trained yet, measure, print the table, write the report.

    NAME is a suite, a file of your own, or `all`: every standard suite, on networks that are trained once.
    """
    from rich.console import Console

    from routebench.engine.results import Store
    from routebench.engine.running import choose_setting, slow_back_end, standing
    from routebench.engine.suites import ALL, Asked, Choices, make_plans
    from routebench.routing.spec import parse

    _expect_used(executor, address, gpus_per_cell, memory_limit)
    if name == ALL and (data or models or cells):
        raise UserError("--data, --model and --cell belong to one suite; name it instead of `all`")
    choices = Choices(tuple(map(parse, methods)), data=data, seeds=seeds, backend=backend, models=models)
    planned = make_plans(Asked(name, preset, choices, plugins), time_limit)
    for warning in planned.warnings:
        click.echo(f"warning: {warning}", err=True)
    store = Store(results)
    store.check_schema()
    limits: dict[str, Any] = {"time_limit": time_limit, "memory_limit": memory_limit}
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    todo = []
    for made in planned.plans:  # all of them before any runs, so that a wrong option is told at once
        known = standing(made, store, only=cells)
        setting = choose_setting(
            made, len(known.to_do), executor=executor, address=address, gpus=gpus_per_cell, device=device,
            backend=backend, jobs=None if name == ALL and made.is_alone else jobs, threads=threads,
        )  # fmt: skip
        alone = _in_processes(isolate, made, known)
        todo.append((made, known, replace(setting, plugins=planned.plugins, isolate=alone, **limits)))
    warned = () if dry_run else (slow_back_end(setting) for _, known, setting in todo if known.to_do)
    for warning in dict.fromkeys(filter(None, warned)):
        click.echo(f"warning: {warning}", err=True)
    outcome = _in_turn(console, todo, store, budget=budget, dry_run=dry_run)
    if not dry_run:
        _report(console, store, planned.analyses)
        outcome.exit(console)


def _in_processes(wanted: bool | None, made: "Plan", known: "Standing") -> bool:
    """Whether each cell has a process of its own: by default where code of others takes part.

    What failed before has one whatever is wanted: it may have crashed.
    """
    return bool(known.failed) or (made.is_foreign if wanted is None else wanted)


def _expect_used(executor: str, address: str, gpus: float | None, memory_limit: int | None) -> None:
    """Raises UserError for an option that would do nothing, or stop everything."""
    if executor == "local" and (address != "auto" or gpus is not None):
        raise UserError("--address and --gpus-per-cell are for a cluster; add --executor ray, or leave them out")
    if memory_limit is not None and memory_limit < LEAST_MEMORY:
        raise UserError(
            f"--memory-limit: expected at least {LEAST_MEMORY / 1e6:.0f}MB, of which a process with torch takes most, "
            f"got {memory_limit / 1e6:g}MB"
        )


@dataclass(frozen=True)
class _Outcome:
    """What came of one suite or several: cells planned, known before, run, without a result, and left by the budget."""

    cells: int = 0
    cached: int = 0
    run: int = 0
    failed: int = 0
    left: int = 0

    def __add__(self, other: "_Outcome") -> "_Outcome":
        return _Outcome(*(one + two for one, two in zip(vars(self).values(), vars(other).values(), strict=True)))

    def exit(self, console: Any) -> None:
        """Leaves with the exit code of what is missing, if anything is."""
        if self.failed:
            say(console, f"{self.failed} of {self.cells} cells have no result; the same command tries them again")
        if self.failed == self.run and not self.cached:
            sys.exit(NOTHING_MEASURED)
        if self.failed or self.left:
            sys.exit(SOME_FAILED)


def _in_turn(
    console: Any, todo: "list[tuple[Plan, Standing, Setting]]", store: "Store", *, budget: float | None, dry_run: bool
) -> _Outcome:
    """Runs one suite after another, within a budget that is for all of them together."""
    preload = tuple(dict.fromkeys(module for made, _, _ in todo for module in made.preload))
    ends, outcome = None if budget is None else time.monotonic() + budget, _Outcome()
    for made, known, setting in todo:
        left = None if ends is None else max(0.0, ends - time.monotonic())
        outcome += _one(
            console, made, known, store, replace(setting, preload=preload), budget=left, dry_run=dry_run
        )  # fmt: skip
    return outcome


def _one(
    console: Any, made: "Plan", known: "Standing", store: "Store", setting: "Setting", *,
    budget: float | None, dry_run: bool,
) -> _Outcome:  # fmt: skip
    """Runs one suite and shows its table, or lists what it would run."""
    from routebench.engine.running import Queue, listing

    queue = Queue(known.to_do, known.times, budget)
    if dry_run:
        say(console, _title(made))
        _say_taken(console, made)
        for line in listing(made, known, queue, setting.jobs):
            say(console, line)
        return _Outcome()
    store.prepare()
    records = _run(console, made, known, queue, store=store, setting=setting)
    _show_results(console, made, store)
    failed = sum(record.status != "ok" for record in records)
    return _Outcome(len(made.cells), len(known.cached), len(records), failed, len(queue.left))


def _title(made: "Plan") -> str:
    return f"{made.suite.name}, preset {made.preset.name}, {made.preset.data}, {', '.join(made.preset.models)}"


def _say_taken(console: Any, made: "Plan") -> None:
    if made.taken:
        say(console, f"takes {made.taken}; --data take:NUMBER:NAME takes another number")


def _run(
    console: Any, made: "Plan", known: "Standing", queue: "Queue", *, store: "Store", setting: "Setting"
) -> "list[Record]":
    from routebench.engine.running import Display, run, time_ahead, write_plan

    write_plan(made, store)
    to_do = list(queue.left)
    device = f"{len(setting.devices)} GPUs" if setting.devices else setting.device
    where = f"{device}{time_ahead(queue, setting.jobs)}" if to_do else "nothing to run"
    say(
        console,
        f"{_title(made)}: {len(made.cells)} cells, {len(known.cached)} of them done before ({where})",
    )
    _say_taken(console, made)
    with Display(console, to_do, known.times, setting.jobs) as listener:
        records = run(queue, store, setting, listener)
    if queue.left:
        say(console, f"the budget left {len(queue.left)} of {len(made.cells)} cells; the same command goes on with:")
        for cell in queue.left:
            say(console, f"  {cell}")
    return records


def _show_results(console: Any, made: "Plan", store: "Store") -> None:
    from rich.table import Table
    from rich.text import Text

    from routebench.report import comparison_table, headline

    rows = comparison_table(store.path, made.suite.name, made.preset.name)
    table = Table(*rows.columns, box=None, pad_edge=False, header_style="bold")
    for row in rows.itertuples(index=False):
        table.add_row(*(Text(str(value)) for value in row))  # as it is: brackets are no markup
    console.print()
    console.print(table, soft_wrap=False)
    console.print()
    say(console, headline(store.path, made.suite.name, made.preset.name))
    if caveat := made.suite.caveats(made.preset.data):
        say(console, caveat)


def _report(console: Any, store: "Store", plugins: tuple[str, ...]) -> None:
    """Writes the page; with analyses of plug-ins in a process of its own."""
    from routebench.commands.report import write

    written = write(store.path, None, plugins)
    for warning in dict.fromkeys((*store.warnings, *written.warnings)):
        click.echo(f"warning: {warning}", err=True)
    say(console, f"report: {written.page}")
