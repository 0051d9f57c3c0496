"""`routebench submit`: a ranked method as a folder that others can verify."""

from pathlib import Path
from typing import Any

import click

from routebench.commands import options
from routebench.commands.options import PATH, RESULTS
from routebench.errors import shown


@click.command()
@click.argument("method", metavar="FILE.py[:Name]|FOLDER")
@click.option("--board", default="quick", show_default=True, metavar="NAME", help="The board that it was ranked on.")
@click.option("--method", "chosen", metavar="NAME[k=v,...]", help="The method of the file, where it has several.")
@click.option("--beside", type=PATH, metavar="DIR", help="Results that stand in place of those in the package.")
@click.option("--results", type=PATH, default=RESULTS, show_default=True, metavar="DIR", help="Folder of its results.")
@click.option("--who", default="", metavar="NAME", help="Who submits it.  [required]")
@click.option("--licence", default="", metavar="NAME", help="Licence of its code, such as MIT.  [required]")
@click.option("--code", default="", metavar="URL", help="Where its code lives.")
@click.option("--cite", default="", metavar="TEXT", help="The publication to cite.")
@options.new_folder("nothing")
def command(method: str, output: Path, **asked: Any) -> None:
    """Write a submission: code, settings, trials, records and answers of a method that `rank` has ranked.

    It refuses what a maintainer would refuse, and says why. `routebench verify` checks what it writes.
    """
    from routebench.joining import submit

    place = submit(method, output, **asked)
    click.echo(f"{place}")
    click.echo(f"submission: {shown(output)}; `python -m routebench verify {shown(output)}` checks it")
