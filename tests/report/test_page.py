"""The page is one file: complete, offline, escaped, and the same every time."""

import base64
import csv
import hashlib
import io
import os
import re
import sys
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest
from click.testing import CliRunner
from markupsafe import Markup
from pandas import DataFrame

import routebench
from routebench import cli
from routebench.analysis import Analysis, Column, analysis_of, open_folder
from routebench.commands import report, status
from routebench.engine.results import Store
from routebench.errors import UserError
from routebench.registry import analyses, extensions
from routebench.report import _render, answers, comparison_table, headline, origins_of, write_report
from routebench.report._page import Section
from routebench.report._page import _title as title_of
from routebench.report._page import _where as where_of
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs
from tests.report.outline import Outline


def test_it_is_well_formed_with_unique_ids_and_headings_in_order(text: str) -> None:
    outline = Outline(text)
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(outline.headings[1:], outline.headings[2:], strict=False))


def test_there_is_a_page_per_part_and_a_link_to_each(text: str) -> None:
    outline = Outline(text)
    assert outline.pages == [
        "overview",
        "accuracy",
        "accuracy-smoke-mnist5k-capsnet-small",
        "whole",
        "explorer",
        "against",
        "words",
    ]
    (bar,) = re.findall(r'<nav aria-label="Pages.*?</nav>', text, flags=re.DOTALL)
    assert re.findall(r'href="#([^"]*)"', bar) == outline.pages
    assert bar.count('aria-current="page"') == 1
    assert text.count('class="page hero current"') == 1


def test_on_paper_and_without_scripts_every_page_of_results_is_there(text: str) -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    hiding = re.findall(r"([^}]*)\{[^{}]*\.page:not\(\.current\) \{ display: none; \}", style)
    assert [rule.strip().splitlines()[-1] for rule in hiding] == [
        "@media screen",
        "@media screen and (scripting: enabled)",
    ]
    paper = style[style.index("@media print") :]
    assert re.search(r"\.block \{ content-visibility: visible; \}", paper)
    assert ".page:not" not in paper


def test_the_page_says_how_a_view_is_written_in_its_address(text: str) -> None:
    explorer = text[text.index('id="explorer"') : text.index('id="against"')]
    (told,) = re.findall(r"<code>#explorer\?(suite=.*?)</code>", explorer)
    (axes,) = re.findall(r"const AXES = \[(.*?)\]", text)
    keys = re.findall(r"(?:^|&amp;)([\w.]+)=", told)
    assert keys[:7] == re.findall(r'"(\w+)"', axes)
    assert keys[7:] == ["ylog", "xlog", "only.COLUMN", "hide"]
    names = re.findall(r'<(?:select|input type="checkbox") name="(\w+)"', explorer)
    assert names == [*keys[:7], "ylog", "xlog"]


