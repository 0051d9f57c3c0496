"""Turns a suite's file, a preset and the user's choices into the list of runs."""

from routebench.engine.suites._cell import Cell, cell_of, code_behind, of_session, parts_of
from routebench.engine.suites._changes import expect_once
from routebench.engine.suites._lineup import METHOD, Choices
from routebench.engine.suites._parts import NamedParts, older_parts, stamped
from routebench.engine.suites._plan import Plan, count_runs, plan
from routebench.engine.suites._planning import Asked, make_plans
from routebench.engine.suites._points import expect_name
from routebench.engine.suites._settings import ChosenPoint, ChosenSettings, digest_of
from routebench.engine.suites._suite import load_suite
from routebench.engine.suites._tuning import FIRST_SEED, OF_METHOD, OF_MODEL, settled

__all__ = [
    "FIRST_SEED",
    "METHOD",
    "OF_METHOD",
    "OF_MODEL",
    "Asked",
    "Cell",
    "Choices",
    "ChosenPoint",
    "ChosenSettings",
    "NamedParts",
    "Plan",
    "cell_of",
    "code_behind",
    "count_runs",
    "digest_of",
    "expect_name",
    "expect_once",
    "load_suite",
    "make_plans",
    "of_session",
    "older_parts",
    "parts_of",
    "plan",
    "settled",
    "stamped",
]
