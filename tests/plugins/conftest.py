"""Plug-ins written for one test, and routebench as it was before, after it."""

import sys

import pytest

from routebench.registry import EVERY, files, installed, plugins, suites
from tests.command import Command


@pytest.fixture(autouse=True)
def as_before(tmp_path):
    for registry in EVERY.values():
        registry.load()
    entries = {kind: dict(registry._entries) for kind, registry in EVERY.items()}
    known, path = set(sys.modules), list(sys.path)
    yield
    for kind, registry in EVERY.items():
        registry._entries, registry._clash = entries[kind], None
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    sys.path[:] = path
    for kept in (suites._ADDED, plugins._LOADED, plugins._TRIED, files._FOLDERS):
        kept.clear()
    installed.PROBLEMS.clear()


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
