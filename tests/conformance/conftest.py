"""The methods with mistakes, which no other test may find in the registry."""

import sys
from pathlib import Path

import jaxtyping
import pytest

from routebench.registry import load_plugin, routing

BROKEN = Path(__file__).parent / "broken_methods.py"


@pytest.fixture(autouse=True)
def as_users_run_it():
    """Without the checks of shapes that only tests have: they raise before the method's own errors, and take long."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def broken():
    """The registered classes of broken_methods.py, by name without `broken-`."""
    with loaded(BROKEN) as names:
        yield {name.removeprefix("broken-"): routing[name] for name in names}


@pytest.fixture
def without_plugins():
    """Takes out of the registry what a test has put in."""
    before = {name: routing[name] for name in routing}
    yield
    for name in set(routing) - set(before):
        forget(routing[name].__module__)


def forget(module):
    routing.drop(module)
    sys.modules.pop(module, None)


class loaded:  # noqa: N801  # used as a function
    """A plug-in, registered for a while."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        self.names = load_plugin(str(self.file))["methods"]
        return self.names

    def __exit__(self, *raised):
        forget(routing[self.names[0]].__module__)
