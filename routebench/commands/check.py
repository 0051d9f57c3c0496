"""`routebench check`: measures what a routing method must do and what it claims."""

import shutil
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import click

from routebench.commands.options import known, of, say
from routebench.errors import shown
from routebench.options import CheckOptions
from routebench.terminal import PIPE_WIDTH, answer, note, tell, voice

if TYPE_CHECKING:
    from routebench.conformance import Checkup, Finding

STYLES = {"ok": "green", "WRONG": "bold red", "measured": "dim", "not checked": "dim"}


@click.command()
@click.argument("method", required=False, metavar="[METHOD]", shell_complete=known("methods"))
@of(CheckOptions)
def command(method: str | None, **asked: Any) -> None:
    """Check a routing method on random inputs. It tests what every method must do, and what this one claims.

    METHOD is NAME or NAME[key=value,...]. The exit code is 1 if something is wrong.
    """
    from routebench.engine.isolation import Ended
    from routebench.interface import check

    name = shown(method or ", ".join(asked["plugins"]))
    if sys.stdout.isatty():
        note(f"checking {name}, which takes up to a minute ...", err=True)
    try:
        checkup = check(method or "", **asked)
    except Ended as end:
        ended = {"method": name, "conforms": False, "ended": str(end)}
        tell(f"WRONG: {name}: it {end}")
        answer(lambda: ended)
        sys.exit(1)
    answer(checkup.as_json)
    if not voice().json:
        click.echo(_text(checkup), nl=False)
    sys.exit(0 if checkup.conforms else 1)


def _text(checkup: "Checkup") -> str:
    """The checkup as it is printed, without blanks at the ends of lines."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else PIPE_WIDTH
    written = StringIO()
    _print(Console(file=written, width=width, force_terminal=is_terminal), checkup)
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def _print(console: Any, checkup: "Checkup") -> None:
    say(console, f"{checkup.method}: random inputs of seed {checkup.seed}, device {checkup.device}")
    kinds = dict.fromkeys(finding.kind for finding in checkup.findings)
    for kind in kinds:
        console.print()
        say(console, f"{kind.value}:")
        console.print(_table([finding for finding in checkup.findings if finding.kind is kind]))
    for finding in checkup.faults:
        console.print()
        say(console, f"WRONG: {finding.name}: {finding.seen}")
        say(console, f"  at: {finding.at}")
        say(console, f"  look at: {finding.advice}")
    console.print()
    say(console, str(checkup))


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
