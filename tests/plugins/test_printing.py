"""What a plug-in prints while it is imported is told on standard error, and steers no terminal."""

import json
import subprocess
import sys

import pytest

METHOD = """
import os, sys
{prints}
from routebench import routing
from routebench.ops import length, squash
@routing.register("prints")
class Prints(routing.RoutingMethod):
    def route(self, votes, activations):
        parents = squash(votes.sweep()[1])
        return routing.Routed(parents, length(parents))
"""
PRINTS = {
    "print": "print('\\x1b[2Jhello')",
    "error": "print('\\x1b[2Jhello', file=sys.stderr)",
    "bytes": "sys.stdout.buffer.write(b'\\x1b[2Jhello\\n\\xff')",
    "system": "os.write(1, b'\\x1b[2Jhello'); os.write(2, b'')",
    "program": "import subprocess; subprocess.run(['printf', '\\\\033[2Jhello'], check=True)",
    "raises": "print('\\x1b[2Jhello'); sys.exit(1)",
}


@pytest.mark.parametrize("how", PRINTS)
def test_output_of_a_plugin_is_no_output_of_a_command(tmp_path, how):
    (tmp_path / "mine.py").write_text(METHOD.format(prints=PRINTS[how]))
    called = [sys.executable, "-m", "routebench", "list", "methods", "--json", "--plugin", "mine.py"]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "\x1b" not in done.stdout + done.stderr
    assert r"plug-in mine.py prints: \x1b[2Jhello" in done.stderr
    if how != "raises":
        assert "prints" in {one["name"] for one in json.loads(done.stdout)}
    assert done.returncode == (2 if how == "raises" else 0)


PLANNED = """
import os
from routebench import routing
@routing.register("prints")
class Prints(routing.RoutingMethod):
    def __init__(self, sizes):
        super().__init__(sizes)
        os.write(1, b"\\x1b[2Jhello\\n")
    def route(self, votes, activations):
        raise NotImplementedError
"""


def test_output_of_a_method_that_is_planned_is_told_too(tmp_path):
    (tmp_path / "mine.py").write_text(PLANNED)
    words = ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--plugin", "mine.py", "--run", "z")
    called = [sys.executable, "-m", "routebench", *words]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "no such run" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert r"plug-in mine.py prints: \x1b[2Jhello" in done.stderr
