"""`routebench verify`: checks a submission, and trains some of its runs again."""

import secrets
import sys
from pathlib import Path

import click
from annotated_types import Ge

from routebench.commands import options
from routebench.commands.options import PATH, PIPE_WIDTH, whole

DIFFERS = 1


@click.command()
@click.argument("submission", type=PATH, metavar="FOLDER")
@click.option("--runs", type=whole(Ge(0)), default=3, show_default=True, metavar="N", help="Runs to train again.")
@click.option(
    "--draw",
    type=whole(Ge(0)),
    metavar="N",
    help="A number that you choose after the submission was made; with its checksum it says which runs are trained "
    "[default: a random one, which is printed].",
)
@click.option("--beside", type=PATH, metavar="DIR", help="Results that stand in place of those in the package.")
def command(submission: Path, runs: int, draw: int | None, beside: Path | None) -> None:
    """Check a submission: its files, plans, settings and answers; then train some runs again, and compare.

    Code of the submission runs in processes of its own. That keeps mistakes apart, and is no sandbox: verify the code
    of strangers where it can do no harm. Exit codes: 0 nothing speaks against it; 1 something does.
    """
    from rich.console import Console

    from routebench.ranking import told, verify

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    number = secrets.randbelow(1_000_000) if draw is None else draw
    found = verify(submission, runs, number, lambda line: options.say(console, line), beside)
    for fault in found.faults:
        options.say(console, f"refused: {fault}")
    for name, agreement in found.agreements.items():
        for line in agreement.lines():
            options.say(console, f"{name}: {line}")
    if found.standing is not None:
        for line in told(found.standing):
            options.say(console, line)
    if found.agreements:
        few = max(1, found.runs // 10)
        options.say(
            console,
            f"drawn with --draw {number}: {len(found.agreements)} of {found.runs} trials and runs; if {few} of all "
            f"were false, a draw would miss them with a chance of {100 * found.missed(few):.0f} %",
        )
    options.say(console, "nothing speaks against it" if found.holds else "the submission does not hold")
    sys.exit(0 if found.holds else DIFFERS)
