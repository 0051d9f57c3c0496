"""`routebench check`: what a routing method must do and what it claims, measured."""

import contextlib
import json
import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from routebench.commands.options import PIPE_WIDTH, TIME, device, say
from routebench.errors import UserError

if TYPE_CHECKING:
    from routebench.conformance import Finding, Verdict

STYLES = {"ok": "green", "WRONG": "bold red", "not claimed": "dim", "not checked": "dim"}


@click.command()
@click.argument("method", required=False, metavar="[METHOD]")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py[:Name]",
    help="File with a routing method of your own, which is checked if METHOD is left out (repeatable).",
)
@device
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--time-limit", type=TIME, default="15m", show_default=True, help="Stop a method that hangs.")
@click.option("--json", "as_json", is_flag=True, help="Every finding, as JSON.")
def command(  # noqa: PLR0917  # click passes them by name
    method: str | None, plugins: tuple[str, ...], device: str, seed: int, time_limit: float, as_json: bool
) -> None:
    """Check a routing method: what is required of every method and what this one claims, on random inputs.

    METHOD is NAME or NAME[key=value,...]. The exit code is 1 if something is wrong.
    """
    from routebench.engine.isolation import Ended, alone

    name = method or ", ".join(plugins)
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else PIPE_WIDTH
    if is_terminal and not as_json:
        click.echo(f"checking {name}, which takes up to a minute ...", err=True)
    form = "json" if as_json else "colours" if is_terminal else "plain"
    try:
        told, conforms = alone(_check, method, plugins, device, seed, form, width, limit=time_limit)
    except Ended as end:
        told, conforms = _ended(name, str(end), as_json), False
    click.echo(told, nl=False)
    sys.exit(0 if conforms else 1)


def _check(  # noqa: PLR0917  # a process gets them by position
    method: str | None, plugins: tuple[str, ...], device: str, seed: int, form: str, width: int
) -> tuple[str, bool]:
    """In a process of its own, because a method may crash or hang: what to print, and whether all is well."""
    import torch
    from rich.console import Console

    from routebench.conformance import check
    from routebench.engine.running import choose_device
    from routebench.registry import load_plugin, plugins_of_environment

    torch.set_num_threads(1)  # inputs are small: more threads would wait for each other
    for plugin in plugins_of_environment():
        with contextlib.suppress(UserError):  # another method may be asked for
            load_plugin(plugin)
    added = [name for plugin in plugins for name in load_plugin(plugin)["methods"]]
    verdict = check(method or _only(added, plugins), seed=seed, device=choose_device(device))
    if form == "json":
        return json.dumps(verdict.as_json(), indent=2) + "\n", verdict.conforms
    written = StringIO()
    _print(Console(file=written, width=width, force_terminal=form == "colours"), verdict)
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    return "\n".join(lines) + "\n", verdict.conforms


def _ended(name: str, reason: str, as_json: bool) -> str:
    if as_json:
        return json.dumps({"method": name, "conforms": False, "ended": reason}, indent=2) + "\n"
    return f"WRONG: {name}: it {reason}\n"


def _only(added: list[str], plugins: tuple[str, ...]) -> str:
    """The one method of the plug-ins."""
    if not plugins:
        raise UserError(
            "expected a METHOD or a --plugin FILE.py; `python -m routebench list methods` shows the methods"
        )
    if len(added) != 1:
        raise UserError(
            f"expected a METHOD, because the plug-in has {len(added)} of them: {', '.join(added) or 'none'}"
        )
    return added[0]


def _print(console: Any, verdict: "Verdict") -> None:
    say(console, f"{verdict.method}: random inputs of seed {verdict.seed}, device {verdict.device}")
    kinds = dict.fromkeys(finding.kind for finding in verdict.findings)
    for kind in kinds:
        console.print()
        say(console, f"{kind.value}:")
        console.print(_table([finding for finding in verdict.findings if finding.kind is kind]))
    for finding in verdict.faults:
        console.print()
        say(console, f"WRONG: {finding.name}: {finding.seen}")
        say(console, f"  at: {finding.at}")
        say(console, f"  look at: {finding.advice}")
    console.print()
    say(console, str(verdict))


def _table(findings: "list[Finding]") -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(min_width=26)
    table.add_column(min_width=11)
    table.add_column()
    for finding in findings:
        seen = "see below" if finding.wrong else finding.seen
        table.add_row(Text(finding.name), Text(finding.outcome.value, STYLES[finding.outcome.value]), Text(seen))
    return table
