"""From a suite's file, a preset and the user's choices to the list of cells."""

from routebench.engine.suites._choices import Choices
from routebench.engine.suites._lineup import METHOD
from routebench.engine.suites._plan import Cell, Plan, digest, plan, plugins_for
from routebench.engine.suites._planning import ALL, Asked, make_plans
from routebench.engine.suites._suite import load_suite

__all__ = [
    "ALL",
    "METHOD",
    "Asked",
    "Cell",
    "Choices",
    "Plan",
    "digest",
    "load_suite",
    "make_plans",
    "plan",
    "plugins_for",
]
