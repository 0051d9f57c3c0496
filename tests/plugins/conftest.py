"""Plug-ins written for one test, and routebench as it was before, after it."""

import pytest

from routebench.registry import extensions
from tests.command import Command


@pytest.fixture(autouse=True)
def as_before():
    with extensions.restored():
        yield


@pytest.fixture
def write(tmp_path):
    """Writes files below the test's folder; gives the path of the first."""

    def go(files):
        paths = []
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            paths.append(path)
        return paths[0]

    return go


@pytest.fixture
def call(tmp_path, capfd):
    """Runs the command line in the test's folder."""
    return Command(tmp_path, capfd)
