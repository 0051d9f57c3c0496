"""`routebench board`: the published comparison and all submissions of a folder as one static page."""

import sys
from pathlib import Path

import click

from routebench.commands.options import FILE, PATH, SOME_FAILED
from routebench.errors import shown
from routebench.terminal import answer, tell


@click.command()
@click.argument("submissions", type=PATH, required=False, metavar="[FOLDER]")
@click.option("--board", default="quick", show_default=True, metavar="NAME", help="The comparison.")
@click.option("--beside", type=PATH, metavar="DIR", help="Results that stand in place of those in the package.")
@click.option(
    "-o", "--output", type=FILE, metavar="FILE", default=Path("board.html"), show_default=True, help="The page."
)
def command(submissions: Path | None, board: str, beside: Path | None, output: Path) -> None:
    """Write the board: published rows, and each submission in FOLDER with its place and a page of its own.

    No code of a submission is run: `verify` says whether one holds. Exit code 3: a submission is left out, and why.
    """
    from routebench.ranking import board_of, write_board

    count, left_out = write_board(board_of(board), submissions, output, beside)
    for told in left_out:
        click.echo(f"left out: {told}", err=True)
    tell(f"board: {shown(output)}, with {count} submissions")
    answer(lambda: {"page": output, "submissions": count, "left_out": left_out})
    if left_out:
        sys.exit(SOME_FAILED)
