"""`routebench verify`: checks a submission, and trains some of its runs again."""

import secrets
import sys
from pathlib import Path

import click
from annotated_types import Ge

from routebench.commands.options import PATH, whole
from routebench.errors import UserError
from routebench.terminal import answer, note, tell

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
    if draw is not None and not runs:
        raise UserError("--draw says which runs are trained again, and with --runs 0 none is; leave out one of the two")
    from routebench.ranking import told, verify

    number = secrets.randbelow(1_000_000) if draw is None else draw
    found = verify(submission, runs, number, note, beside)
    for fault in found.faults:
        tell(f"refused: {fault}")
    for key, agreement in found.agreements.items():
        for line in agreement.lines():
            tell(f"{found.names[key]}: {line}")
    if found.standing is not None:
        tell(f"{found.standing.board.title}; published results: {found.standing.origin}")
        for line in told(found.standing):
            tell(line)
    if found.agreements:
        few = max(1, found.runs // 10)
        tell(
            f"drawn with --draw {number}: {len(found.agreements)} of {found.runs} trials and runs; if {few} of all "
            f"were false, a draw would miss them with a chance of {100 * found.missed(few):.0f} %",
        )
    agreements = {
        key: {"run": found.names[key], "holds": one.holds, "exact": one.is_exact, "lines": [*one.lines()]}
        for key, one in found.agreements.items()
    }
    place = [] if found.standing is None else told(found.standing)
    known = {
        "holds": found.holds,
        "board": found.about["board"],
        "faults": found.faults,
        "draw": number,
        "runs": found.runs,
    }
    answer(lambda: known | {"place": place, "agreements": agreements})
    tell("nothing speaks against it" if found.holds else "the submission does not hold")
    sys.exit(0 if found.holds else DIFFERS)