def test_every_link_stays_inside_the_file(text: str) -> None:
    outline = Outline(text)
    papers = ("https://arxiv.org/abs/", "https://doi.org/")
    assert {one[:5] for one in outline.addresses if not one.startswith(("#", *papers))} <= {"data:"}
    assert {address[1:] for address in outline.addresses if address.startswith("#")} <= set(outline.ids)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_the_policy_forbids_the_network_and_lets_only_our_script_run(text: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "http" not in policy
    assert not re.search(r"\son\w+=", text)


def test_what_users_wrote_is_escaped(text: str) -> None:
    assert "<script>alert" not in text
    assert "RuntimeError: &lt;script&gt;" in text
    assert "Which routing is &lt;best&gt;?" in text


def test_the_answer_comes_from_the_preset_that_carries_most_and_every_part_is_there(text: str) -> None:
    hero = text[: text.index('<article class="page suite" id="accuracy"')]
    assert "quick preset" in hero
    assert "Routing helps here: Inverted attention, T\u00a0=\u00a02" in re.search("<h1[^>]*>(.*?)</h1>", hero)[1]
    assert text.count('<article class="page suite"') == 2
    assert "A smoke run says nothing about methods." in text
    assert "36 of 39 planned runs finished" in text


def test_tables_have_what_a_browser_sorts_by(text: str) -> None:
    (first,) = re.findall(
        r'<table class="sortable">.*?</table>', text[text.index("accuracy-table") :], flags=re.DOTALL
    )[:1]
    assert first.count('<th scope="col"') == 8
    row = next(row for row in re.findall(r"<tr.*?</tr>", first, flags=re.DOTALL) if "EM, T = 3" in row)
    assert '<th scope="row" title="em T=3" data-key="em T=3">' in row
    keys = re.findall(r'<td data-key="([^"]*)"', row)
    assert 90 < float(keys[0]) < 100
    assert "95.80" not in keys  # unrounded, or the order would be wrong


def test_figures_and_tables_lie_beside_the_page_and_inside_it(written, text: str) -> None:
    folder, page = written
    beside = page.with_name("report-figures")
    names = {file.name for file in beside.iterdir()}
    stem = folder.parts[0].name
    for analysis in ("accuracy-by-iterations", "iteration-matrix", "training-curves", "gain-over-uniform"):
        assert {f"{stem}-{analysis}.svg", f"{stem}-{analysis}.csv"} <= names
    assert {f"{stem}-accuracy-table.csv", f"{stem}-failures.csv"} <= names
    saved = (beside / f"{stem}-accuracy-table.csv").read_text(encoding="utf-8")
    assert next(csv.DictReader(io.StringIO(saved)))["name"] == "inverted-attention T=2"
    assert text.count("<figure><svg ") == len([name for name in names if name.endswith(".svg")])


def test_dark_pages_have_a_value_for_every_colour_used(text: str) -> None:
    light, dark = re.findall(r":root \{ (--ink:.*?)\}", text)
    assert re.findall(r"--([\w-]+):", light) == re.findall(r"--([\w-]+):", dark)
    own = set(re.findall(r"--([\w-]+):", text))
    assert set(re.findall(r"var\(--([\w-]+)\)", text)) <= own


@pytest.fixture
def few_analyses(monkeypatch) -> None:
    """Pages without most of the shipped analyses, for tests of what stands around them."""
    few = {name: analyses[name] for name in ("accuracy-table", "failures")}
    monkeypatch.setattr(analyses, "entries", few)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder with a report of three analyses, one of which needs uniform routing, and with files of the user's."""
    few = {name: analyses[name] for name in ("accuracy-table", "failures", "gain-over-uniform")}
    monkeypatch.setattr(analyses, "entries", few)
    methods = {name: METHODS[name] for name in ("dynamic", "none", "uniform")}
    path = write_folder(tmp_path / "results", made_up_records(seeds=2, methods=methods, failures=False))
    write_report(path)
    for name in ("mine.csv", "gain-over-uniform.csv", "failures.svg"):
        (path / "report-figures" / name).write_text("mine")
    return path / "report-figures"


def held(figures: Path) -> dict[str, str]:
    """The files of a report and their content, the page's too, and whatever else lies beside them."""
    files = {file.name: file.read_text() for file in (*figures.iterdir(), figures.with_name("report.html"))}
    return {**files, **{place.name: "" for place in figures.parent.iterdir() if place.name.startswith(".")}}


def test_what_only_an_earlier_report_has_is_removed_and_nothing_of_the_users(beside) -> None:
    before = held(beside)
    Store(beside.parent).forget("uniform")
    write_report(beside.parent)
    gone = {name for name in before if name.endswith(("-gain-over-uniform.csv", "-gain-over-uniform.svg"))}
    assert len(gone) == 2
    assert held(beside).keys() == before.keys() - gone


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("moved", ["-failures.csv", "-gain-over-uniform.svg", "report.html", "-accuracy-table.csv"])
def test_a_report_that_was_killed_leaves_nothing_of_an_earlier_one_for_ever(beside, moved) -> None:
    """The page says which files an earlier report has, so that it is replaced when those are gone."""
    before, move = held(beside), os.replace
    Store(beside.parent).forget("uniform")

    def last(source, target):
        move(source, target)
        if Path(target).name.endswith(moved) and Path(target).name[0] != ".":
            os._exit(9)

    child = os.fork()
    if child == 0:
        os.replace = last
        write_report(beside.parent)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    write_report(beside.parent)
    gone = {name for name in before if name.endswith(("-gain-over-uniform.csv", "-gain-over-uniform.svg"))}
    assert held(beside).keys() == before.keys() - gone


def test_the_report_of_another_folder_takes_the_place_of_the_first(tmp_path, beside) -> None:
    records = made_up_records(seeds=2, methods={"none": METHODS["none"]}, failures=False)
    for record in records:
        record["identity"]["data"] = "other"
    other = write_folder(tmp_path / "other", records)
    write_report(other, beside.with_name("report.html"))
    mine = {"mine.csv", "gain-over-uniform.csv", "failures.svg", "report.html"}
    assert {name.partition("-other-")[0] for name in held(beside).keys() - mine} == {"accuracy-quick", "scorecard.csv"}


def test_a_page_that_somebody_else_wrote_names_no_file_of_ours(beside) -> None:
    page = beside.with_name("report.html")
    page.write_text('<p data-stem="mine"></p>')
    write_report(beside.parent)
    page.write_text(f'{page.read_text()}<p data-stem="../records"></p><p data-stem=".."></p>')
    write_report(beside.parent)
    assert (beside / "mine.csv").read_text() == "mine"


@pytest.mark.parametrize("failing", ["a figure", "the last table", "the page"])
def test_on_a_full_disk_the_earlier_page_and_its_figures_stay(beside, monkeypatch, failing) -> None:
    before = held(beside)
    Store(beside.parent).forget("dynamic")
    replace_file = os.replace

    def full(source, target):
        name = Path(target).name
        end = {"a figure": ".svg", "the last table": "failures.csv", "the page": ".html"}[failing]
        if name.endswith(end):
            raise OSError(28, "No space left on device")
        replace_file(source, target)

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match=r"the report cannot be written to .*disk is full"):
        write_report(beside.parent)
    assert held(beside) == before


