"""`routebench report`: one page from a results folder."""

import sys
from pathlib import Path

import click

from routebench.commands import options
from routebench.errors import shown
from routebench.options import ReportOptions
from routebench.terminal import answer, tell


@click.command()
@options.folder
@options.of(ReportOptions)
def command(folder: Path, output: Path | None, beside: Path | None, plugins: tuple[str, ...]) -> None:
    """Write the report of a results folder. It is one HTML page, which opens offline.

    If an analysis raises an error, the page shows the error in its place. The exit code is then 3.
    """
    from routebench.interface import write_page

    written = write_page(folder, output, plugins, beside)
    for warning in written.warnings:
        click.echo(f"warning: {warning}", err=True)
    tell(f"report: {shown(written.page)}")
    answer(lambda: vars(written))
    if written.broken:
        sys.exit(options.SOME_FAILED)
