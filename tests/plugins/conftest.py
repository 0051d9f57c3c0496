"""Plug-ins written for one test, and routebench as it was before, after it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from routebench.registry import extensions

ROOT = Path(__file__).parents[2]


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
def program(tmp_path):
    """`python -m routebench` in a folder of its own, with more folders on the path."""

    def go(*arguments, path=(), **environment):
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT])), **environment}
        command = [sys.executable, "-m", "routebench", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    return go
