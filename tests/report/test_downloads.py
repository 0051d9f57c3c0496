"""What a link holds is the table and the figure that the page shows."""

import base64
import csv
import io
import re
import zlib

import pytest
from fontTools import subset
from fontTools.ttLib import TTFont
from matplotlib.figure import Figure
from pandas import DataFrame

from routebench.analysis._result import Analysis
from routebench.analysis._table import Column
from routebench.analysis.figures import settle, to_svg
from routebench.report._asv_pages import asv_pages
from routebench.report._downloads import MOST_ROWS, downloads_of, pdf_of


def analysis(rows: int = 3) -> Analysis:
    table = DataFrame(
        {"name": [f"m_{number}" for number in range(rows)], "mean": [number / 3 for number in range(rows)]}
    )
    columns = (
        Column("Method", "name", lambda row: row["name"], numeric=False),
        Column("Mean, %", "mean", lambda row: f"{row['mean']:.2f}"),
    )
    figure = Figure(layout="constrained")
    figure.subplots().plot([1, 2])
    to_svg(figure)
    return Analysis("Title", "Reading.", table, figure, columns, ("A note.",))


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    found = downloads_of("stem", analysis(), ("suite: x",))
    assert [file.name for file in found] == ["stem.csv", "stem.md", "stem.tex", "stem.pdf"]
    for file in found:
        kind, _, content = file.address.partition(";base64,")
        assert kind == f"data:{file.kind}"
        assert base64.b64decode(content) == file.content
    return {file.title: file.content for file in found}


def test_the_csv_is_the_table_unrounded(files) -> None:
    rows = [*csv.DictReader(io.StringIO(files["CSV"].decode()))]
    assert [float(row["mean"]) for row in rows] == [0, 1 / 3, 2 / 3]


def test_markdown_and_latex_have_the_texts_the_reading_and_where_they_come_from(files) -> None:
    markdown, latex = files["Markdown"].decode(), files["LaTeX"].decode()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines() if line[:1] == "|"]
    assert rows[0] == ["Method", "Mean, %"]
    assert rows[2:] == [[r"m\_0", "0.00"], [r"m\_1", "0.33"], [r"m\_2", "0.67"]]
    rows = re.findall(r"^m\\_(\d) +& +(\S+) +\\\\$", latex, flags=re.MULTILINE)
    assert rows == [("0", "0.00"), ("1", "0.33"), ("2", "0.67")]
    assert r"\toprule" in latex
    for text in (markdown, latex):
        assert "Reading." in text
        assert "suite: x" in text
        assert "A note." in text


def test_the_pdf_is_the_same_every_time_and_has_letters_as_truetype(files) -> None:
    assert files["PDF"].startswith(b"%PDF-")
    assert downloads_of("stem", analysis(), ())[3].content == files["PDF"]
    assert b"/Type3" not in files["PDF"]
    assert b"CreationDate" not in files["PDF"]


def test_the_pdf_embeds_letters_without_tables_for_setting_text(files) -> None:
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", files["PDF"], flags=re.DOTALL)
    content = [zlib.decompress(stream) for stream in streams if stream[:1] == b"\x78"]
    fonts = [TTFont(io.BytesIO(one)) for one in content if one[:4] == b"\0\1\0\0"]
    assert fonts
    for font in fonts:
        assert {"glyf", "hmtx"} <= {*font.keys()}
        assert not {"GDEF", "GPOS", "GSUB", "kern"} & {*font.keys()}
    assert "GPOS" not in subset.Options().drop_tables  # the default is as it was


def test_a_figure_is_laid_out_once_and_for_good() -> None:
    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    axes.set_ylabel("a long label\nof two lines")
    before = axes.get_position().bounds
    settle(figure)
    laid_out = axes.get_position().bounds
    assert laid_out != before
    drawn = to_svg(figure)
    pdf_of(figure)
    assert axes.get_position().bounds == laid_out
    assert to_svg(figure) == drawn


def test_a_long_table_is_for_programs_only() -> None:
    assert [file.title for file in downloads_of("stem", analysis(MOST_ROWS + 1), ())] == ["CSV", "PDF"]


def test_the_pages_of_asv_are_linked_where_they_are(tmp_path, monkeypatch) -> None:
    results, page = tmp_path / "project" / "my results", tmp_path / "project" / "my results" / "report.html"
    results.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert asv_pages(results, page) is None
    beside = results.parent / "out of asv" / "index.html"
    beside.parent.mkdir()
    beside.write_text("")
    assert asv_pages(results, page) is None
    (results.parent / "asv.conf.json").write_text('{\n  // where pages go\n  "html_dir": "out of asv"\n}')
    assert asv_pages(results, page) == "../out%20of%20asv/index.html"
    (results.parent / "asv.conf.json").write_text("{ broken")
    assert asv_pages(results, page) is None
    here = elsewhere / ".asv" / "html" / "index.html"
    here.parent.mkdir(parents=True)
    here.write_text("")
    assert asv_pages(results, page) == "../../elsewhere/.asv/html/index.html"
