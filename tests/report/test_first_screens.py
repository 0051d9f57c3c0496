"""No published page contradicts itself: its first lines, its titles and its tables say the same of the same pair."""

import re
from collections.abc import Sequence
from functools import cache
from html import unescape
from pathlib import Path

import pytest

from routebench.analysis import Runs, wording
from routebench.analysis.folder import open_folder
from routebench.data_names import few_of
from routebench.report._decisions import Decisions
from routebench.report._headline import Headline, headline_of
from routebench.report._tabs import is_tuning, paper_of

REPORTS = Path(__file__).parents[2] / "reports"
PAGES = sorted(REPORTS.glob("*/report.html"))
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
BARE = re.compile(r"(?<![\w.])\d+(?:\.\d+)? %")
RIVALS = r"(?:highest|best|most|least|leads?)\b"


@cache
def parts_of(page: Path) -> Sequence[Runs]:
    """The parts of a published folder, which these tests only read."""
    return open_folder(page.parent).parts


@cache
def headlines_of(page: Path) -> list[Headline | None]:
    """The headline of each part of a published folder that judges."""
    return [None if is_tuning(runs) or not runs.strength.judges else headline_of(runs) for runs in parts_of(page)]


def plain(markup: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", markup))).strip()


def first_lines(page: Path) -> list[str]:
    """The title of a page, its lead, and the title of each of its parts."""
    text = page.read_text()
    found = re.findall(r'<h1[^>]*>(.*?)</h1>|<p class="lead">(.*?)</p>', text, re.DOTALL)
    answers = re.findall(r'<section class="answer">(.*?)</section>', text, re.DOTALL)
    titles = [
        match[1] for answer in answers if (match := re.match(r"\s*<(?:h3|p)[^>]*>(.*?)</(?:h3|p)>", answer, re.DOTALL))
    ]
    return [plain(one) for one in (*("".join(pair) for pair in found), *titles)]


@EACH
def test_titles_lead_with_decisions(page):
    """No title names who is highest without a test, nor 'best:' in brackets, nor a measured value alone."""
    for line in first_lines(page):
        assert not re.search(rf"\b{RIVALS}", line) or "trial" in line, line
        assert "too uncertain" not in line and "(best" not in line, line
        assert not BARE.search(line), line


@EACH
def test_a_pair_has_one_verdict_in_all_sentences_of_a_part(page):
    for runs, headline in zip(parts_of(page), headlines_of(page), strict=True):
        if runs.protocol not in ("accuracy", "") or headline is None:
            continue
        told = str(headline)
        found = Decisions.of(runs)
        for gain in found.gains:
            own = [one for one in re.split(r"(?<=[.;]) ", told) if str(gain.method) in one and "uniform routing" in one]
            says = {("not" in one or "cannot" in one) for one in own if "above" in one or "differ" in one}
            assert len(says) < 2, (page.parent.name, str(gain.method), own)
        assert "not measured" not in told or found.plans_baseline


@EACH
def test_gains_in_titles_are_on_the_network_of_uniform_routing(page):
    for runs, headline in zip(parts_of(page), headlines_of(page), strict=True):
        homes = {method.model for method in runs.methods.values() if method.is_base}
        if headline is None or not homes:
            continue
        elsewhere = {str(one) for one in runs.methods.values() if one.model not in homes and not one.is_control}
        shared = {str(one) for one in runs.methods.values() if one.model in homes}
        title = headline.title
        assert not [name for name in elsewhere - shared if name in title and "uniform routing" in title], title


@EACH
def test_counts_in_a_title_fit_the_table_beneath(page):
    text = page.read_text()
    title = first_lines(page)[0]
    table = re.search(r'<table class="scores(?! claims)[^"]*">(.*?)</table>', text, re.DOTALL)
    if table is None:
        return
    heads = [plain(head) for head in re.findall(r"<th scope=\"col\">(.*?)</th>", table[1], re.DOTALL)]
    assert len(heads) <= 9
    tallies = [head for head in heads if re.search(r" worse of |no difference shown", head)]
    better = [head for head in tallies if (count := re.search(r"(\d+) better", head)) and int(count[1])]
    if found := re.search(r"in (\d+) other tested columns? it is not shown", title):
        assert int(found[1]) == len(tallies) - len(better)
    for count, of in re.findall(r"(\d+) of (\d+) methods", title):
        assert any(f"{count} better" in head and re.search(rf" of {of}\b", head) for head in better), title


@EACH
def test_what_was_never_planned_is_not_called_missing(page):
    parts, text = parts_of(page), page.read_text()
    planned = any(method.is_base for runs in parts for method in runs.methods.values())
    assert planned or "has no finished run" not in text
    repeats = any(paper_of(runs.suite) for runs in parts)
    assert repeats or not re.search(r"Not run: (\d+) of \1 published numbers", text)


@EACH
def test_times_in_a_title_have_no_digit_below_the_noise(page):
    floor = r"(?:Noise floor of single measurements|Single times closer than) (\d+) %"
    told, noise = " ".join(first_lines(page)), re.search(floor, plain(page.read_text()))
    times = re.findall(r"([\d.]+) ms", told)
    assert bool(times) <= bool(noise)
    for time in times:
        assert time == wording.within(float(time), float(time) * int(noise[1]) / 100)
    assert " 0.0 MB" not in told


def test_these_pages_have_what_is_looked_for():
    """Each of these tests has a page on which it may fail."""
    lines = {page.parent.name: " ".join(first_lines(page)) for page in PAGES}
    assert " ms" in lines["scale"] and "tested columns" in lines["standard"]
    assert re.search(r"\d+ of \d+ methods", lines["standard"])
    assert "uniform routing" in lines["papers-quick"] and "No sharing" in lines["papers-full"]


@EACH
def test_the_first_screen_tells_of_each_number_of_training_images(page):
    told = " ".join(first_lines(page)[:10])
    parts = [runs for runs in parts_of(page) if not is_tuning(runs)]
    for count in (few_of(runs.data)[0] for runs in parts):
        assert count is None or f"{count:,} training images: " in told
