"""`routebench suite`: trains and measures what is missing, and shows the results."""

import gc
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.commands.options import NOTHING_MEASURED, SOME_FAILED, say
from routebench.errors import shown
from routebench.options import SuiteOptions
from routebench.quantities import plural
from routebench.terminal import PIPE_WIDTH, answer, console_of_notes, note, tell, voice

if TYPE_CHECKING:
    from routebench.analysis import Analysis, Runs
    from routebench.analysis.folder import Folder
    from routebench.engine.running import Call, Counts, PlannedRun
    from routebench.report import NetworkAnswer

SMOKE = "smoke shows only that everything runs: read nothing into these numbers"


@click.command()
@click.argument("suite", metavar="NAME|FILE.toml|all", shell_complete=options.known("suites"))
@options.of(SuiteOptions)
@click.option("--dry-run", is_flag=True, help="List the runs with their status and expected time, and run nothing.")
def command(dry_run: bool, **asked: Any) -> None:
    """Run a suite: train, measure, print a table, write the report.

    Only what is missing is trained and measured. NAME is a suite, a TOML file of your own, or `all`: the suites
    that share trained networks.
    """
    options.begin(asked, dry_run=dry_run)
    if sys.stderr.isatty():  # importing torch takes seconds
        note(f"planning {asked['suite']}, preset {asked['preset']} ...", err=True)
    if dry_run:
        gc.disable()  # a plan is no garbage; to search all that torch brings takes half a second
    from rich.console import Console

    from routebench.engine.merge import readable
    from routebench.engine.running import Counts, prepare

    if (beside := asked["beside"]) is not None:
        readable(beside)  # before hours of training
    call = prepare(SuiteOptions(**asked), dry_run=dry_run)
    for warning in (*call.warnings, *(() if dry_run else call.slow_back_ends)):
        click.echo(f"warning: {warning}", err=True)
    if dry_run:
        with options.warning_of(call.store):
            plans = [_list(planned) for planned in call]
            call.store.tell_gone()
        answer(lambda: plans)
        gc.enable()
        return
    from routebench.analysis import open_folder

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, quiet=voice().json)
    counts, shown_plans = Counts(), []
    for planned in call:
        counts += _run(planned)
        folder = open_folder(planned.store.path, beside)
        shown_plans.append(_show_results(console, planned, folder))
    page = _report(call, folder, beside)
    answer(lambda: {"suites": [_as_plain(*one) for one in shown_plans], "runs": vars(counts), "report": page})
    _exit(counts)


def _list(planned: "PlannedRun") -> dict[str, Any]:
    """Says what a suite would run, and returns it for a program."""
    from routebench.engine.running import listing, plan_as_plain

    known = planned.plan, planned.status, planned.queue, planned.config.jobs
    for line in (planned.title, *planned.remarks, *listing(*known)):
        tell(line)
    return plan_as_plain(*known) | {"remarks": planned.remarks}


def _run(planned: "PlannedRun") -> "Counts":
    """Runs one suite."""
    from routebench.engine.running import Display, Follower, time_ahead

    replaced = planned.write_plan()
    queue, config, cells = planned.queue, planned.config, len(planned.plan.cells)
    device = f"{len(config.devices)} GPUs" if config.devices else config.device
    left = f"{len(queue.left)} to run ({device}{time_ahead(queue, config.jobs)})" if queue.left else "nothing to run"
    note(f"{planned.title}: {plural(cells, 'run')}, {len(planned.status.cached)} done before, {left}")
    for line in filter(None, (*planned.remarks, replaced)):
        note(line)
    with Display(console_of_notes(), Follower(planned)) as listener:
        counts = planned.run(listener)
    if queue.left:
        tell(f"the budget left {len(queue.left)} of {plural(cells, 'run')}; the same command goes on with:")
        for cell in queue.left:
            tell(f"  {cell}")
    return counts