def test_a_folder_in_the_place_of_a_figure_is_told_before_anything_is_written(beside) -> None:
    (table,) = beside.glob("*-accuracy-table.csv")
    table.unlink()
    table.mkdir()
    page = beside.with_name("report.html").read_text()
    Store(beside.parent).forget("uniform")
    with pytest.raises(UserError, match=r"cannot be written .*accuracy-table.csv' in 'report-figures' is a folder"):
        write_report(beside.parent)
    assert beside.with_name("report.html").read_text() == page


def test_several_suites_are_named_unless_one_asks_for_accuracy(tmp_path, few_analyses) -> None:
    methods = {name: METHODS[name] for name in ("dynamic", "uniform")}

    def hero(folder, *suites: str) -> str:
        for time, suite in enumerate(suites):
            records = made_up_records(seeds=2, methods=methods)
            for record in records:
                record["cell"] = f"{time}{record['cell'][1:]}"
                record["identity"]["suite"] = suite
            write_folder(tmp_path / folder, records, time=time, suite=suite)
        return write_report(tmp_path / folder).page.read_text(encoding="utf-8").partition('class="page suite"')[0]

    several = hero("several", "second", "first")
    (title,) = re.findall("<h1[^>]*>(.*?)</h1>", several)
    assert title.startswith("Does routing help? ")  # over both
    assert "<title>2 suites · routebench</title>" in several
    assert several.count("a first look, not a finding") == 1
    assert re.findall('<th scope="col"><a href="#([^"]*)">', several) == ["first", "second"]
    (alone,) = re.findall("<h1[^>]*>(.*?)</h1>", hero("one", "first"))
    assert alone.startswith("Routing ")


def test_the_answer_of_a_suite_stands_on_its_page_once_also_beside_other_suites(tmp_path, registered) -> None:
    read = Analysis("Mine", "No method does it better.", DataFrame({"a": [1]}), columns=(Column("A", "a"),))
    analysis_of("mine", "mine-table", place=1)(lambda runs: read)
    methods = {name: METHODS[name] for name in ("none", "uniform")}
    records, others = (made_up_records(seeds=2, methods=methods) for _ in range(2))
    for record in others:
        record["identity"] |= {"suite": "mine", "protocol": "mine"}
        record["cell"] = record["cell"][::-1]
    write_folder(tmp_path, records)
    write_folder(tmp_path, others, time=1, suite="mine", protocol="mine")
    text = write_report(tmp_path).page.read_text(encoding="utf-8")
    page = text[text.index('<article class="page suite" id="mine') :].partition("</article>")[0]
    assert page.count("No method does it better.") == 1


