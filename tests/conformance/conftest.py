"""The methods with mistakes, which no other test may find in the registry."""

from pathlib import Path

import jaxtyping
import pytest

from routebench.registry import extensions, load_plugin, routing

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
    with extensions.restored():
        yield {name.removeprefix("broken-"): routing[name] for name in load_plugin(str(BROKEN))["methods"]}


@pytest.fixture
def without_plugins():
    """Takes out of the registry what a test has put in."""
    with extensions.restored():
        yield
