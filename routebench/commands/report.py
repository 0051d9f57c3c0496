"""`routebench report`: one page from a results folder."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from routebench.commands import options

if TYPE_CHECKING:
    from routebench.report.page import Written


@click.command()
@options.folder
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Where to write the page [default: DIR/report.html].",
)
@options.plugins
def command(folder: Path, output: Path | None, plugins: tuple[str, ...]) -> None:
    """Write one HTML page, which opens offline, from a results folder.

    An analysis that raises has its error in its place on the page, which is whole otherwise; the exit code is 3 then.
    """
    written = write(folder, output, plugins)
    for warning in written.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"report: {written.page}")
    if written.broken:
        sys.exit(options.SOME_FAILED)


def write(folder: Path, output: Path | None, plugins: tuple[str, ...]) -> "Written":
    """Writes the page. Analyses of plug-ins draw in a process of their own, which they may end.

    Raises:
        UserError: the page cannot be written, or that process ended.
    """
    written: Written = options.with_plugins(plugins, _written, folder, output, plugins)
    return written


def _written(folder: Path, output: Path | None, plugins: tuple[str, ...]) -> "Written":
    from routebench.registry import load_plugin
    from routebench.report import write_report

    for plugin in plugins:
        load_plugin(plugin)
    return write_report(folder, output)
