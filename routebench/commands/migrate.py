"""`routebench migrate`: results of an earlier schema, taken over into a new folder."""

from pathlib import Path

import click

from routebench.commands import options
from routebench.quantities import plural
from routebench.terminal import answer, tell


@click.command()
@options.folder
@options.new_folder("nothing")
def command(folder: Path, output: Path) -> None:
    """Take results over that an earlier routebench wrote, so that they count as the same and can be added to.

    DIR, a results folder or a pack, stays as it is, and each new record holds the earlier one word for word. A result
    whose code is not known is kept as a result of that code.
    """
    from routebench.engine.migrate import migrate
    from routebench.errors import shown

    found = migrate(folder, output)
    for told in found.left_out:
        click.echo(f"warning: left out: {told}", err=True)
    for reason, count in found.unknown.items():
        tell(f"{plural(count, 'run')} kept as of the code that made them: {reason}")
    for part, count in sorted(found.older.items()):
        tell(f"{plural(count, 'run')} of an older version of a part, {part}: `suite` measures them anew")
    for old, new in found.digests.items():
        tell(f"settings chosen from trials {old} are of trials {new} now")
    known = len(found.cells) - found.unknown.total()
    nets = f", with {found.fits:,} trained networks" if found.fits else ""
    tell(f"migrated: {known:,} of {plural(len(found.cells), 'run')}{nets} in {shown(output)}")
    answer(lambda: {"folder": output, **vars(found)})
