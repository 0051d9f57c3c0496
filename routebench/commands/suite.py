"""`routebench suite`: trains what is missing, measures, and shows what came out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands.options import NOTHING_MEASURED, PIPE_WIDTH, SOME_FAILED, device, say
from routebench.errors import PluginError

if TYPE_CHECKING:
    from routebench.engine.plan import Plan
    from routebench.engine.session import Standing
    from routebench.engine.store import Store

BACKENDS = ("auto", "reference", "fused", "triton")
"""As `routebench.kernels.BACKENDS`, which torch comes with."""


@click.command()
@click.argument("name", metavar="NAME|FILE.toml")
@click.option("--preset", default="quick", show_default=True, help="Size of the run: smoke, quick or full.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME[k=v,...]",
    help="Run this method instead of the suite's (repeatable). Controls run all the same.",
)
@click.option("--data", metavar="NAME", help="Data set, instead of the preset's; folder:PATH for images of your own.")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Number of seeds, instead of the preset's.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes at a time [default: one per core; 1 on a GPU]."
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
    default=Path("results"),
    show_default=True,
    metavar="DIR",
    help="Folder that keeps results; a run goes on where that folder stands.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py[:Name]",
    help="File with a routing method of your own, which runs beside the suite's (repeatable).",
)
@click.option("--dry-run", is_flag=True, help="List the cells and what is known of them; run nothing.")
def command(  # noqa: PLR0917  # click passes them by name
    name: str,
    preset: str,
    methods: tuple[str, ...],
    data: str | None,
    seeds: int | None,
    jobs: int | None,
    device: str,
    backend: str,
    results: Path,
    plugins: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Run a suite: train what is not trained yet, measure, print the table, write the report."""
    from rich.console import Console

    from routebench.engine import plan as planning
    from routebench.engine.session import choose_backend, choose_device, choose_jobs, standing
    from routebench.engine.store import Store
    from routebench.engine.suite import load_suite
    from routebench.registry import load_plugin, protocols
    from routebench.routing.spec import parse

    added, broken = [], {}
    for spec in plugins:
        try:
            added += load_plugin(spec)["methods"]
        except PluginError as error:
            broken[spec] = str(error)
    plugins = tuple(spec for spec in plugins if spec not in broken)
    choices = planning.Choices(tuple(parse(text) for text in methods), tuple(added), broken, data, seeds, backend)
    made = planning.plan(load_suite(name), preset, choices)
    store, chosen = Store(results), choose_device(device)
    backend = choose_backend(backend, chosen)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if dry_run:
        _print_standing(console, made, standing(made, store))
        return
    alone = getattr(protocols[made.suite.protocol], "alone", False)
    choose_jobs(jobs, chosen, len(made.cells), alone=alone)  # refuses before anything is written
    store.prepare()
    known = standing(made, store)
    count, threads = choose_jobs(jobs, chosen, len(known.to_do), alone=alone)
    how = {"device": chosen, "backend": backend, "jobs": count, "threads": threads, "plugins": plugins}
    records = _run(console, made, known, store, **how)
    _show_results(console, made, store)
    _exit(console, made, known, records)


def _print_standing(console: Any, made: "Plan", known: "Standing") -> None:
    states = {id(cell): state for state in ("cached", "failed", "missing") for cell in getattr(known, state)}
    for cell in made.cells:
        state = "to do" if states[id(cell)] == "missing" else states[id(cell)]
        say(console, f"{state:>7}  {cell.key}  {cell}")
    counts = f"{len(known.cached)} cached, {len(known.failed)} failed, {len(known.missing)} to do"
    say(console, f"{len(made.cells)} cells: {counts}")


def _run(console: Any, made: "Plan", known: "Standing", store: "Store", **how: Any) -> list[dict[str, Any]]:
    from routebench.engine.progress import Display
    from routebench.engine.session import run, write_plan

    write_plan(made, store)
    where = f"{how['device']}, {how['jobs']} at a time" if known.to_do else "nothing to run"
    say(
        console,
        f"{made.suite.name}, preset {made.preset.name}, {made.preset.data}: {len(made.cells)} cells, "
        f"{len(known.cached)} of them done before ({where})",
    )
    with Display(console, known.to_do, known.seconds, how["jobs"]) as listener:
        return run(known.to_do, store, listener=listener, **how)


def _show_results(console: Any, made: "Plan", store: "Store") -> None:
    from rich.table import Table
    from rich.text import Text

    from routebench.report import comparison_table, headline, write_report

    rows = comparison_table(store.path, made.suite.name, made.preset.name)
    table = Table(*rows.columns, box=None, pad_edge=False, header_style="bold")
    for row in rows.itertuples(index=False):
        table.add_row(*(Text(str(value)) for value in row))  # as it is: brackets are no markup
    console.print()
    console.print(table, soft_wrap=False)
    console.print()
    say(console, headline(store.path, made.suite.name, made.preset.name))
    if made.suite.caveat:
        say(console, made.suite.caveat)
    for warning in store.warnings:
        say(console, f"warning: {warning}")
    say(console, f"report: {write_report(store.path)}")


def _exit(console: Any, made: "Plan", known: "Standing", records: list[dict[str, Any]]) -> None:
    failed = [record for record in records if record["status"] != "ok"]
    if not failed:
        return
    say(console, f"{len(failed)} of {len(made.cells)} cells have no result; the same command tries them again")
    sys.exit(SOME_FAILED if len(failed) < len(records) or known.cached else NOTHING_MEASURED)
