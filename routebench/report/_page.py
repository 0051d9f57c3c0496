"""One HTML file from a results folder, that opens offline and can be sent to anybody."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from routebench import atomic
from routebench.analysis import wording
from routebench.analysis._result import place_of, reads, reads_across, reads_folder
from routebench.analysis._runs import WHOLE_FOLDER, Runs, across_data
from routebench.analysis.comparison import compare
from routebench.analysis.folder import Folder, open_folder
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report._asking import Broken
from routebench.report._asv_pages import asv_pages
from routebench.report._block import Block, block_of, blocks_of, write
from routebench.report._headline import PRESETS, Headline, headline_of
from routebench.report._origins import Origins, lines_of, origins_of
from routebench.report._overview import overview_of, weight_of
from routebench.report._render import render
from routebench.report._values import values_of


@dataclass(frozen=True)
class Written:
    """A page that was written.

    Args:
        page: where.
        warnings: what of the folder was damaged, then the analyses that raised, one line each.
        broken: whether an analysis raised; it has a line on the page instead of a block.
    """

    page: Path
    warnings: tuple[str, ...]
    broken: bool


@dataclass(frozen=True)
class Section:
    """One part of a results folder: a page of its own.

    Args:
        id: of the page, in its address.
        runs: the part.
        question: that its suite asks.
        headline: its answer; None without one.
        blocks: what its analyses found.
        origins: how it was made.
        done: how many runs finished.
    """

    id: str
    runs: Runs
    question: str
    headline: Headline | None
    blocks: tuple[Block | Broken, ...]
    origins: Origins
    done: int


@dataclass(frozen=True)
class Together:
    """What several data sets say together: a page of its own."""

    id: str
    runs: tuple[Runs, ...]
    blocks: tuple[Block | Broken, ...]


def write_report(results: Path, output: Path | None = None) -> Written:
    """Writes the page, and beside it a folder with each figure as SVG and each table as CSV.

    Args:
        results: a results folder.
        output: the page; `report.html` in the results folder if None.

    Raises:
        UserError: the folder holds no plan, or the page cannot be written.
    """
    folder, page = open_folder(results), output or results / "report.html"
    beside = page.with_name(f"{page.stem}-figures")
    try:
        sections = [_section(folder, runs, f"part-{place}", beside) for place, runs in enumerate(folder.parts, 1)]
        groups = [_together(group, f"together-{place}", beside) for place, group in enumerate(_groups(folder), 1)]
        whole = _whole(folder, beside)
        overview = _overview(sections, beside)
    except OSError as error:
        raise UserError(f"the report cannot be written to {str(page)!r}: {error.strerror}; choose with -o") from error
    text = render(
        sections=sections,
        together=groups,
        whole=whole,
        overview=overview,
        main=_main(sections),
        several=_several(sections),
        values=values_of(folder).block,
        folder=str(folder.path),
        asv=asv_pages(results, page),
    )
    atomic.write_output(page, text, "the report")
    shown = [*(part.blocks for part in sections), *(part.blocks for part in groups), whole]
    broken = dict.fromkeys(str(block) for blocks in shown for block in blocks if isinstance(block, Broken))
    return Written(page, (*folder.warnings, *broken), bool(broken))


def _section(folder: Folder, runs: Runs, part: str, beside: Path) -> Section:
    names = [name for name in _in_order() if reads(analyses[name], runs.protocol)]
    plan = folder.plans[runs.name]
    origins = origins_of(runs, plan, folder.records(runs), compare(runs).test_samples)
    blocks = blocks_of(names, runs, runs.name, beside, tuple(lines_of(runs, plan, origins)))
    return Section(
        id=part,
        runs=runs,
        question=str(plan.get("question", "")),
        headline=headline_of(runs, {block.name: block.found for block in blocks if isinstance(block, Block)}),
        blocks=blocks,
        origins=origins,
        done=int((runs.planned["status"] == "ok").sum()),
    )


def _groups(folder: Folder) -> Iterable[tuple[Runs, ...]]:
    """Those with an analysis that reads them together."""
    for group in across_data(folder.parts):
        if any(reads_across(analyses[name], group[0].protocol) for name in analyses):
            yield group


def _together(group: tuple[Runs, ...], part: str, beside: Path) -> Together:
    first = replace(group[0], data="across-data")
    names = [name for name in _in_order() if reads_across(analyses[name], first.protocol)]
    origin = (f"suite: {first.suite}, preset {first.preset}", f"data sets: {', '.join(runs.data for runs in group)}")
    return Together(part, group, blocks_of(names, group, first.name, beside, origin))


def _whole(folder: Folder, beside: Path) -> tuple[Block | Broken, ...]:
    """What all suites of a folder say together; its files are called `whole-folder-...`."""
    names = [name for name in _in_order() if reads_folder(analyses[name])]
    origin = (f"suites: {', '.join(dict.fromkeys(part.suite for part in folder.parts))}",)
    return blocks_of(names, folder.parts, WHOLE_FOLDER, beside, origin)


def _in_order() -> list[str]:
    return sorted(analyses, key=lambda name: (place_of(analyses[name]), name))


def _overview(sections: Iterable[Section], beside: Path) -> Block | None:
    """What first analyses name as their main measure, side by side."""
    found = [
        (section.runs, block.found)
        for section in sections
        for block in section.blocks
        if isinstance(block, Block) and block.found.main is not None
    ]
    analysis = overview_of(found)
    if analysis is None:
        return None
    origin = tuple(
        f"{column.title}: {column.explained}" for column in analysis.columns[1:] if column.explained
    )  # fmt: skip
    block = block_of("table", "overview", analysis, origin)
    write(block, beside)
    return block


def _answered(sections: list[Section]) -> list[Section]:
    return [section for section in sections if section.headline is not None and section.done]


def _main(sections: list[Section]) -> Section | None:
    """Whose headline opens the page: that of the suite `accuracy`, or of the only suite, of the strongest preset."""
    ranked = sorted(_answered(sections), key=_weight)
    only = len({section.runs.suite for section in ranked}) == 1
    return ranked[0] if ranked and (only or ranked[0].runs.suite == "accuracy") else None


def _several(sections: list[Section]) -> Headline | None:
    """What opens the page where no part speaks for the others: the names of their suites."""
    answered = _answered(sections)
    if not answered or _main(sections) is not None:
        return None
    suites = sorted({section.runs.suite for section in answered})
    presets = dict.fromkeys(section.runs.preset for section in answered)
    caveats = tuple(PRESETS[preset] for preset in presets if preset in PRESETS)
    title = f"{wording.plural(len(suites), 'suite')}: {wording.listed(suites, len(suites))}."
    return Headline(title, (), (), caveats, ())


def _weight(section: Section) -> tuple[bool, bool, int]:
    runs = section.runs
    return runs.protocol != "accuracy", runs.suite != runs.protocol, -weight_of(runs.preset)
