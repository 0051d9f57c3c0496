"""What pages take from the sources is there, and formulas come out as they are written."""

import inspect
import re
import xml.etree.ElementTree as ET

import pytest

from routebench.papers.kiefer.protocols.predictive_coding import PredictiveCoding
from routebench.papers.smith.models.probabilistic import part_whole, sprites
from routebench.papers.smith.models.probabilistic.free_form import climb
from routebench.papers.smith.protocols.generation import Generation
from tests.docs.pages import DOCS, ROOT, fill, pages, text_of
from tests.protocols import small_digits
from tests.protocols.small_digits import Untrained, request_of

OPTION = re.compile(r"`(\w+)` =&nbsp;`([^`]+)`")
SHOWN = re.compile(r'^```python title="(routebench/.+?\.py)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def formula(written):
    (found,) = re.findall(r"<math.*</math>", fill(f"```math\n{written}\n```"))
    return ET.fromstring(found)


@pytest.mark.parametrize("page", [page for page in pages() if "fill: source" in (DOCS / page).read_text()])
def test_every_line_of_an_excerpt_stands_in_its_file(page):
    shown = SHOWN.findall(text_of(page))
    assert shown
    for file, code in shown:
        written = (ROOT / file).read_text()
        lines = {line.strip() for line in written.splitlines()}
        for line in filter(None, map(str.strip, code.splitlines())):
            assert line in lines or (line.endswith('"""') and line.removesuffix('"""') in lines), line


def test_an_excerpt_is_the_whole_code_below_its_docstring():
    shown = fill(
        "<!-- fill: source routebench.papers.smith.models.probabilistic.part_whole.PartWhole.log_odds .log_density -->"
    )
    assert "@property\ndef log_odds" in shown
    assert "return self.joint(objects, parts).logsumexp(dim=1).sum(dim=1)\n```" in shown
    constant = fill("<!-- fill: source routebench.papers.smith.models.probabilistic.sprites.SPEED -->")
    told = inspect.getsource(sprites).split(f"SPEED = {sprites.SPEED}\n")[1].split('"""')[1]
    block, _, words = constant.partition("\n```\n\n")
    assert block.endswith(f"\nSPEED = {sprites.SPEED}") and words == told
    several = fill("<!-- fill: source routebench.papers.smith.models.probabilistic.sprites.SPEED .Sprites.colours -->")
    assert several.index("def colours") < several.index("```\n\n`SPEED`: ")
    long = fill("<!-- fill: source routebench.papers.smith.models.probabilistic.free_form.climb -->")
    assert inspect.getdoc(climb).splitlines()[0] + '"""' in long
    assert "Args:" not in long and "descent.step()" in long
    for wrong in (
        "routebench.papers.smith.models.probabilistic.part_whole.PartWhole.choice",
        "routebench.papers.smith.models.probabilistic.part_whole.speed",
        "none.x",
    ):
        with pytest.raises(LookupError):
            fill(f"<!-- fill: source {wrong} -->")


def test_options_are_those_of_the_signature():
    rows = fill(
        "<!-- fill: choices routebench.papers.smith.models.probabilistic.part_whole.PartWhole:whole:part_size -->"
    ).splitlines()[2:]
    signature = inspect.signature(part_whole.PartWhole).parameters
    named = {name: default for row in rows for name, default in OPTION.findall(row.split(" | ")[0])}
    expected = {name: repr(one.default) for name, one in signature.items() if one.default is not one.empty}
    assert named == {name: default for name, default in expected.items() if name != "part_size"}
    assert all(len(row.split(" | ")) == 2 and len(row.split(" | ")[1]) > 10 for row in rows)


def test_options_that_share_a_sentence_share_a_row_and_owners_are_named_where_there_are_several():
    both = "{0}.part_whole.PartWhole:whole {0}.encoders.ObjectEncoder:objects".format(
        "routebench.papers.smith.models.probabilistic"
    )
    cells = [row.split(" | ")[0] for row in fill(f"<!-- fill: choices {both} -->").splitlines()[2:]]
    assert "| of `objects`<br>`width` =&nbsp;`128`<br>`heads` =&nbsp;`4`" in cells
    assert all(cell.startswith(("| of `whole`<br>", "| of `objects`<br>")) for cell in cells)
    alone = fill(f"<!-- fill: choices {both.split(maxsplit=1)[0]} -->")
    assert "`whole`" not in alone and "| `temperature` =&nbsp;`1.0` |" in alone


def test_measures_have_what_is_declared():
    rows = fill("<!-- fill: measures right_longest fit_seconds -->").splitlines()[2:]
    assert rows[0].endswith("given away by the right label | % | more |")
    assert rows[1] == "| `fit_seconds` | time of one fit | s | less |"


def test_formulas():
    found = formula(r"V_i^k \leftarrow \frac{1}{2} \sum_{j \in A} \lVert \hat U_{ij} \rVert^2 \tag{6}")
    assert [node.tag for node in found.iter()].count("msubsup") == 1
    (under,) = found.iter("munder")
    assert "".join(under.itertext()) == "∑j∈A"
    assert "".join(found.itertext()) == "Vik←12∑j∈A‖U^ij‖2"
    aligned = formula("\\begin{aligned} a &= b \\\\ c &< 1.5 \\end{aligned}")
    assert [["".join(cell.itertext()) for cell in row] for row in aligned.iter("mtr")] == [["a", "=b"], ["c", "<1.5"]]
    assert '<span class="number">(4–6)</span>' in fill("```math\nx \\tag{4–6}\n```")
    with pytest.raises(LookupError, match="unknown is not known"):
        formula(r"\unknown")


@pytest.mark.parametrize("page", [page for page in pages() if "```math" in (DOCS / page).read_text()])
def test_formulas_of_pages_are_well_formed(page):
    found = re.findall(r"<math.*?</math>", text_of(page).replace("&nbsp;", " "))
    assert len(found) == (DOCS / page).read_text().count("```math")
    for one in found:
        assert ET.fromstring(one).tag == "math"


def documented(heading):
    part = (DOCS / "numbers.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return {name for names in re.findall("<!-- fill: measures (.*) -->", part) for name in names.split()}


def test_metrics_without_a_table_of_the_report_are_explained(monkeypatch):
    small_digits.register(monkeypatch)
    inferred = PredictiveCoding().measure(request_of("none", None), {"steps": 1}, Untrained())
    assert {one.metric for one in inferred.metrics} == documented("Predictive coding")
    options = {"images": 2, "probe_images": 30, "steps": 1}
    looked_at = Generation().measure(request_of(None, None, "generative-capsules-small"), options, Untrained())
    from_fit = {"parameters", "fit_seconds"}  # of every protocol that trains
    assert {one.metric for one in looked_at.metrics} - from_fit == documented("Generation")
