"""Whatever a stranger's folder says, a page shows it: nothing runs, nothing is fetched, and one file makes markup."""

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup
from matplotlib.figure import Figure

import routebench
from routebench.analysis import figures
from routebench.analysis.markup import drawing
from routebench.report import write_report
from tests.report.browsing import BROWSER
from tests.stress.pages import CHOOSING, Finder, Hostile, listening, opened, payload

PACKAGE = Path(routebench.__file__).parent
MAKER = PACKAGE / "analysis" / "markup.py"
GRIDS = {"every field": lambda every: every, "all that choose nothing": lambda every: [*{*every} - CHOOSING]}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of folders with markup in their fields, with the server that it asks."""
    with listening() as (url, asked):
        found = {}
        for name, chosen in GRIDS.items():
            hostile = Hostile(tmp_path_factory.mktemp("hostile") / "results")
            assert len(hostile.fields) > 60
            hostile.fill(chosen(hostile.fields), payload(url).replace("$", ""))  # without mathematics
            found[name] = write_report(hostile.folder).page
        yield found, asked


@pytest.mark.parametrize("name", GRIDS)
def test_a_page_has_no_markup_of_a_folder(pages, name):
    text = pages[0][name].read_text(encoding="utf-8")
    assert text.count("xpwn") > 20  # it is shown
    finder = Finder(text)
    assert finder.found == []
    assert finder.own["meta"] == 5
    for figure in pages[0][name].with_name("report-figures").glob("*.svg"):
        assert Finder(figure.read_text(encoding="utf-8")).found == []


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
@pytest.mark.parametrize("name", GRIDS)
def test_a_page_asks_for_nothing(pages, chromium, name):
    found, asked = pages
    asked.clear()
    assert opened(chromium, found[name]) == ([], found[name].as_uri())
    assert asked == []


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
def test_the_server_hears_a_page_that_asks(chromium, tmp_path):
    """So that silence means something."""
    with listening() as (url, asked):
        (tmp_path / "page.html").write_text(f"<title>{payload(url)}")
        _, here = opened(chromium, tmp_path / "page.html")
        assert asked
        assert here == url


BEGINNING = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
MORE_THAN_A_DRAWING = [
    "<script>alert(1)</script>",
    '<g onload="alert(1)"/>',
    "<foreignObject><body/></foreignObject>",
    "<img/>",
    '<meta http-equiv="refresh"/>',
    '<use xlink:href="http://elsewhere/x.svg#a"/>',
    '<image xlink:href="http://elsewhere/x.png"/>',
    '<image href="data:image/svg+xml;base64,AAAA"/>',
    '<a href="javascript:alert(1)"/>',
    '<a href="data:text/html,x"/>',
    '<rect style="fill: url(http://elsewhere/x)"/>',
    '<rect fill="url( http://elsewhere/x)"/>',
    "<style>@import 'http://elsewhere/x.css';</style>",
    "<style>* { fill: url(//elsewhere) }</style>",
    "<style>* { fill: u\\72l(//elsewhere) }</style>",
    '<animate attributeName="href" to="javascript:alert(1)"/>',
    "<!--><img src=x>-->",
    "<?xml-stylesheet href='http://elsewhere'?>",
    "<![CDATA[<img src=x>]]>",
    "<svg/>",
    "<g>",
    "&nbsp;",
    "</svg><img src='x'/><svg>",
]


@pytest.mark.parametrize("inner", MORE_THAN_A_DRAWING)
def test_a_figure_only_draws(inner):
    with pytest.raises(ValueError, match="expected a figure"):
        drawing(f"{BEGINNING}{inner}</svg>", {})


def test_attributes_are_escaped():
    markup = drawing(f"{BEGINNING}<g/></svg>", {"aria-label": '"><script>alert(1)</script>'})
    assert markup.startswith('<svg aria-label="&#34;&gt;&lt;script&gt;')


def test_a_name_of_a_part_is_an_id_and_nothing_else():
    figure = Figure()
    figure.subplots().plot([1, 2], [3, 4])
    svg = figures.to_svg(figure)
    markup = figures.inline_svg(svg, 'a"><b c', "What is seen.")
    ids = re.findall(r'\bid="([^"]*)"', markup)
    assert ids
    assert all(re.fullmatch(r"a-b-c-[0-9a-f]{8}-\w+", one) for one in ids)
    assert figures.inline_svg(svg, "a_b_c", "") != figures.inline_svg(svg, "a b c", "")


def markups(tree):
    """Calls that make markup of text, by any name of the class, and what they are given."""
    names = {"Markup", "HTML", "SafeString"}
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if getattr(called, "id", getattr(called, "attr", None)) in names:
            yield node


def test_one_file_makes_markup():
    for file in [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "analyses").rglob("*.py")]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = [*markups(tree)]
        assert file == MAKER or not calls, f"{file.name}: markup is made in {MAKER.name} alone"
        for call in calls:
            for given in ast.walk(call):
                assert not isinstance(given, ast.JoinedStr | ast.BinOp | ast.Mod), f"line {call.lineno}"
        for node in ast.walk(tree):
            assert getattr(node, "attr", "") != "__html__"
            if isinstance(node, ast.keyword) and node.arg == "autoescape":
                assert getattr(node.value, "value", None) is True or file.name == "new_method.py"


def test_the_test_sees_markup_that_is_not_escaped():
    assert [*markups(ast.parse("x = Markup(f'<b>{name}</b>')"))]
    assert [*markups(ast.parse("x = markupsafe.Markup('<b>' + name)"))]
    assert isinstance(Markup(""), str)


@pytest.mark.parametrize("file", sorted((PACKAGE / "report" / "templates").glob("*.html")), ids=lambda file: file.name)
def test_templates_escape_everything_and_quote_their_attributes(file):
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe|autoescape|\bxmlattr\b|Markup", text)
    assert not re.search(r"=\{\{", text)
    assert not re.search(r"\s(?:on\w+|style)=", text)


class Links(HTMLParser):
    """Where links lead."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name == "href"]


def test_a_plug_ins_figure_that_fetches_is_told_on_the_page(tmp_path, monkeypatch):
    from routebench.analysis import Analysis, analysis_of
    from routebench.registry import extensions
    from tests.analysis.made_up_folder import write_folder
    from tests.analysis.made_up_runs import made_up_records

    with extensions.restored():

        @analysis_of("accuracy", "asks", 1)
        def asks(runs):
            figure = Figure()
            figure.subplots().plot([1, 2], [3, 4], url="javascript:alert(1)")
            return Analysis("Asks", "It asks.", runs.planned, figure)

        written = write_report(write_folder(tmp_path, made_up_records(seeds=1, failures=False)))
        text = written.page.read_text(encoding="utf-8")
        assert written.broken
        assert "expected a figure that only draws" in text
        assert not [link for link in Links(text).found if link.startswith("javascript")]
