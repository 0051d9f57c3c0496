"""The page is one file: complete, offline, escaped, and the same every time."""

import base64
import csv
import hashlib
import io
import re
from html.parser import HTMLParser

import pytest

from routebench.analysis.folder import open_folder
from routebench.errors import UserError
from routebench.report import comparison_table, headline, write_report
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects what a browser would act on."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.ids, self.addresses, self.tags, self.headings = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.tags.append(tag)
        self.addresses += [known[key] for key in ("src", "href", "xlink:href", "action", "data") if key in known]
        self.ids += [known["id"]] if "id" in known else []
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    records = made_up_records()
    records[-1] |= {"status": "failed", "reason": "RuntimeError: <script>alert('x')</script> & more", "metrics": []}
    smoke = made_up_records(seeds=1, preset="smoke", failures=False)
    write_folder(path, smoke, "smoke", time=1)
    write_folder(path, records, "quick", time=2)
    return open_folder(path), write_report(path)


@pytest.fixture(scope="module")
def text(written) -> str:
    return written[1].read_text(encoding="utf-8")


def test_it_is_well_formed_with_unique_ids_and_headings_in_order(text: str) -> None:
    outline = Outline(text)
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(outline.headings[1:], outline.headings[2:], strict=False))


def test_every_link_stays_inside_the_file(text: str) -> None:
    outline = Outline(text)
    assert {address[:5] for address in outline.addresses if not address.startswith("#")} <= {"data:"}
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
    hero = text[: text.index('id="part-1"')]
    assert "quick preset" in hero
    assert "<h1>inverted-attention T=2" in hero
    assert text.count('<article class="suite"') == 2
    assert "One seed only" in text
    assert "36 of 39 planned runs finished" in text


def test_tables_can_be_sorted_by_keyboard_and_by_number(text: str) -> None:
    (first,) = re.findall(
        r'<table class="sortable">.*?</table>', text[text.index("accuracy-table") :], flags=re.DOTALL
    )[:1]
    assert first.count('<th scope="col"') == first.count('<button type="button"') == 8
    row = next(row for row in re.findall(r"<tr.*?</tr>", first, flags=re.DOTALL) if "em T=3" in row)
    assert '<th scope="row"' in row
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
    inside = re.search(rf'download="{stem}-accuracy-table.csv" href="data:text/csv;charset=utf-8;base64,([^"]*)"', text)
    saved = (beside / f"{stem}-accuracy-table.csv").read_text(encoding="utf-8")
    assert base64.b64decode(inside[1]).decode() == saved
    assert next(csv.DictReader(io.StringIO(saved)))["name"] == "inverted-attention T=2"
    assert text.count("<svg ") == len([name for name in names if name.endswith(".svg")])


def test_dark_pages_have_a_value_for_every_colour_used(text: str) -> None:
    light, dark = re.findall(r":root \{ (--ink:.*?)\}", text)
    assert re.findall(r"--([\w-]+):", light) == re.findall(r"--([\w-]+):", dark)
    own = set(re.findall(r"--([\w-]+):", text))
    assert set(re.findall(r"var\(--([\w-]+)\)", text)) <= own


def test_the_same_results_give_the_same_page(tmp_path) -> None:
    methods = {name: METHODS[name] for name in ("dynamic", "uniform")}
    path = write_folder(tmp_path / "results", made_up_records(methods=methods))
    one, two = (write_report(path, tmp_path / name / "page.html") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_plan_without_results_still_has_a_page(tmp_path) -> None:
    records = made_up_records(seeds=1)
    for record in records:
        record |= {"status": "not run", "metrics": []}
    text = write_report(write_folder(tmp_path, records)).read_text(encoding="utf-8")
    Outline(text)
    assert "Nothing has been measured yet" in text
    assert "13 of 13 planned runs gave no result" in text


def test_the_terminal_gets_the_same_answer_with_fewer_columns(written, text: str) -> None:
    path = written[0].path
    table = comparison_table(path, "accuracy", "quick")
    assert list(table) == ["Method", "Accuracy, %", "Seeds", "Gain over uniform", "p (Holm)", "Group"]
    assert len(table) == 13
    assert set(comparison_table(path, preset="smoke")["Seeds"]) == {"1 / 1"}
    assert headline(path, "accuracy", "quick").splitlines()[0] in text


def test_the_terminal_is_told_what_is_not_there(written) -> None:
    with pytest.raises(UserError, match="nothing of suite 'sparsity'"):
        comparison_table(written[0].path, "sparsity")


def test_a_place_that_cannot_be_written_is_said_plainly(written, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_report(written[0].path, tmp_path / "file" / "report.html")
