"""`routebench merge`: results folders and packs, made by several people or machines, in one new folder."""

import sys
from pathlib import Path

import click

from routebench.commands import options
from routebench.quantities import plural
from routebench.terminal import answer, tell


@click.command()
@click.argument("folders", nargs=-1, type=options.PATH, metavar="DIR DIR [DIR ...]")
@options.new_folder("nothing")
def command(folders: tuple[Path, ...], output: Path) -> None:
    """Merge results folders or packs into a new folder, as if one person had made all runs in it.

    Equal keys with equal numbers become one; different numbers stop it before anything is written. Times, speeds and
    memory may differ. A result counts before a failure, but not before a divergence, which
    is the method's own. `publish` makes a pack of the new folder.
    """
    from routebench.engine.merge import merge, opened, warnings_of
    from routebench.errors import shown

    stores = opened(folders)
    try:
        found = merge(stores, output)
    finally:  # warn of damage also where the merge ends in an error
        for warning in warnings_of(stores):
            click.echo(f"warning: {warning}", err=True)
    for warning in found.warnings[: len(found.warnings) - len(warnings_of(stores))]:
        click.echo(f"warning: {warning}", err=True)
    if count := len(found.replaced):
        tell(f"failed in one folder, with a result in another, which counts ({count:,}):")
        for told in found.replaced:
            tell(f"  {told}")
    if count := len(found.contradicted):
        tell(f"diverged in one folder, with a result in another; these count as diverged ({count:,}):")
        for told in found.contradicted:
            tell(f"  {told}")
    if found.superseded:
        tell("do not count beside newer ones of another folder:")
        for told in found.superseded:
            tell(f"  {told}")
    nets = f" and {found.fits:,} trained networks" if found.fits else ""
    both = f", {found.shared:,} of them in several with equal numbers" if found.shared else ""
    tell(f"merged: {plural(found.runs, 'run')} of {plural(len(folders), 'folder')}{both}{nets}, in {shown(output)}")
    answer(lambda: vars(found))
    if found.warnings or found.contradicted:
        sys.exit(options.SOME_FAILED)
