"""`routebench check`: what a routing method must do and what it claims, measured."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from routebench.commands.options import PIPE_WIDTH, device, say
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
@click.option("--json", "as_json", is_flag=True, help="Every finding, as JSON.")
def command(method: str | None, plugins: tuple[str, ...], device: str, seed: int, as_json: bool) -> None:
    """Check a routing method: what is required of every method and what this one claims, on random inputs.

    METHOD is NAME or NAME[key=value,...]. The exit code is 1 if something is wrong.
    """
    from rich.console import Console

    from routebench.conformance import check
    from routebench.engine.session import choose_device
    from routebench.registry import load_plugin

    added = [name for plugin in plugins for name in load_plugin(plugin)["methods"]]
    verdict = check(method or _only(added, plugins), seed=seed, device=choose_device(device))
    if as_json:
        click.echo(json.dumps(verdict.as_json(), indent=2))
    else:
        _print(Console(width=None if sys.stdout.isatty() else PIPE_WIDTH), verdict)
    sys.exit(0 if verdict.conforms else 1)


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
