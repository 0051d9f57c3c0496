"""One word means one thing: no class name stands for two, and `docs/words.md` names the classes of its words."""

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

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
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*) ?\|$", re.MULTILINE)


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
    """Word, meaning and classes of each row of the page."""
    text = (DOCS / "words.md").read_text(encoding="utf-8")
    found = [(word, meaning, re.findall(r"`(\w+)`", named)) for word, meaning, named in ROW.findall(text)]
    return [row for row in found if row[0] not in {"word", "---"}]


def last_word(name):
    """`Cell` of `MeasuredCell`."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", name)[-1]


def test_no_class_name_is_defined_twice():
    twice = {name: files for name, files in classes().items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(twice), "defined once now: take it out of TWICE"


def test_the_page_names_every_class_of_its_words():
    named = [name for _, _, names in rows() for name in names]
    assert len(named) == len(set(named)) > 30
    words = {last_word(name) for name in named}
    assert sorted(name for name in classes() if last_word(name) in words) == sorted(named)


def test_every_word_is_explained_once():
    words = [word for both, _, _ in rows() for word in both.split(", ")]
    assert len(words) == len(set(words)) > 40


@pytest.mark.parametrize(("name", "last"), [("MeasuredCell", "Cell"), ("ControlCNN", "CNN"), ("Fit", "Fit")])
def test_the_last_word_of_a_name(name, last):
    assert last_word(name) == last
