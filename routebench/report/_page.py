"""Writes one HTML file from a results folder; it opens offline and can be sent to anybody."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from pathlib import Path

from routebench import atomic
from routebench.analysis import Analysis, Runs, Verdict, images_in_words, wording
from routebench.analysis._data_sets import across_data
from routebench.analysis._result import Role, name_with, place_of, reads, reads_across, reads_folder
from routebench.analysis._runs import WHOLE_FOLDER
from routebench.analysis.comparison import comparison_of
from routebench.analysis.folder import Folder, open_folder
from routebench.analysis.published_numbers import are_at_own_size, counted
from routebench.data_names import few_of
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report._asking import Broken
from routebench.report._asv_pages import asv_pages
from routebench.report._block import Block, block_of, blocks_of, files_of, replace_files
from routebench.report._headline import Headline, headline_of
from routebench.report._origins import Origins, lines_of, origins_of
from routebench.report._paper_claims import ClaimCard, claims_of
from routebench.report._render import render
from routebench.report._scorecard import Scorecard, scorecard_of
from routebench.report._sources import sources_of
from routebench.report._tabs import heading_of, is_tuning, menu_of, paper_of, place_of_tab, tab_of
from routebench.report._tuned import of_all
from routebench.report._values import values_of

TUNING = "Tuning"
"""The menu of trials of settings."""
RESERVED = ("overview", "whole", "explorer", "against", "words", "answer")
"""Ids that the page reserves."""
TOLD = 3  # warnings of the folder on the first screen


@dataclass(frozen=True)
class Written:
    """A page that was written.

    Args:
        page: where.
        warnings: damaged files of the folder, then analyses that raised, one line each.
        broken: whether an analysis raised; it has a line on the page instead of a block.
    """

    page: Path
    warnings: tuple[str, ...]
    broken: bool


@dataclass(frozen=True)
class Section:
    """One part of a results folder: a page of its own.

    Args:
        id: the page's name in its address; a suite's name wherever it has one part.
        tab: its title for readers.
        runs: the part.
        question: the question of its suite.
        headline: its answer; None without one.
        blocks: results of its analyses.
        origins: how it was made.
        done: how many runs finished.
    """

    id: str
    tab: str
    runs: Runs
    question: str
    headline: Headline | None
    blocks: tuple[Block | Broken, ...]
    origins: Origins
    done: int

    @property
    def heading(self) -> str:
        """Its title on its own page."""
        return heading_of(self.runs)

    @property
    def found(self) -> dict[str, Analysis]:
        """Results of its analyses, by name."""
        return {block.name: block.found for block in self.blocks if isinstance(block, Block)}


@dataclass(frozen=True)
class Together:
    """Analyses over several data sets: a page of its own."""

    id: str
    tab: str
    runs: tuple[Runs, ...]
    blocks: tuple[Block | Broken, ...]


@dataclass(frozen=True)
class Summary:
    """The first screen.

    Args:
        title: the answer in one sentence.
        lead: what belongs to it, right below.
        said: further sentences, below the table.
        chips: the basis of the answer, in a few words each.
        caveats: limits of the answer.
        scores: methods against questions; None without a measure to compare.
        claims: those of papers, if the folder's suites repeat papers; else None.
        downloads: the scorecard as a block with its files; None without one.
        price: accuracy against cost, beside the scorecard; None without one.
    """

    title: str
    lead: tuple[str, ...]
    said: tuple[str, ...]
    chips: tuple[str, ...]
    caveats: tuple[str, ...]
    scores: Scorecard | None
    claims: ClaimCard | None
    downloads: Block | None
    price: Block | None

    @property
    def is_beside(self) -> bool:
        """Tells whether the figure of cost is one panel, which stands beside the answer on a wide screen."""
        return self.price is not None and self.price.found.table["title"].nunique() == 1


def write_report(results: Path | Folder, output: Path | None = None) -> Written:
    """Writes the page, and beside it a folder with each figure as SVG and each table as CSV.

    Beside a pipe or a device, there is no such folder.

    Args:
        results: a results folder, or its path.
        output: the page; `report.html` in the results folder if None.

    Raises:
        UserError: the folder holds no plan, or the page cannot be written.
    """
    folder = results if isinstance(results, Folder) else open_folder(results)
    page, named = output or folder.path / "report.html", output is not None
    atomic.expect_page(page, "the report", named=named)
    beside = None if atomic.is_stream(page) else page.with_name(f"{page.stem}-figures")
    if beside is not None:
        atomic.expect_place(beside, "the figures of the report", folder=True, named=False)
    return _write(folder, page, beside, named)


def _write(folder: Folder, page: Path, beside: Path | None, named: bool) -> Written:
    """Writes the page, and its figures and tables into the folder `beside`; None for none."""
    ids = _ids(folder.parts)
    sections = [_section(folder, runs, ids[runs.name]) for runs in sorted(folder.parts, key=place_of_tab)]
    groups = [_together(group) for group in _groups(folder)]
    every = _whole(folder)
    summary = _summary(sections, every, _set_aside(folder.warnings))
    whole = tuple(block for block in every if block is not summary.price)
    text = render(
        sections=sections,
        together=groups,
        whole=whole,
        summary=summary,
        tabs=_tabs(sections),
        title=_document_title(sections),
        values=values_of(folder).block,
        sources=sources_of(folder.parts),
        folder=folder.title,
        commits=_commits(sections),
        asv=asv_pages(folder.path, page),
    )
    made = [*(part.blocks for part in sections), *(part.blocks for part in groups), every, (summary.downloads,)]
    blocks = [block for blocks in made for block in blocks if isinstance(block, Block)]
    write_page = partial(atomic.write_output, page, text, "the report", named=named)
    if beside is None:
        write_page()
    else:
        try:
            replace_files(blocks, beside, earlier=files_of(page), between=write_page)
        except (OSError, atomic.StoreFull) as error:
            reason = error.strerror if isinstance(error, OSError) else error.reason
            raise UserError(f"the report cannot be written to {str(page)!r}: {reason}; choose with -o") from error
    shown = [*(part.blocks for part in sections), *(part.blocks for part in groups), whole]
    broken = dict.fromkeys(str(block) for blocks in shown for block in blocks if isinstance(block, Broken))
    return Written(page, (*folder.warnings, *broken), bool(broken))


def _commits(sections: Iterable[Section]) -> str:
    """The commit of the code that measured all runs, or how many there are: the pages of suites name each."""
    facts = (fact for section in sections for fact in section.origins.provenance if fact.name == "commit")
    known = dict.fromkeys(one for fact in facts for one in fact.value.split("; "))
    if len(known) > 1:
        return f"{len(known)} commits, which the page of each suite names"
    return "".join(f"commit {one}" for one in known)


def _section(folder: Folder, runs: Runs, part: str) -> Section:
    names = [name for name in _in_order() if reads(analyses[name], runs.protocol)]
    plan = folder.plans[runs.name]
    origins = origins_of(runs, plan, folder.records(runs), comparison_of(runs).test_samples)
    blocks = blocks_of(names, runs, runs.name, tuple(lines_of(runs, plan, origins)))
    return Section(
        id=part,
        tab=tab_of(runs),
        runs=runs,
        question=str(plan.get("question", "")),
        headline=headline_of(runs, {block.name: block.found for block in blocks if isinstance(block, Block)}),
        blocks=blocks,
        origins=origins,
        done=int((runs.planned["status"] == "ok").sum()),
    )


def _groups(folder: Folder) -> Iterable[tuple[Runs, ...]]:
    """Groups of parts that some analysis reads together."""
    for group in across_data(folder.parts):
        if any(reads_across(analyses[name], group[0].protocol) for name in analyses):
            yield group


def _together(group: tuple[Runs, ...]) -> Together:
    first = replace(group[0], data="across-data")
    names = [name for name in _in_order() if reads_across(analyses[name], first.protocol)]
    origin = (f"suite: {first.suite}, preset {first.preset}", f"data sets: {', '.join(runs.data for runs in group)}")
    part = f"{_slug(first.suite)}-{_slug(first.preset)}-{_slug(first.model)}-across-data"
    return Together(part, tab_of(first), group, blocks_of(names, group, first.name, origin))


def _whole(folder: Folder) -> tuple[Block | Broken, ...]:
    """Analyses over all suites of a folder; their files are called `whole-folder-...`."""
    names = [name for name in _in_order() if reads_folder(analyses[name])]
    parts = tuple(part for part in folder.parts if part.strength.judges)
    origin = (f"suites: {', '.join(dict.fromkeys(part.suite for part in parts))}",)
    return blocks_of(names if parts else (), parts, WHOLE_FOLDER, origin)


def _in_order() -> list[str]:
    return sorted(analyses, key=lambda name: (place_of(analyses[name]), name))


def _ids(parts: Iterable[Runs]) -> dict[str, str]:
    """The id of each part: its suite, or its full name if a stronger or newer part has that suite."""
    found: dict[str, str] = {}
    for runs in sorted(parts, key=place_of_tab):
        short = f"{_slug(runs.suite)}{'-suite' if runs.suite in RESERVED else '-tuning' if is_tuning(runs) else ''}"
        found[runs.name] = _slug(runs.name) if short in found.values() else short
    return found


def _tabs(sections: Iterable[Section]) -> list[tuple[str, list[Section]]]:
    """Tabs in order: a menu for each paper, each suite of several parts or with others, and trials, which come last."""
    sections, menus = [*sections], dict[str, list[Section]]()
    there = {section.tab for section in sections}
    for section in sections:
        beside = menu_of(section.runs.suite)
        own = TUNING if is_tuning(section.runs) else beside if beside in there else section.tab
        menus.setdefault(paper_of(section.runs.suite) or own, []).append(section)
    ordered = sorted(menus.items(), key=lambda menu: menu[0] == TUNING)
    return [(name if len(own) > 1 or paper_of(own[0].runs.suite) else "", own) for name, own in ordered]


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def _summary(sections: list[Section], whole: tuple[Block | Broken, ...], told: tuple[str, ...]) -> Summary:
    """The first screen; `told` are the first of its caveats."""
    own = [section for section in sections if not is_tuning(section.runs)] or sections
    answered = [section for section in own if section.done]
    mains = [(part.id, part.runs, found) for part in own for found in part.found.values() if found.main]
    scores, claims = scorecard_of(mains), _claims(answered, whole)
    title, lead, said = _title(answered, scores, claims)
    shown = None if scores is None or claims else scores
    downloads = None
    if shown is not None:
        table = Analysis("Methods against questions", title, shown.downloaded)
        downloads = block_of("table", "scorecard", table, ())
    blocks = {block.name: block for block in whole if isinstance(block, Block)}
    price = blocks.get(name_with(Role.PRICE)) if shown is not None and shown.compares else None
    caveats = (*told, *_caveats(answered))
    return Summary(title, lead, said, _chips(answered), caveats, shown, claims, downloads, price)


def _set_aside(warnings: Sequence[str]) -> tuple[str, ...]:
    """A sentence on what the folder warned of: whoever is sent the page alone sees no terminal."""
    more = [f"{len(warnings) - TOLD} more are not named here"] if len(warnings) > TOLD else []
    return (f"When this page was made: {'. '.join([*warnings[:TOLD], *more])}.",) if warnings else ()


def _claims(answered: list[Section], whole: tuple[Block | Broken, ...]) -> ClaimCard | None:
    """The claims, if all suites of the folder repeat papers."""
    if not all(paper_of(part.runs.suite) for part in answered):
        return None
    tables = {block.name: block.found.table for block in whole if isinstance(block, Block)}
    if (claims := name_with(Role.CLAIMS)) not in tables:
        return None
    card = claims_of(tables[claims].to_dict("records"))
    if card is None or not are_at_own_size([section.runs for section in answered]):
        return card
    printed = tables.get(name_with(Role.PUBLISHED))
    verdicts = [] if printed is None else [*printed["verdict"]]
    run = sum(verdict != Verdict.NOT_RUN for verdict in verdicts)
    told = f"Of {wording.plural(run, 'published number')} that were measured, {counted(verdicts)}."
    return replace(card, at_own_size=True, numbers=told if run else "")


def _title(
    answered: list[Section], scores: Scorecard | None, claims: ClaimCard | None
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Title, lead and further sentences of the summary; with several suites, no suite's answer is the title.

    Of a suite whose first analysis only asks, the question is.
    """
    if not answered:
        return "Nothing has been measured yet", (), ("The page of each suite says what is missing, and why.",)
    if claims is not None:
        return (claims.numbers, (claims.title,), ()) if claims.numbers else (claims.title, (), ())
    first = next((section for section in answered if section.headline), None)
    alone = len({section.runs.suite for section in answered}) == 1
    if alone and first and (first.runs.protocol in ("accuracy", "") or scores is None or not scores.compares):
        return _of_each(answered)
    if scores is not None and scores.compares:
        return scores.title, scores.said, ()
    if alone and answered[0].question:
        return answered[0].question, (), ()
    names = [section.tab for section in answered]
    return f"{wording.plural(len({*names}), 'suite')}: {wording.listed(list(dict.fromkeys(names)), 9)}", (), ()


