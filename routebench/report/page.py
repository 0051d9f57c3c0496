"""One HTML file from a results folder, that opens offline and can be sent to anybody."""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pandas import DataFrame

from routebench import atomic
from routebench.analysis.comparison import compare
from routebench.analysis.figures import inline_svg, save_svg, to_svg, variable
from routebench.analysis.folder import Folder, open_folder
from routebench.analysis.palette import ON_DARK
from routebench.analysis.result import (
    Analysis,
    Column,
    Runs,
    across_data,
    place_of,
    plain_columns,
    reads,
    reads_across,
)
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report.glossary import GLOSSARY
from routebench.report.headline import Headline, first_analysis, headline_of
from routebench.report.origins import Origins, origins_of

PRESETS = ("smoke", "quick", "full")  # from the least to the most that an answer can rest on


@dataclass(frozen=True)
class Block:
    """An analysis as the page shows it: `rows` are (text, sort key) per column, `marks` a class per row."""

    name: str
    found: Analysis
    columns: tuple[Column, ...]
    rows: list[list[tuple[str, str]]]
    marks: list[str]
    svg: Markup | None
    csv: str
    csv_name: str


@dataclass(frozen=True)
class Section:
    """One part of a results folder on the page."""

    runs: Runs
    question: str
    headline: Headline | None
    blocks: tuple[Block, ...]
    origins: Origins
    done: int


@dataclass(frozen=True)
class Together:
    """What several data sets say together, on the page."""

    runs: tuple[Runs, ...]
    blocks: tuple[Block, ...]


def write_report(results: Path, output: Path | None = None) -> Path:
    """Writes the page, and beside it a folder with each figure as SVG and each table as CSV.

    Args:
        results: a results folder.
        output: the page; `report.html` in the results folder if None.

    Returns:
        the path of the page.

    Raises:
        UserError: the folder holds no plan, or the page cannot be written.
    """
    return write_page(open_folder(results), output or results / "report.html")


def write_page(folder: Folder, page: Path) -> Path:
    """Writes the page of an opened folder; see `write_report`."""
    beside = page.with_name(f"{page.stem}-figures")
    try:
        sections = [_section(folder, runs, beside) for runs in folder.parts]
        together = [_together(group, beside) for group in across_data(folder.parts)]
    except OSError as error:
        raise UserError(f"the report cannot be written to {str(page)!r}: {error.strerror}; choose with -o") from error
    text = _render(sections, [part for part in together if part.blocks], folder)
    atomic.write_output(page, text, "the report")
    return page


def comparison_table(results: Path, suite: str | None = None, preset: str | None = None) -> DataFrame:
    """The protocol's first table as text, for a terminal; of the newest plan that fits.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    runs = _newest(results, suite, preset)
    found = (first_analysis(runs.protocol) or analyses["accuracy-table"])(runs)
    return DataFrame() if found is None else found.shown(extra=False)


def headline(results: Path, suite: str | None = None, preset: str | None = None) -> str:
    """The answer in a few lines, for a terminal; of the newest plan that fits. Empty where there is none.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    found = headline_of(_newest(results, suite, preset))
    return "" if found is None else str(found)


def _newest(results: Path, suite: str | None, preset: str | None) -> Runs:
    for runs in open_folder(results).parts:
        if suite in (None, runs.suite) and preset in (None, runs.preset):
            return runs
    raise UserError(f"nothing of suite {suite!r} with preset {preset!r} was planned in {str(results)!r}")


def _section(folder: Folder, runs: Runs, beside: Path) -> Section:
    names = sorted(analyses, key=lambda name: (place_of(analyses[name]), name))
    found = ((name, analyses[name](runs)) for name in names if reads(analyses[name], runs.protocol))
    plan = folder.plans[runs.name]
    return Section(
        runs=runs,
        question=str(plan.get("question", "")),
        headline=headline_of(runs),
        blocks=tuple(_block(runs.name, name, analysis, beside) for name, analysis in found if analysis is not None),
        origins=origins_of(runs, plan, folder.records(runs), compare(runs).test_samples),
        done=int((runs.planned["status"] == "ok").sum()),
    )


def _together(group: tuple[Runs, ...], beside: Path) -> Together:
    stem = replace(group[0], data="across-data").name
    names = sorted(analyses, key=lambda name: (place_of(analyses[name]), name))
    found = ((name, analyses[name](group)) for name in names if reads_across(analyses[name], group[0].protocol))
    return Together(
        group, tuple(_block(stem, name, analysis, beside) for name, analysis in found if analysis is not None)
    )


def _block(part: str, name: str, found: Analysis, beside: Path) -> Block:
    stem = f"{part}-{name}"
    text = found.table.to_csv(index=False)
    beside.mkdir(parents=True, exist_ok=True)
    (beside / f"{stem}.csv").write_text(text, encoding="utf-8")
    svg = None
    if found.figure is not None:
        drawn = to_svg(found.figure)
        save_svg(drawn, beside / f"{stem}.svg")
        svg = inline_svg(drawn, stem, found.alternative or found.reading)
    columns = found.columns or plain_columns(found.table)
    rows = [
        [(column.text(row), _sort_key(row[column.key])) for column in columns]
        for row in found.table.to_dict("records")
    ]  # fmt: skip
    marks = ["control" if role == "control" else "" for role in found.table.get("role", [""] * len(rows))]
    return Block(name, found, columns, rows, marks, svg, base64.b64encode(text.encode()).decode(), f"{stem}.csv")


def _sort_key(value: Any) -> str:
    """What a browser sorts by: the unrounded number, the text, or nothing for what is missing."""
    return "" if pd.isna(value) else str(value)


def _render(sections: list[Section], together: list[Together], folder: Folder) -> str:
    environment = Environment(
        loader=PackageLoader("routebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script, style = (environment.loader.get_source(environment, name)[0] for name in ("page.js", "page.css"))  # type: ignore[union-attr]  # the loader is ours
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("page.html")
    return page.render(
        sections=sections,
        together=together,
        main=_main(sections),
        folder=str(folder.path),
        glossary=GLOSSARY,
        version=_version(),
        light=[(variable(colour), colour) for colour in ON_DARK],
        dark=[(variable(colour), ON_DARK[colour]) for colour in ON_DARK],
        style=Markup(style),  # noqa: S704  # package data
        script=Markup(script),  # noqa: S704  # package data; its hash is all that the page's policy lets run
        digest=digest,
    )


def _version() -> str:
    try:
        return version("routebench")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return ""


def _main(sections: Iterable[Section]) -> Section | None:
    """The section whose headline opens the page: the preset that an answer can rest on most, then the newest."""
    answered = [section for section in sections if section.headline is not None and section.done]
    ranked = sorted(answered, key=lambda section: -_weight(section.runs.preset))
    return ranked[0] if ranked else None


def _weight(preset: str) -> int:
    return PRESETS.index(preset) if preset in PRESETS else len(PRESETS)
