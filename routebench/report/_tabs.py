"""Titles of pages for readers, and the order of their tabs: as suites have them in their table `page`."""

import math

from routebench.analysis import Runs
from routebench.catalogue import page_of
from routebench.data_names import few_of

LAST = 10_000
"""The place of suites that name none."""


def paper_of(suite: str) -> str:
    """The paper that a suite says it repeats; empty where it says none."""
    return str(page_of(suite).get("paper", ""))


def menu_of(suite: str) -> str:
    """The title of the suite behind whose tab it stands; empty where it has a tab of its own."""
    return str(page_of(suite).get("menu", ""))


def is_tuning(runs: Runs) -> bool:
    """Tells whether a part holds trials of settings, beside which its suite's own runs are the subject."""
    return runs.protocol == "tuning"


def title_of(suite: str) -> str:
    """Title of a suite among others of its paper."""
    words = suite.replace("-", " ").replace("_", " ")
    return page_of(suite).get("title") or words[:1].upper() + words[1:]


def whole_title_of(suite: str) -> str:
    """Title of a suite among all: with its paper, if it repeats one."""
    return ": ".join(filter(None, (paper_of(suite), title_of(suite))))


def tab_of(runs: Runs) -> str:
    """Title of a part among others of its paper."""
    return f"{title_of(runs.suite)}{': tuning' if is_tuning(runs) else ''}"


def heading_of(runs: Runs) -> str:
    """Title of a part on its own page."""
    return f"{whole_title_of(runs.suite)}{': tuning' if is_tuning(runs) else ''}"


def place_of_tab(runs: Runs) -> tuple[int, str, tuple[bool, int, bool, float]]:
    """Sort key of a part's tab: by suite, then by preset."""
    return page_of(runs.suite).get("place", LAST), runs.suite, place_of_preset(runs)


def place_of_preset(runs: Runs) -> tuple[bool, int, bool, float]:
    """Sort key of a part among those of its suite: the strongest preset first, trials of settings last.

    `full` stands before presets of the user's own, and more training images of a data set before fewer.
    """
    return is_tuning(runs), -runs.strength.tier, runs.preset != "full", -(few_of(runs.data)[0] or math.inf)
