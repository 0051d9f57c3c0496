"""The site builds without a warning, and says what the code says."""

import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

import routebench
from routebench.cli import cli
from routebench.report import GLOSSARY
from tests.docs.pages import DOCS, ROOT, fill, pages, text_of


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built by mkdocs, where a broken link or a page that is in no menu is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loaded(HTMLParser):
    """What a browser fetches by itself when it opens a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        if tag in ("script", "img", "iframe") and known.get("src"):
            self.found.append(known["src"])
        if tag == "link" and known.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(known["href"])


def test_it_opens_without_a_network(site):
    for page in (page for page in site.rglob("*.html") if page.name != "404.html"):  # which a server shows anywhere
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert [link for link in loaded.found if re.match(r"(\w+:)?//", link)] == []
        assert all((page.parent / link.split("?")[0]).exists() for link in loaded.found if not link.startswith("data:"))


def test_every_page_is_there_and_nothing_of_the_workshop(site):
    assert {str(Path(page).with_suffix(".html")) for page in pages()} <= {
        str(file.relative_to(site)) for file in site.rglob("*.html")
    }
    assert not (site / "_site").exists()
    assert "<!-- fill" not in "".join(file.read_text(encoding="utf-8") for file in site.glob("*.html"))
    assert "Does routing help?" in (site / "reports" / "quick.html").read_text(encoding="utf-8")


def test_what_was_found_is_one_screen_with_a_link_to_every_report_and_its_findings():
    shown = text_of("findings.md")
    assert len(re.sub("<[^>]*>", "", shown).split()) < 750
    for folder in (page.parent.name for page in ROOT.glob("reports/*/report.html")):
        assert f"[{folder}](found/{folder}.md), [report](reports/{folder}.html)" in shown
    assert "[gpu](found/gpu.md) |" in shown and "README.md" not in shown


def test_findings_are_pages_whose_links_lead_to_pages(site):
    found = (site / "found" / "standard.html").read_text(encoding="utf-8")
    for link in ("../reports/standard.html", "../findings.html", "quick.html#attacks", "../gain.svg"):
        assert f'"{link}"' in found
        assert (site / "found" / link.partition("#")[0]).is_file()


def test_the_reference_explains_what_is_public(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {tuple(line.split()[:2]) for line in zlib.decompress(inventory).decode().splitlines()}
    public = {name for name in routebench.__all__ if callable(getattr(routebench, name))}
    assert public <= {name.rpartition(".")[2] for name, _ in known}
    for name in ("training.fit", "recipe.Recipe", "models.build.build", "statistics.holm", "data.load"):
        assert any(f"routebench.{name}" == one and role != "py:module" for one, role in known), name


def test_search_finds(site):
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    wanted = ["RoutingMethod", "training.fit", "How to cite", "mass_normalisation", "Questions and answers"]
    wanted += ["coupling coefficient", "uniform routing", "equal shares", "confidence interval", "early stopping"]
    wanted += ["mixed precision", "macOS", "Windows", "PyPI"]
    found = "".join(entry["title"] + entry["text"] for entry in entries)
    assert [word for word in wanted if word not in found] == []
    separator = re.compile(json.loads((site / "search" / "search_index.json").read_text())["config"]["separator"])
    (fit,) = (entry for entry in entries if entry["location"].endswith("#routebench.training.fit"))
    assert {"training", "fit"} <= set(separator.split(re.sub(r"<[^>]+>", " ", fit["title"])))


def test_functions_of_options_are_told_with_every_argument_and_presets_with_what_is_published():
    text = text_of("api/index.md")
    assert "The arguments of `compare`:" in text and "| `alpha` | `0.05` | family-wise significance level" in text
    assert "| `results` | `'results'` | folder of the results" in text
    assert "| `accuracy` | `quick` | capsnet-small | mnist5k | 3 | 39 | [quick](reports/quick.html)" in text_of(
        "suites.md"
    )
    assert "| `ROUTEBENCH_JOBS` | `--jobs` | Processes at a time" in text_of("commands.md")


def test_every_command_and_option_is_described():
    text = text_of("commands.md")
    context = click.Context(cli)
    for name in cli.list_commands(context):
        assert f"\n## {name}\n" in text
        for parameter in cli.get_command(context, name).params:
            if isinstance(parameter, click.Option):
                assert all(option in text for option in parameter.opts)
    assert text.count("python -m routebench ") >= len(cli.list_commands(context))


def test_every_word_of_the_report_is_explained():
    words, (accuracy, cost) = text_of("report.md"), ("columns reports/quick accuracy", "columns reports/quick cost")
    assert all(f"<!-- fill: {columns} -->" in (DOCS / "numbers.md").read_text() for columns in (accuracy, cost))
    text = fill(f"<!-- fill: {accuracy} -->\n<!-- fill: {cost} -->\n")
    for word, meaning in GLOSSARY:
        assert f"| **{word}** | {meaning} |" in words
    for column in ("Accuracy, %", "p (Holm)", "Rank", "ms per iteration", "Times the floor"):
        assert f"| **{column}** |" in text


def test_columns_of_results_are_the_documented_ones():
    rows = [line.split(" | ")[0] for line in (DOCS / "results.md").read_text().splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    real = list(routebench.load_results(ROOT / "tests" / "packs" / "accuracy-quick").columns)
    assert sorted(set(real) & set(named)) == sorted(real)


def test_an_unknown_request_is_an_error():
    with pytest.raises(LookupError, match="expected one of commands"):
        fill("<!-- fill: comands -->")


def test_pages_are_short():
    lengths = {page: len((DOCS / page).read_text().splitlines()) for page in pages()}
    assert {page: length for page, length in lengths.items() if length > 150} == {}
