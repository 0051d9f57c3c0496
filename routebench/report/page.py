"""One HTML file from a results folder, that opens offline and can be sent to anybody."""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pandas import DataFrame

from routebench import atomic
from routebench.analysis.comparison import compare
from routebench.analysis.figures import variable
from routebench.analysis.folder import Folder, open_folder
from routebench.analysis.palette import ON_DARK
from routebench.analysis.result import WHOLE_FOLDER, Runs, across_data, place_of, reads, reads_across, reads_folder
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report.asking import Broken, guarded
from routebench.report.block import Block, blocks_of
from routebench.report.glossary import GLOSSARY
from routebench.report.headline import Headline, first_analysis, headline_of
from routebench.report.origins import Origins, origins_of

PRESETS = ("smoke", "quick", "full")  # from the least to the most that an answer can rest on


@dataclass(frozen=True)
class Written:
    """A page that was written.

    Args:
        page: where.
        warnings: what of the folder was damaged.
        broken: the analyses that raised, each of which has a line on the page instead of a block.
    """

    page: Path
    warnings: tuple[str, ...]
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """One part of a results folder on the page."""

    runs: Runs
    question: str
    headline: Headline | None
    blocks: tuple[Block | Broken, ...]
    origins: Origins
    done: int


@dataclass(frozen=True)
class Together:
    """What several data sets say together, on the page."""

    runs: tuple[Runs, ...]
    blocks: tuple[Block | Broken, ...]


def write_report(results: Path, output: Path | None = None) -> Path:
    """Writes the page, and beside it a folder with each figure as SVG and each table as CSV.

    What was found damaged, and which analyses raised, is told on the standard error output.

    Args:
        results: a results folder.
        output: the page; `report.html` in the results folder if None.

    Returns:
        the path of the page.

    Raises:
        UserError: the folder holds no plan, or the page cannot be written.
    """
    written = write_page(open_folder(results), output or results / "report.html")
    for warning in (*written.warnings, *written.broken):
        click.echo(f"warning: {warning}", err=True)
    return written.page


def write_page(folder: Folder, page: Path) -> Written:
    """Writes the page of an opened folder; see `write_report`."""
    beside = page.with_name(f"{page.stem}-figures")
    try:
        sections = [_section(folder, runs, beside) for runs in folder.parts]
        together = [_together(group, beside) for group in across_data(folder.parts)]
    except OSError as error:
        raise UserError(f"the report cannot be written to {str(page)!r}: {error.strerror}; choose with -o") from error
    text = _render(sections, [part for part in together if part.blocks], folder)
    atomic.write_output(page, text, "the report")
    shown = [*(part.blocks for part in sections), *(part.blocks for part in together)]
    broken = dict.fromkeys(str(block) for blocks in shown for block in blocks if isinstance(block, Broken))
    return Written(page, tuple(folder.warnings), tuple(broken))


def comparison_table(results: Path, suite: str | None = None, preset: str | None = None) -> DataFrame:
    """The protocol's first table as text, for a terminal; of the newest plan that fits. Empty if its analysis raises.

    Raises:
        UserError: nothing of that suite and preset was planned in the folder.
    """
    runs = _newest(results, suite, preset)
    analysis = first_analysis(runs.protocol) or analyses["accuracy-table"]

    def shown() -> DataFrame | None:
        found = analysis(runs)
        return None if found is None else found.shown(extra=False)

    table = guarded("", shown, analysis)
    return table if isinstance(table, DataFrame) else DataFrame()


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
    names = [name for name in _in_order() if reads(analyses[name], runs.protocol)]
    plan = folder.plans[runs.name]
    return Section(
        runs=runs,
        question=str(plan.get("question", "")),
        headline=headline_of(runs),
        blocks=blocks_of(names, runs, runs.name, beside),
        origins=origins_of(runs, plan, folder.records(runs), compare(runs).test_samples),
        done=int((runs.planned["status"] == "ok").sum()),
    )


def _together(group: tuple[Runs, ...], beside: Path) -> Together:
    stem = replace(group[0], data="across-data").name
    names = [name for name in _in_order() if reads_across(analyses[name], group[0].protocol)]
    return Together(group, blocks_of(names, group, stem, beside))


def folder_blocks(folder: Folder, beside: Path) -> tuple[Block | Broken, ...]:
    """What all suites of a folder say together; its files are called `whole-folder-...`."""
    names = [name for name in _in_order() if reads_folder(analyses[name])]
    return blocks_of(names, folder.parts, WHOLE_FOLDER, beside)


def _in_order() -> list[str]:
    return sorted(analyses, key=lambda name: (place_of(analyses[name]), name))


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
