"""One word means one thing: no class name stands for two, the glossary is short, and pages use its words."""

import ast
import re
from collections import defaultdict
from functools import cache

from tests.docs.pages import DOCS, ROOT

OWN = "each model has its own, in its package"
TWICE = {
    "Bound": OWN,
    "Column": "of a table as stored, and as shown",
    "Finding": "of a check, and of the doctor",
    "ObjectEncoder": OWN,
    "PartEncoder": OWN,
    "Plan": "of a suite, of attacks, and of a kernel",
    "Seen": OWN,
    "SelfAttention": OWN,
    "Sizes": OWN,
    "Sparsity": OWN,
    "Widths": OWN,
}
"""Public class names that are defined twice, and why still."""
FILES = [*ROOT.glob("routebench/**/*.py"), *ROOT.glob("analyses/*.py")]
ROW = re.compile(r"^\| \*\*([^|]+)\*\* \| ([^|]+) \| ([^|]*) ?\|$", re.MULTILINE)
LONGEST = 45
"""Rows of the glossary, at most."""
PROSE = [
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "reports/**/*.md", "routebench/**/*.md"),
    *("suites/**/*.md", "suites/*.toml", "routebench/**/*.toml"),
]
"""Pages, and the files whose sentences stand on pages."""
CODE = re.compile(r"^```.*?^```$|^ {4}.*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FORMER = {
    "knob": "hyperparameter",
    "twin": "small-scale replication",
    "named comparison": "pre-specified comparison",
    "equal shares": "uniform routing",
    "optimiser": "optimizer",
    "control": "baseline",
    "cell": "run",
}
"""Words of before, with those that pages use now."""
OTHER = re.compile(r"(table|notebook) cells?|control characters", re.IGNORECASE)
"""The same words with another meaning."""


@cache
def classes():
    """Where each public class is defined, by name."""
    found = defaultdict(list)
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(ROOT)))
    return found


def rows():
    """Word, meaning and classes of each row of the glossary."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    return [(word, meaning, re.findall(r"`(\w+)`", named)) for word, meaning, named in ROW.findall(text)]


def former_words(markdown):
    """The words of before that a page still uses, outside code."""
    prose = OTHER.sub("", CODE.sub("", markdown))
    return re.findall(rf"\b(?:{'|'.join(FORMER)})s?\b", prose, re.IGNORECASE)


def test_no_class_name_is_defined_twice():
    twice = {name: files for name, files in classes().items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(twice), "defined once now: take it out of TWICE"


def test_the_glossary_is_short_and_explains_every_word_once():
    words = [word for both, _, _ in rows() for word in both.split(", ")]
    assert len(words) == len(set(words))
    assert 30 < len(rows()) <= LONGEST
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert len(rows()) == len(re.findall(r"^\| \*\*", text, re.MULTILINE)), "a row has no three columns"


def test_a_meaning_is_one_sentence():
    assert [word for word, meaning, _ in rows() if meaning.count(". ") or not meaning.endswith(".")] == []


def test_every_class_of_the_glossary_exists_and_stands_for_one_word():
    named = [name for _, _, names in rows() for name in names]
    assert len(named) == len(set(named)) > 15
    assert set(named) <= set(classes())
    assert not set(named) & set(TWICE)


def test_pages_use_the_words_of_the_field():
    pages = {page for pattern in PROSE for page in ROOT.glob(pattern)}
    found = {str(page.relative_to(ROOT)): former_words(page.read_text(encoding="utf-8")) for page in sorted(pages)}
    assert len(found) > 50
    assert {page: words for page, words in found.items() if words} == {}


def test_a_former_word_is_noticed():
    assert former_words("A cell of a suite; `cell`; a table cell.\n```python\ncell = 1\n```\nTwins.") == [
        "cell",
        "Twins",
    ]