def test_what_a_smoke_run_shows_is_not_judged(text: str) -> None:
    smoke = text[text.index('<article class="page suite" id="accuracy-smoke') : text.index('id="whole"')]
    assert "accuracy-table" in smoke
    for judged in ("p (Holm)", "Rank", "significant", "told apart", 'class="reading"'):
        assert judged not in smoke
    assert "p (Holm)" in text


def test_methods_are_named_for_a_reader_and_spelled_in_downloads(text: str) -> None:
    table = text[text.index('id="accuracy-accuracy-table"') :]
    rows = re.findall(r'<th scope="row" title="([^"]*)" data-key="([^"]*)">([^<]*)</th>', table)[:13]
    assert {key: name for exact, key, name in rows if key == exact}[
        "inverted-attention T=2"
    ] == "Inverted attention, T = 2"
    assert len(rows) == len(METHODS) + 6


def test_the_same_results_give_the_same_page(tmp_path) -> None:
    methods = {name: METHODS[name] for name in ("dynamic", "uniform")}
    path = write_folder(tmp_path / "results", made_up_records(methods=methods))
    one, two = (write_report(path, tmp_path / name / "page.html").page for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_plan_without_results_still_has_a_page(tmp_path) -> None:
    records = made_up_records(seeds=1)
    for record in records:
        record |= {"status": "not run", "metrics": []}
    text = write_report(write_folder(tmp_path, records)).page.read_text(encoding="utf-8")
    Outline(text)
    assert "Nothing has been measured yet" in text
    assert "0 of 13 planned runs finished." in text and "What has no result" in text


def test_a_suite_that_only_asks_has_its_question_as_title() -> None:
    runs = made_up_runs()
    asks = Section("", "Sparsity", runs, "Is coupling sparse?", None, (), origins_of(runs, {}, [], None), 1)
    assert title_of([asks], None, None) == ("Is coupling sparse?", (), ())


def test_the_terminal_gets_the_same_answer_with_fewer_columns(written, text: str) -> None:
    path = written[0].path
    table = comparison_table(answers(open_folder(path), "accuracy", "quick"))
    assert list(table) == ["Method", "Accuracy, %", "Seeds", "Gain over uniform routing", "p (Holm)", "Rank"]
    assert len(table) == 13
    assert set(comparison_table(answers(open_folder(path), preset="smoke"))["Seeds"]) == {"1 / 1"}
    assert headline(answers(open_folder(path), "accuracy", "quick")).splitlines()[0] in text.replace("\u00a0", " ")


def test_the_terminal_is_told_what_is_not_there(written) -> None:
    with pytest.raises(UserError, match="nothing of suite 'sparsity'"):
        answers(open_folder(written[0].path), "sparsity")


@pytest.fixture
def registered(few_analyses):
    """Registers analyses for one test, beside few others."""
    with extensions.restored():
        yield lambda name, analysis: analysis_of("accuracy", name, place=12)(analysis)


def raises(runs):
    raise ValueError("boom <b>")


def draws_nonsense(runs):
    return Analysis("Mine", "Read.", DataFrame({"a": [1]}), columns=(Column("A", "a", lambda row: row["b"]),))


@pytest.mark.parametrize(
    ("analysis", "error"),
    [(raises, "ValueError: boom <b> (test_page.py:"), (draws_nonsense, "KeyError: 'b' (test_page.py:"),
     (lambda runs: {"a": 1}, "TypeError: expected an Analysis or None from an analysis, got dict")],
)  # fmt: skip
def test_an_analysis_that_raises_has_its_error_in_its_place(tmp_path, registered, capsys, analysis, error) -> None:
    registered("mine", analysis)
    path = write_folder(
        tmp_path / "results", made_up_records(methods={name: METHODS[name] for name in ("none", "uniform")})
    )
    written = write_report(path)
    text = written.page.read_text(encoding="utf-8")
    Outline(text)
    assert f"the analysis &#39;mine&#39; raised {Markup.escape(error)}" in text
    assert 'id="accuracy-failures"' in text
    assert written.broken
    assert written.warnings[0].startswith(f"the analysis 'mine' raised {error}")
    assert capsys.readouterr() == ("", "")


def test_one_across_data_sets_likewise(tmp_path, registered) -> None:
    registered("mine", raises)
    analyses.entries["mine"].across = True
    methods = {name: METHODS[name] for name in ("none", "uniform")}
    records, others = (made_up_records(seeds=2, methods=methods) for _ in range(2))
    for record in others:
        record["identity"] |= {"data": "other", "data_fingerprint": "fedcba9876543210"}
        record["cell"] = record["cell"][::-1]
    write_folder(tmp_path, records)
    write_folder(tmp_path, others, time=1)
    text = write_report(tmp_path).page.read_text(encoding="utf-8")
    together = text.index('id="accuracy-quick-capsnet-small-across-data"')
    assert together < text.index("the analysis &#39;mine&#39; raised") < text.index('class="page suite"')


@pytest.mark.parametrize(("broken", "code"), [(True, 3), (False, 0)])
def test_the_command_says_by_its_exit_code_whether_an_analysis_raised(tmp_path, registered, broken, code) -> None:
    registered("mine", raises if broken else lambda runs: None)
    path = write_folder(tmp_path / "results", made_up_records(methods={"none": METHODS["none"]}))
    ended = CliRunner().invoke(report.command, [str(path)])
    assert ended.exit_code == code
    assert ended.stdout == f"report: {path / 'report.html'}\n"
    assert ("warning: the analysis 'mine' raised ValueError" in ended.stderr) == broken


def test_damaged_files_are_told_and_their_cells_are_missing(tmp_path) -> None:
    records = made_up_records(seeds=1, methods={name: METHODS[name] for name in ("none", "uniform", "cnn")})
    path = write_folder(tmp_path / "results", records)
    (path / "arrays" / f"{records[0]['cell']}.safetensors").write_text("junk")
    for run in (report, status):
        ended = CliRunner().invoke(run.command, [str(path)])
        assert ended.exit_code == 0
        assert f"warning: arrays/{records[0]['cell']}.safetensors: gone or damaged" in ended.stderr
    assert "2 ok, 1 not run of 3 runs" in ended.stdout
    assert "none on capsnet-small, seed 0: not run: its raw outputs are gone or damaged" in ended.stdout
    text = write_report(path).page.read_text(encoding="utf-8")
    assert "2 of 3 planned runs finished" in text
    first = text[text.index('id="overview"') : text.index("</article>")]  # whoever is sent the page sees no terminal
    assert "When this page was made: " in first
    assert f"arrays/{records[0]['cell']}.safetensors: gone or damaged, so that its run counts as not run" in first


@pytest.mark.parametrize("damaged", [0, 1, 9])
def test_a_page_that_is_sent_alone_tells_of_what_was_set_aside(tmp_path, damaged) -> None:
    records = made_up_records(methods={name: METHODS[name] for name in ("none", "uniform", "cnn")})
    path = write_folder(tmp_path / "results", records)
    for file in sorted((path / "records").glob("*.json"))[:damaged]:
        file.write_text("{")
    text = write_report(path).page.read_text(encoding="utf-8")
    first = text[text.index('id="overview"') : text.index("</article>")]
    assert first.count("could not be read; it was moved to damaged/") == min(damaged, 3)
    assert ("6 more are not named here" in first) == (damaged == 9)
    assert ("When this page was made" in first) == bool(damaged)


@pytest.mark.parametrize("run", ["report", "status"])
@pytest.mark.parametrize(
    ("folder", "code", "says"), [("nowhere", 2, "does not exist"), (".", 4, "nothing was planned")]
)
def test_nothing_there_and_nothing_planned_have_a_code_each(
    tmp_path, monkeypatch, capsys, run, folder, code, says
) -> None:
    monkeypatch.setattr(sys, "argv", ["routebench", run, str(tmp_path / folder)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert says in capsys.readouterr().err


def test_a_figure_with_small_text_takes_the_full_width(text: str) -> None:
    assert 'class="block wide large" id="accuracy-accuracy-pairwise"' in text
    assert 'class="block" id="accuracy-gain-over-uniform"' in text


def test_a_place_that_cannot_be_written_is_said_plainly(written, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_report(written[0].path, tmp_path / "file" / "report.html")


def test_templates_speak_of_baselines_and_configurations():
    inner = re.compile(r"<[^>]*>|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
    templates = sorted((Path(routebench.__file__).parent / "report" / "templates").glob("*.html"))
    assert len(templates) > 3
    for file in templates:
        assert not re.search(r"\b(controls?|entries|entry|knobs?)\b", inner.sub(" ", file.read_text(encoding="utf-8")))


FORMER = re.compile(r"\b(entry|entries|controls?|knobs?|random shares|optimisers?|in miniature)\b", re.IGNORECASE)


PUBLISHED = sorted((Path(routebench.__file__).parents[1] / "reports").glob("*/report.html"))


@pytest.mark.parametrize("page", PUBLISHED, ids=lambda page: page.parent.name)
def test_published_pages_speak_the_words_of_today(page):
    whole = re.sub(r"<(script|style|svg).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert {found[0] for found in FORMER.finditer(re.sub(r"<[^>]*>", " ", whole))} == set()


def test_a_suite_stands_in_the_menu_that_it_names_where_the_page_has_that(tmp_path, monkeypatch):
    """`budget` names that of `standard`."""
    monkeypatch.setattr("routebench.report._page.analyses", {"accuracy-table": analyses["accuracy-table"]})
    few = {name: METHODS[name] for name in ("dynamic", "uniform")}

    def menus(suite, data, time):
        records = made_up_records(seeds=2, methods=few, failures=False)
        for record in records:
            record["identity"] |= {"suite": suite, "data": data}
            record["cell"] = hashlib.sha256(f"{suite} {data} {record['cell']}".encode()).hexdigest()[:16]
        write_folder(tmp_path, records, suite=suite, time=time)
        text = write_report(tmp_path).page.read_text(encoding="utf-8")
        (tabs,) = re.findall(r"<nav .*?</nav>", text, re.DOTALL)
        found = re.findall(r"<details><summary>(.*?)</summary><ul>(.*?)</ul>", tabs, re.DOTALL)
        return {name: [items.count(title) for title in ("Standard", "Tuning budget")] for name, items in found[:-1]}

    assert menus("budget", "a", 0) == {}
    assert menus("budget", "b", 1) == {"Tuning budget": [0, 2]}
    assert menus("standard", "a", 2) == {"Standard": [1, 2]}


def test_a_caveat_says_of_which_part_of_a_suite_it_is() -> None:
    runs = made_up_runs(seeds=1, failures=False)
    origins = origins_of(runs, {}, [], None)

    def part(tab, data, model="capsnet"):
        return Section("", tab, replace(runs, data=data, model=model), "", None, (), origins, 1)

    whole, few, other = parts = part("Features", "mnist"), part("Features", "few:500:mnist"), part("Cost", "mnist")
    assert where_of(parts, parts) == where_of([whole], [whole]) == ""
    assert where_of([few], parts) == "Features (500 training images)"
    assert (
        where_of([whole, few], parts) == "Features" and where_of([few], parts[:2]) == "Features (500 training images)"
    )
    assert where_of([whole, other], parts) == "Features (all training images) and Cost"
    assert where_of([other], [other, part("Cost", "mnist", "cnn")]) == "Cost (capsnet)"


@pytest.mark.parametrize(
    ("urls", "address"),
    [
        ((), ""),
        (("Documentation, https://docs.org", "Repository, https://code.org"), "https://code.org"),
        (("Documentation, https://docs.org",), "https://docs.org"),
        (("Repository, javascript:alert(1)",), ""),
    ],
)
def test_pages_name_the_place_of_the_code_where_the_project_declares_one(monkeypatch, urls, address) -> None:
    known = Message()
    known["Version"] = "1.2"
    for url in urls:
        known["Project-URL"] = url
    monkeypatch.setattr(_render, "metadata", lambda name: known)
    assert _render._of_project() == ("1.2", address)


def test_the_page_names_the_commits_that_measured(text: str) -> None:
    assert re.search(r"<p>Made by routebench [\w.]+ from <code>[^<]+</code>, measured at (commit|\d+ commits)", text)