def _show_results(
    console: Any, planned: "PlannedRun", folder: "Folder"
) -> "tuple[PlannedRun, Sequence[NetworkAnswer], dict[str, str]]":
    """Shows the table, its answer, and a verdict on each method that the user named; returns the last two."""
    from routebench.report import answers, between_networks

    found, is_smoke = answers(folder, planned.suite, planned.preset), planned.preset == "smoke"
    every: dict[str, str] = {}
    for one in found:
        verdicts = _verdicts(planned, one.runs)
        every |= {f"{name} on {one.network}" if one.network else name: told for name, told in verdicts.items()}
        console.print()
        if one.network:
            say(console, f"On {one.network}:")
        if one.analysis is not None:
            console.print(_coloured(one.analysis, set(verdicts)), soft_wrap=False)
        console.print()
        where = f"on {one.network}: " if one.network else ""
        told = [one.headline.title] if one.headline else []
        told += [f"{name}: {verdict}" for name, verdict in verdicts.items()]
        for line in (*one.runs.not_measured, *(() if is_smoke else (*told, *filter(None, [one.collapsed])))):
            say(console, f"{where}{line}")
    if is_smoke:
        say(console, SMOKE)
        return planned, found, {}
    if between := between_networks(found):
        console.print()
        say(console, "The same methods between networks:")
        console.print(_coloured(between, set()), soft_wrap=False)
        console.print()
    if caveat := planned.plan.caveat:
        say(console, caveat)
    return planned, found, every


def _as_plain(planned: "PlannedRun", found: "Sequence[NetworkAnswer]", verdicts: Mapping[str, str]) -> dict[str, Any]:
    """The findings of a suite, for a program: numbers of its first table, as the CSV file beside the page has them."""
    smoke, plan = planned.preset == "smoke", planned.plan
    networks = [
        {
            "network": one.runs.model,
            "answer": "" if smoke or one.headline is None else str(one.headline),
            "rows": [] if one.analysis is None else one.analysis.numbers.to_dict("records"),
        }
        for one in found
    ]
    return {
        "suite": planned.suite,
        "preset": planned.preset,
        "data": plan.preset.data,
        "networks": networks,
        "verdicts": verdicts,
        "caveat": SMOKE if smoke else plan.caveat,
        "remarks": planned.remarks,
    }


def _coloured(found: "Analysis", named: set[str]) -> Any:
    """A table with the user's methods in bold, baselines dimmed, and significant differences in colour."""
    from rich.table import Table
    from rich.text import Text

    from routebench.analysis import Verdict

    colours = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
    shown = [place for place, column in enumerate(found.printed_columns) if not column.extra]
    titles = [found.printed_columns[place].title for place in shown]
    table = Table(*titles, box=None, pad_edge=False, header_style="bold")
    methods = [str(method) for method in found.table.get("method", [""] * len(found.table))]
    for row, method, is_baseline in zip(found.printed, methods, found.baselines, strict=True):
        cells = [Text(row[place].text, colours.get(row[place].verdict, "")) for place in shown]  # brackets: no markup
        table.add_row(*cells, style="dim" if is_baseline else "bold cyan" if method in named else None)
    return table


def _verdicts(planned: "PlannedRun", runs: "Runs") -> dict[str, str]:
    """The verdict on each method that the user named or brought: its accuracy, and its gain over uniform coupling."""
    from routebench.analysis.comparison import comparison_of

    named = {cell.label for cell in planned.named}
    if planned.plan.suite.protocol != "accuracy" or not named:
        return {}
    found = comparison_of(runs)
    missing = found.table[found.table["n_ok"] == 0]
    rows = [*found.every.to_dict("records"), *missing.to_dict("records")]
    return {str(row["method"]): _verdict(row) for row in rows if row["method"].label in named}


def _verdict(row: Mapping[Any, Any]) -> str:
    if not row["mean"].known:
        return "no result"
    if not row["gain"].known:
        return f"{row['mean']:.1} %"
    return f"{row['mean']:.1} %, {row['gain']:+.1} points against uniform routing: {row['gain'].verdict.in_words}"


def _report(call: "Call", folder: "Folder", beside: Path | None) -> Path:
    """Writes the page, and returns where it is."""
    from routebench.interface import write_page

    written = write_page(folder, None, call.analyses, beside)
    for warning in dict.fromkeys((*call.store.warnings, *written.warnings)):
        click.echo(f"warning: {warning}", err=True)
    tell(f"report: {shown(written.page)}")
    note(f"read before you quote a number: {shown(written.page)}#caveats")
    return written.page


def _exit(counts: "Counts") -> None:
    """Leaves with the exit code of what is missing, if anything is."""
    if counts.failed:
        tell(f"no result of {counts.failed} of {plural(counts.cells, 'run')}; the same command tries again")
        note("`routebench forget METHOD` takes the rows of a method that you gave up out of the report")
    if counts.failed == counts.run and not counts.cached:
        sys.exit(NOTHING_MEASURED)
    if counts.failed or counts.left:
        sys.exit(SOME_FAILED)
