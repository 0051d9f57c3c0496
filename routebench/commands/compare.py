"""`routebench compare`: two results folders, paired, with a verdict."""

import sys
from pathlib import Path
from typing import Any

import click

from routebench.commands.options import FILE, PATH, of
from routebench.errors import UserError, shown
from routebench.options import CompareOptions
from routebench.terminal import answer, room, tell, voice

FORMATS = {"text": "as_text", "markdown": "as_markdown", "json": "as_json"}

EPILOG = """A difference is a regression if it is in the bad direction, significant, and above the noise floor.

\b
Exit codes with --gate (without it, always 0):
  0  no regression
  1  a regression, or HEAD could not measure a run or a number that BASE has
  3  HEAD lacks runs that BASE has, they cannot be compared, or a file of either folder is damaged
  4  undecided: nothing could be judged, the data are too noisy, or one seed cannot decide

Times are judged only if BASE and HEAD were measured in turn: `python -m routebench alternate`."""


@click.command(epilog=EPILOG)
@click.argument("base", type=PATH, metavar="BASE")
@click.argument("head", type=PATH, metavar="HEAD")
@click.option("--gate", is_flag=True, help="End with an exit code that says whether HEAD is worse.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="markdown fits a comment on a pull request.",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="File to write [default: standard output].")
@of(CompareOptions)
def command(base: Path, head: Path, gate: bool, form: str, output: Path | None, **asked: Any) -> None:
    """Compare two results folders, as a gate. Says what got worse, what got better, and which changes go undetected."""
    from routebench import atomic, comparing
    from routebench.comparing import verdict
    from routebench.interface import compare

    if voice().json and output is None and form == "markdown":
        raise UserError("expected --json or --format markdown, got both; leave one out, or name a file with -o")
    found = compare(base, head, **asked)
    for side in (found.base, found.head):
        for warning in side.warnings:
            click.echo(f"warning: {shown(side.path)}: {warning}", err=True)
    fitting = {"width": room()} if form == "text" and output is None else {}
    written = str(getattr(comparing, FORMATS[form])(found, **fitting))
    if output is None:
        tell(written.removesuffix("\n"))
    else:
        atomic.write_output(output, written, "the comparison")
        tell(f"{verdict(found)} Written to {shown(output)}")
    answer(lambda: comparing.as_plain(found))
    if gate:
        sys.exit(found.exit_code)
