"""`routebench submit`: a ranked method as a folder that others can verify."""

import shlex
from pathlib import Path
from typing import Any

import click

from routebench.commands import options
from routebench.errors import shown
from routebench.options import RankOptions
from routebench.terminal import answer, tell


@click.command()
@click.argument("method", metavar="FILE.py[:Name]|FOLDER")
@options.of(RankOptions, only="board chosen beside results", board="The board that it was ranked on.")
@click.option("--who", default="", metavar="NAME", help="Who submits it.  [required]")
@click.option("--licence", default="", metavar="NAME", help="Licence of its code, such as MIT.  [required]")
@click.option("--code", default="", metavar="URL", help="Where its code lives.")
@click.option("--cite", default="", metavar="TEXT", help="The publication to cite.")
@options.new_folder("nothing")
def command(  # noqa: PLR0917  # click passes them by name
    method: str, output: Path, who: str, licence: str, code: str, cite: str, **asked: Any
) -> None:
    """Write a submission: code, settings, trials, records and answers of a method that `rank` has ranked.

    It refuses what a maintainer would refuse, and says why. `routebench verify` checks what it writes.
    """
    from routebench.joining import submit

    facts = {"who": who, "licence": licence, "code": code, "cite": cite}
    place = submit(method, output, RankOptions(**asked), **facts)
    tell(place)
    tell(f"submission: {shown(output)}; `python -m routebench verify {shlex.quote(shown(output))}` checks it")
    answer(lambda: {"submission": output, "place": place})
