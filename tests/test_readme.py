"""What the documents show is what there is. That the README's plug-in runs, `test_wheel.py` shows."""

import re
from pathlib import Path

import pytest

from docs._site import chart, history
from routebench.analysis import figures

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "my_routing.py"
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
DOCUMENTS = sorted(
    str(page.relative_to(ROOT))
    for page in ROOT.rglob("*.md")
    if page.relative_to(ROOT).parts[0] in {page.name, "reports", "routebench", "suites", "submissions", "tests"}
)
"""Those that mkdocs does not see, which checks the links of `docs`."""


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_of_a_document_lead_to_files_and_headings(document):
    page = ROOT / document
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_readme_shows_the_example_as_it_is():
    assert f"```python\n{EXAMPLE.read_text()}```" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "suites/tracking/README.md"])
def test_commands_of_make_exist(document):
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ": " in line}
    lines = (ROOT / document).read_text().splitlines()
    called = {word for line in lines if line.startswith("    make ") for word in line.split("#")[0].split()[1:]}
    assert {word for word in called if "=" not in word} <= targets


@pytest.mark.parametrize("picture", [*chart.PICTURES, *chart.OF_TABLES])
def test_pictures_are_drawn_from_the_published_results(tmp_path, picture):
    drawn = figures.save_svg(chart.drawn(picture), tmp_path / "picture.svg").read_text()
    assert drawn == (ROOT / picture).read_text(), "the published results or the figure changed: run make docs"


def test_the_history_is_drawn_from_what_asv_measured(tmp_path):
    drawn = figures.save_svg(history.chart(), tmp_path / "history.svg").read_text()
    assert drawn == history.CHART.read_text(), "the results or the figure changed: run make history"
    fused = next(step for step in history.steps() if step.name == "Fused kernels")
    plain, kernels = (fused.value(f"{history.LAYER}('em', '{backend}')") for backend in ("reference", "auto"))
    assert 0 < kernels < plain / 2
