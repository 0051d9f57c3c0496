"""The command line. Nothing heavy is imported before it is needed: help and listings answer at once."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from routebench.errors import PluginError, UserError, nearest

if TYPE_CHECKING:
    from routebench.engine.plan import Plan
    from routebench.engine.session import Standing
    from routebench.engine.store import Store

SOME_FAILED, NOTHING_MEASURED, INTERRUPTED = 3, 4, 130
PIPE_WIDTH = 200
"""Characters in a line of a table that is not printed to a terminal."""
BACKENDS = ("auto", "reference", "fused", "triton")
"""As `routebench.kernels.BACKENDS`, which torch comes with."""
KINDS = ("methods", "models", "data", "suites", "analyses", "protocols")


class Commands(click.Group):
    """A group that suggests the nearest command for a mistyped one."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click's, with a suggestion in the error."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise click.UsageError(f"no such command {args[0]!r}{nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="routebench")
def cli() -> None:
    """Compares capsule-network routing methods on identical backbones, splits and budgets.

    Start with `python -m routebench suite accuracy`.

    Exit codes: 0 done; 2 the call was wrong; 3 some cells failed, the rest are done and kept; 4 nothing was measured;
    130 interrupted, go on with the same command.
    """


@cli.command()
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
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where networks run.",
)
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
def suite(  # noqa: PLR0917  # click passes them by name
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


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("results"), metavar="[DIR]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Where to write the page [default: DIR/report.html].",
)
def report(folder: Path, output: Path | None) -> None:
    """Write one HTML page, which opens offline, from a results folder."""
    from routebench.report import write_report

    click.echo(f"report: {write_report(folder, output)}")


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("results"), metavar="[DIR]")
def status(folder: Path) -> None:
    """Say how far every plan in a results folder has come, and what failed."""
    from routebench.engine.store import Store

    if not folder.is_dir():
        raise UserError(f"expected a results folder, got {str(folder)!r}; run `python -m routebench suite NAME` first")
    store = Store(folder)
    planned = store.planned()
    for names, cells in planned.groupby(["suite", "preset", "data"], sort=False):
        counts = cells["status"].value_counts()
        told = ", ".join(f"{counts[state]} {state}" for state in counts.index.astype(str))
        suite_name, preset, data = map(str, names)
        click.echo(f"{suite_name}, preset {preset}, {data}: {told} of {len(cells)} cells")
        for row in cells[~cells["status"].isin(["ok", "not run"])].to_dict("records"):
            steps = f" T={row['iterations']}" if isinstance(row["iterations"], int) else ""
            click.echo(f"  {row['label']}{steps} seed {row['seed']}: {row['status']}: {row['reason']}")
    if planned.empty:
        click.echo("nothing was planned here yet")
    for warning in store.warnings:
        click.echo(f"warning: {warning}", err=True)


@cli.command()
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="What to examine."
)
def doctor(device: str) -> None:
    """Say what this machine has, which back ends work on it, and what a missing one costs."""
    import torch

    from routebench.engine.doctor import examine
    from routebench.engine.session import choose_device

    for finding in examine(torch.device(choose_device(device))):
        click.echo(str(finding))


@cli.command("list")
@click.argument("kind", type=click.Choice(KINDS), required=False, metavar=f"[{'|'.join(KINDS)}]")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON.")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE.py[:Name]", help="List what this file adds, too.")
def list_(kind: str | None, as_json: bool, plugins: tuple[str, ...]) -> None:
    """List methods, models, data sets, suites, analyses and protocols."""
    from routebench.catalogue import catalogue

    known = catalogue(plugins)
    if as_json:
        click.echo(json.dumps(known[kind] if kind else known, indent=2))
        return
    for name in [kind] if kind else KINDS:
        if kind is None:
            click.echo(f"{name}:")
        width = max((len(entry["name"]) for entry in known[name]), default=0)
        for entry in known[name]:
            count = f"  {entry['parameters']:>10,} parameters" if "parameters" in entry else ""
            click.echo(f"  {entry['name']:<{width}}{count}  {entry['summary']}")


def main() -> NoReturn:
    """Runs the command line; every error of the user's is one line and exit code 2."""
    try:
        cli.main(standalone_mode=False, prog_name="python -m routebench")
    except UserError as error:
        _fail(str(error))
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.UsageError as error:
        _fail(error.format_message())
    except click.ClickException as error:
        _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; finished cells are kept: run the same command again to go on", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(0)


def say(console: Any, text: str) -> None:
    """Prints text as it is, without wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    sys.exit(2)


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
