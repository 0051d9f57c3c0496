"""`routebench export`: results for other programs and for papers."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from routebench.commands import options
from routebench.errors import UserError, shown
from routebench.options import SuiteOptions
from routebench.quantities import plural
from routebench.terminal import answer, tell, voice

if TYPE_CHECKING:
    from routebench.analysis.folder import Folder
    from routebench.export import Choice


@click.command()
@options.folder
@click.option(
    "--format",
    "format_",
    metavar="csv|parquet|json|markdown|latex",
    help="Rows as csv, parquet or json; the comparison table as markdown or latex [default: by the ending of FILE].",
)
@click.option(
    "-o",
    "--output",
    type=options.FILE,
    metavar="FILE",
    help="File to write [default: standard output; parquet needs a file].",
)
@click.option("--suite", metavar="NAME", shell_complete=options.known("suites"), help="Only this suite.")
@click.option("--preset", metavar="NAME", shell_complete=options.known("presets"), help="Only this preset.")
@click.option("--metric", metavar="NAME", help="Only rows of this metric, and runs without a result; rows alone.")
@click.option(
    "--to",
    type=click.Choice(["tensorboard", "mlflow", "wandb", "trackio"]),
    help="Write runs for an experiment tracker into a new folder, which -o names, in place of a table.",
)
@options.of(SuiteOptions, only="beside")
def command(  # noqa: PLR0917  # click passes them by name
    folder: Path,
    format_: str | None,
    output: Path | None,
    suite: str | None,
    preset: str | None,
    metric: str | None,
    to: str | None,
    beside: Path | None,
) -> None:
    """Write results as csv, parquet, JSON, Markdown or LaTeX. Each file says where its numbers come from.

    LaTeX tables need the package booktabs. Bold is what may be the best: no method is significantly better.
    """
    from routebench import atomic, export
    from routebench.analysis.folder import open_folder
    from routebench.engine.origin import command_line

    opened = open_folder(folder, beside)
    if to is not None:
        _write_runs(opened, export.Choice(suite, preset, metric), to, format_, output)
        return
    is_json = voice().json and output is None
    if is_json and format_ not in (None, "json"):
        raise UserError(f"expected --json or --format {format_}, got both; leave one out, or name a file with -o")
    chosen = "json" if is_json else export.format_named(format_, output)
    if chosen == "parquet" and output is None:
        raise UserError("parquet cannot be printed; name a file with -o FILE.parquet")
    with options.warning_of(opened.store):
        content = export.export(opened, export.Choice(suite, preset, metric), chosen, command_line())
    if not content:
        click.echo("nothing was measured yet", err=True)
        answer(lambda: {"rows": []})
        sys.exit(options.NOTHING_MEASURED)
    if output is None:
        click.echo(content, nl=False, file=voice().out)
        return
    atomic.write_output(output, content, "the export")
    tell(f"export: {shown(output)}")
    answer(lambda: {"file": output, "format": chosen})


def _write_runs(opened: "Folder", choice: "Choice", to: str, format_: str | None, output: Path | None) -> None:
    """Writes runs for a tracker.

    Raises:
        UserError: no folder is named, or a format beside it, or the folder cannot be written.
    """
    from routebench.export import SHOWN_BY, write_runs

    if output is None or format_ is not None:
        came = "none" if output is None else f"--format {format_} too"
        raise UserError(f"--to {to}: expected a new folder, got {came}; name it with -o FOLDER, without --format")
    with options.warning_of(opened.store):
        runs = write_runs(opened, choice, to, output)
    if not runs:
        click.echo("nothing was measured yet", err=True)
        answer(lambda: {"folder": None, "runs": 0})
        sys.exit(options.NOTHING_MEASURED)
    tell(f"export: {plural(runs, 'run')} in {shown(output)}; next: `{SHOWN_BY[to].format(shlex.quote(shown(output)))}`")
    answer(lambda: {"folder": output, "runs": runs})
