"""The page on the layout names every part that there is, tells how long three journeys are, and names real things."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import click
import pytest

from routebench.cli import cli
from routebench.registry import extensions, load_plugin
from routebench.report import write_report
from tests.docs.pages import DOCS, ROOT
from tests.docs.test_words import classes

TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")
MOST = 20
PACK = ROOT / "reports" / "grouping-quick"
REGISTER = "registry/_registry.py Registry.register"
PLUGIN = """
from routebench.routing import register
from routebench.routing.dynamic import DynamicRouting

@register("arrives")
class Arrives(DynamicRouting):
    pass
"""
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


class Arrived(KeyboardInterrupt):
    """A journey is at its end; a call lets nothing else through."""


def journey(call: Callable[[], object], start: str, end: str) -> list[str]:
    """The functions of routebench that are called one in another, from one to the first call of another in it.

    Args:
        call: the call that is followed; it ends there.
        start, end: file and name of the two functions, such as `routing/base.py IterativeRouting.route`.
    """
    passed: list[str] = []
    file, last = end.split()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == last and frame.f_code.co_filename.endswith(file):
            names = [name for one in reversed(_outwards(frame)) if (name := _name(one))]
            if start in names:
                sys.setprofile(None)
                passed.extend(names[names.index(start) :])
                raise Arrived

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    except (Arrived, click.Abort):
        pass
    finally:
        sys.setprofile(before)
    return passed


def _outwards(frame: FrameType | None) -> Sequence[FrameType]:
    return [] if frame is None else [frame, *_outwards(frame.f_back)]


def _name(frame: FrameType) -> str:
    file = Path(frame.f_code.co_filename)
    if ROOT / "routebench" not in file.parents or frame.f_code.co_name.startswith("<"):  # a comprehension
        return ""
    return f"{file.relative_to(ROOT / 'routebench').as_posix()} {frame.f_code.co_qualname}"


def run(folder: Path) -> None:
    options = ("--preset", "smoke", "--method", "dynamic", "--jobs", "1", "--results", str(folder / "results"))
    cli.main(["suite", "accuracy", *options], standalone_mode=False)


def show(folder: Path) -> None:
    write_report(PACK, folder / "page.html")


def plug_in(folder: Path) -> None:
    file = folder / "arrives.py"
    file.write_text(PLUGIN)
    with extensions.restored():
        load_plugin(str(file))


@pytest.mark.parametrize(
    ("title", "call", "start", "end"),
    [
        ("`--method em` to a routing call", run, "commands/suite.py command", "routing/base.py IterativeRouting.route"),
        ("value to a square", show, "report/_page.py write_report", "analysis/_table.py Column.printed"),
        ("plug-in file", plug_in, "registry/_plugins.py Extensions.load_plugin", REGISTER),
    ],
    ids=("run", "show", "plug-in"),
)  # fmt: skip
def test_a_journey_takes_as_many_calls_as_the_page_says(tmp_path, title, call, start, end):
    passed = journey(lambda: call(tmp_path), start, end)
    (section,) = (text for text in TEXT.split("\n## ") if title in text.partition("\n")[0])
    (told,) = re.findall(r"(\d+) calls, one in another", section)
    assert (int(told), passed[-1]) == (len(passed) - 1, end), passed
    assert len(passed) - 1 <= MOST


def test_classes_that_are_named_exist():
    assert set(re.findall(r"`([A-Z][A-Za-z]+)`", TEXT)) <= set(classes())
