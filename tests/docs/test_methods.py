"""Every routing method has a page that says what the code says, and the reference has every public name."""

import re

import pytest

import routebench
from routebench.capsules import Sizes
from routebench.catalogue import catalogue
from routebench.errors import UserError
from routebench.routing import hyperparameters_of, make
from tests.docs.pages import DOCS, ROOT, fill, text_of

METHODS = sorted(one["name"] for one in catalogue()["methods"])
PARTS = ["The rule", "Step by step", "When to use it", "Published results", "Hyperparameters"]
PARTS += ["Departures from the publication", "Claims that are measured", "Cost", "Cite"]
WORD = re.compile(r"`([^`]+)`")


def section(name, heading):
    return text_of(f"methods/{name}.md").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def options(name):
    """The rows of a page's table of hyperparameters, by name: default, legal values, meaning."""
    rows = [line.strip("| ").split(" | ") for line in section(name, "Hyperparameters").splitlines()[3:]]
    return {WORD.findall(row[0])[0]: row[1:] for row in rows if len(row) == 4}


def test_there_is_a_page_per_method_and_none_too_many():
    assert sorted(page.stem for page in (DOCS / "methods").glob("*.md")) == sorted([*METHODS, "index"])


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_all_parts(name):
    page = text_of(f"methods/{name}.md")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == PARTS
    assert re.search(r"^\| \*{0,2}Source.* \|$", page, re.MULTILINE)  # in one line, as a row of a table is
    assert "<math" in section(name, "The rule")
    assert "```bibtex\n" in section(name, "Cite") and f"% {name}:" in section(name, "Cite")
    (entry,) = (one for one in catalogue()["methods"] if one["name"] == name)
    listed = [line.removeprefix("- ") for line in section(name, "Claims that are measured").splitlines() if line]
    assert sorted(listed) == sorted(entry["claims"])


@pytest.mark.parametrize("name", METHODS)
def test_a_page_names_every_hyperparameter_and_its_legal_values(name):
    shown, defaults = options(name), hyperparameters_of(name)
    assert list(shown) == list(defaults)
    for key, default in defaults.items():
        written, legal, meaning = shown[key]
        assert written == f"`{str(default).lower() if isinstance(default, bool) else default}`" and len(meaning) > 10
        for word in WORD.findall(legal):
            make(name, Sizes(2, 2, 4), **{key: {"true": True, "false": False}.get(word, word)})
        if found := re.fullmatch(r"(whole )?numbers ≥ (\S+)( and < (\S+))?", legal):
            kind = int if found[1] else float
            make(name, Sizes(2, 2, 4), **{key: kind(float(found[2]))})
            for wrong in [kind(float(found[2])) - 1, *([float(found[4])] if found[4] else [])]:
                with pytest.raises(UserError, match=key):
                    make(name, Sizes(2, 2, 4), **{key: wrong})
        elif legal not in ("numbers", "numbers > 0"):
            assert WORD.findall(legal)


def test_values_that_a_method_refuses_are_not_listed():
    assert "equilibrium-implicit" in options("em")["schedule"][1]
    assert "equilibrium-implicit" not in options("dynamic")["schedule"][1]


def test_the_work_is_what_the_method_asks_for():
    assert "First iteration: 1 sweep without logits. Each further iteration: 1 sweep." in section("dynamic", "Cost")
    assert "Each further iteration: 1 sweep with second moments." in section("em", "Cost")
    assert "One pass: 1 weighted sum (`aggregate`)." in section("static", "Cost")


def test_a_page_has_what_the_method_reached_with_what_limits_it():
    results = section("dynamic", "Published results")
    assert "| [Fashion-MNIST](../found/standard.md) | 2 | 89.76 ± 0.15 | +0.32 [+0.16, +0.48] |" in results
    assert "| [features of photographs](../found/features.md) | 3 | 80.88 ± 0.17 | +1.69 [+1.48, +1.89] |" in results
    assert "| – | 89.43 ± 0.11 | – |" in section("uniform", "Published results")
    gated = section("self-routing", "Published results")
    assert "| – | 85.92 ± 0.12 | −3.52 [−3.68, −3.35] (without its authors' primary capsules; " in gated
    theirs = "[Fashion-MNIST](../found/standard.md), Hahn's primary capsules | – |"
    assert f"| {theirs} 87.28 ± 0.16 | −1.82 [−1.99, −1.65] |" in gated  # not without them
    assert f"| {theirs} 89.10 ± 0.10 | – |" in section("uniform", "Published results")
    assert "| +0.82 (seeds fell out of the others" in section("slot-attention", "Published results")
    reconstructed = section("wang-liu", "Published results").splitlines()[3:9]
    assert all("reconstructed: we had no copy of the paper" in row for row in reconstructed)
    assert "| 1 | 79.19 ± 0.10 | the same function (" in reconstructed[3]  # as uniform routing
    assert section("mesh", "Published results").strip() == "It is in no published results yet."


def test_the_overview_has_every_method():
    rows = [line for line in text_of("methods/index.md").splitlines() if line.startswith("| [`")]
    assert sorted(WORD.findall(row)[0] for row in rows) == METHODS
    (em,) = (row.split(" | ") for row in rows if "(em.md)" in row)
    (attention,) = (row.split(" | ") for row in rows if "(inverted-attention.md)" in row)
    assert em[2:6] == ["yes", "yes", "yes", "20"]  # a beta_u and a beta_a for each of ten classes
    assert attention[2:6] == ["yes", r"no \*", r"no \*", "32"]


def test_the_reference_lists_every_public_name():
    listed = fill("<!-- fill: public-names -->")
    assert WORD.findall("".join(re.findall(r"^\| \[(`\w+`)\]", listed, re.MULTILINE))) == list(routebench.__all__)


def test_every_data_set_has_a_licence():
    named = set(WORD.findall((DOCS / "data.md").read_text()))
    variants = ("smallnorb", "rendered-shapes")
    for one in catalogue()["data"]:
        name = one["name"].replace("take:PATH", "take:NUMBER:NAME").replace("fold:PATH", "fold:K/N:NAME")
        name = name.replace("few:PATH", "few:NUMBER:NAME")
        assert name in named or name.startswith(variants), name


def test_the_citation_is_that_of_the_repository():
    shown = fill("<!-- fill: own-citation -->")
    written = (ROOT / "CITATION.cff").read_text()
    assert (
        re.search(r"version = \{(.+)\}", shown)[1] in written
        and re.search(r"title = \{\{(.+)\}\}", shown)[1] in written
    )


def test_sections_of_a_file_lead_nowhere_that_is_not_on_the_site():
    shown = fill("<!-- fill: sections CHANGELOG.md -->")
    assert shown.startswith("## ") and not re.search(r"\]\((?!https?:)", shown)
