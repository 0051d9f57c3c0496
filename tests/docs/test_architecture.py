"""The page on the layout names every part that there is, tells three journeys in few steps, and names real things."""

import re

from tests.docs.pages import DOCS, ROOT
from tests.docs.test_words import classes

TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")
MOST = 8
BESIDE = {
    "catalogue",
    "checkpoint",
    "claims",
    "cli",
    "losses",
    "masking",
    "published",
    "recipe",
    "recipes",
    "templates",
}
"""Folders that hold no part."""


def test_every_part_is_named():
    parts = {folder.name for folder in (ROOT / "routebench").iterdir() if (folder / "__init__.py").is_file()}
    named = set(re.findall(r"`([a-z_]+)`", TEXT))
    assert parts - named - BESIDE == {"tables"}


def test_a_journey_takes_few_steps():
    journeys = TEXT.split("\n## ")[1:]
    counts = [len(re.findall(r"^\d+\. ", journey, flags=re.MULTILINE)) for journey in journeys]
    assert len(counts) == 3
    assert max(counts) <= MOST


def test_classes_that_are_named_exist():
    assert set(re.findall(r"`([A-Z][A-Za-z]+)`", TEXT)) <= set(classes())