def _of_each(answered: list[Section]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The headlines of one suite's strongest preset; each says on which network or data, where there are several."""
    every = [(one.runs, one.headline) for one in answered if one.headline is not None]
    parts = [(runs, headline) for runs, headline in every if runs.preset == every[0][0].preset]
    if len(parts) == 1:
        runs, headline = parts[0]
        lead = {
            one.data: f"{_capital(images_in_words(one.data, [runs.data]))}: {found.title}"
            for one, found in reversed(every)  # the strongest preset of each number stays
            if one.data != runs.data and few_of(one.data)[1] == runs.data and one.model == runs.model
        }
        return headline.title, tuple(reversed(lead.values())), headline.said
    models, data = ({getattr(runs, key) for runs, _ in parts} for key in ("model", "data"))
    where = [
        "On " + ", ".join([*([runs.model] if len(models) > 1 else []), *([runs.data] if len(data) > 1 else [])])
        for runs, _ in parts
    ]
    first, *others = (f"{of}: {headline.title}" for of, (_, headline) in zip(where, parts, strict=True))
    said = [f"{of}: {' '.join(headline.said)}" for of, (_, headline) in zip(where, parts, strict=True) if headline.said]
    return first, tuple(others), tuple(said)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _chips(answered: list[Section]) -> tuple[str, ...]:
    """Seeds, data, epochs, and how many runs finished."""
    if not answered:
        return ()
    seeds = [section.runs.planned["seed"].nunique() for section in answered]
    found = [_range(seeds, "seed"), ", ".join(dict.fromkeys(few_of(section.runs.data)[1] for section in answered))]
    accuracies = [section.runs for section in answered if section.runs.protocol == "accuracy"]
    if len(accuracies) == 1 and accuracies[0].strength.judges:
        smallest = comparison_of(accuracies[0]).detectable
        found += (
            []
            if isnan(smallest)
            else [f"gains in accuracy below {wording.rounded(smallest, smallest)} points would usually be missed"]
        )
    epochs = [fact.value for section in answered for fact in section.origins.recipe if fact.name == "epochs"]
    found += [_range([int(one) for value in epochs for one in value.split("; ")], "epoch")] if epochs else []
    planned = sum(len(section.runs.planned) for section in answered)
    done = sum(section.done for section in answered)
    presets = ", ".join(dict.fromkeys(section.runs.preset for section in answered))
    return (*found, f"{presets} preset", f"{done:,} of {wording.plural(planned, 'run')} finished")


def _range(numbers: list[int], noun: str) -> str:
    low, high = min(numbers), max(numbers)
    return wording.plural(low, noun) if low == high else f"{low} to {wording.plural(high, noun)}"


def _caveats(answered: list[Section]) -> tuple[str, ...]:
    """Caveats of all suites, each once, together for parts that share them; pages name the settings that differ."""
    having: dict[str, list[Section]] = {}
    for part in answered:
        for caveat in dict.fromkeys((*(part.headline.caveats if part.headline else ()), *part.origins.told)):
            having.setdefault(caveat, []).append(part)
    together: dict[str, list[str]] = {}
    for caveat, own in having.items():
        together.setdefault(_where(own, answered), []).append(caveat)
    told = [" ".join(filter(None, (f"{where}:" if where else "", *caveats))) for where, caveats in together.items()]
    tuned: dict[tuple[str, ...], list[Section]] = {}
    for part in answered:
        if part.origins.tuned:
            tuned.setdefault(part.origins.tuned.budgets, []).append(part)
    if tuned:
        found = [part.origins.tuned for own in tuned.values() for part in own if part.origins.tuned]
        told.append(of_all(found, {budgets: _where(own, answered) for budgets, own in tuned.items()}))
    differing = dict.fromkeys(name for part in answered for name in part.origins.settings.names)
    if differing:
        told.append(
            f"Methods differ in more than routing: {wording.listed([*differing], 9)}. The page of a suite says how."
        )
    return tuple(told)


def _where(own: Sequence[Section], answered: Sequence[Section]) -> str:
    """`Accuracy and Attacks`: the suites of some parts; `Accuracy (mnist)` where others of a suite are not among them.

    Empty where all parts are.
    """
    if len(own) == len(answered):
        return ""
    told = []
    for tab in dict.fromkeys(part.tab for part in own):
        every = [part.runs for part in answered if part.tab == tab]
        some = [part.runs for part in own if part.tab == tab]
        of = next((key for key in ("data", "model") if len({getattr(one, key) for one in every}) > 1), "preset")
        sets = [one.data for one in every]
        names = [images_in_words(one.data, sets) if of == "data" else str(getattr(one, of)) for one in some]
        told.append(tab if len(some) == len(every) else f"{tab} ({wording.listed([*dict.fromkeys(names)], 9)})")
    return wording.listed(told, 9)


def _document_title(sections: list[Section]) -> str:
    """Short, because browsers cut it."""
    own = [section for section in sections if not is_tuning(section.runs)] or sections
    suites = list(dict.fromkeys(section.tab for section in own))
    return f"{suites[0] if len(suites) == 1 else wording.plural(len(suites), 'suite')} · routebench"
