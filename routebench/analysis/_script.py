"""Runs one analysis from the command line: `python analyses/accuracy_by_iterations.py RESULTS`."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from routebench.analysis._data_sets import across_data
from routebench.analysis._result import Analysis, name_of, reads_folder, takes_several
from routebench.analysis._runs import WHOLE_FOLDER, Runs
from routebench.analysis.figures import save_svg, to_svg
from routebench.errors import UserError


def run(analysis: Callable[[Any], Analysis | None]) -> None:
    """Prints the table of an analysis for every part of a results folder, and writes its figures.

    Args:
        analysis: the function, of one part or of a tuple of parts.

    Raises:
        SystemExit: there is no such folder (2), or it holds nothing for this analysis (4).
    """
    from routebench.analysis.folder import open_folder  # only here: an analysis itself needs no results folder

    name = name_of(analysis)
    parser = argparse.ArgumentParser(description=f"The analysis {name!r} of a results folder.")
    parser.add_argument("results", type=Path, help="folder that `python -m routebench suite` filled")
    parser.add_argument("--figures", type=Path, help="folder for the SVG files; default: RESULTS/report-figures")
    options = parser.parse_args()
    try:
        folder = open_folder(options.results)
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(error.exit_code) from None
    figures = options.figures or options.results / "report-figures"
    shown = [
        _show(analysis(given), of, figures / f"{stem}-{name}.svg") for of, stem, given in _asked(analysis, folder.parts)
    ]
    for warning in folder.warnings:
        click.echo(f"warning: {warning}", err=True)
    if not any(shown):
        click.echo(f"error: {options.results} holds nothing for {name!r}", err=True)
        raise SystemExit(4)


def _asked(analysis: Callable[..., Any], parts: tuple[Runs, ...]) -> Iterator[tuple[str, str, Any]]:
    """The inputs of the analysis: in words, in file names, and as arguments."""
    if reads_folder(analysis):
        yield "the whole folder", WHOLE_FOLDER, parts
        return
    asked: list[tuple[Runs, Any]] = [(part, part) for part in parts]
    if takes_several(analysis):
        asked = [(replace(group[0], data="across-data"), group) for group in across_data(parts)]
    for runs, given in asked:
        yield f"{runs.suite}, {runs.preset}, {runs.data}, {runs.model}", runs.name, given


def _show(found: Analysis | None, of: str, figure: Path) -> bool:
    if found is None:
        return False
    click.echo(f"{of}: {found.title}\n{found.reading}\n")
    click.echo(found.shown().to_string(index=False))
    for note in found.notes:
        click.echo(f"  {note}")
    if found.figure is not None:
        click.echo(f"figure: {save_svg(to_svg(found.figure), figure)}")
    click.echo()
    return True
