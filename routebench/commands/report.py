"""`routebench report`: one page from a results folder."""

from pathlib import Path

import click

from routebench.commands import options


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
    """Write one HTML page, which opens offline, from a results folder."""
    from routebench.registry import load_plugin
    from routebench.report import write_report

    for plugin in plugins:
        load_plugin(plugin)
    click.echo(f"report: {write_report(folder, output)}")
