"""`routebench check` as a user calls it."""

import json
import sys
from pathlib import Path

import pytest

from routebench import cli

BROKEN = Path(__file__).parent / "broken_methods.py"
OWN = """
from routebench import routing
from routebench.ops import length, squash


@routing.register("own-mean")
class OwnMean(routing.RoutingMethod):
    def route(self, votes, activations):
        poses = squash(votes.sweep().first)
        return routing.Routed(poses, length(poses))
"""


@pytest.fixture
def call(monkeypatch, capfd, without_plugins):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["routebench", "check", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, error = capfd.readouterr()
        return ended.value.code or 0, out, error

    return run


def test_a_method_of_ones_own_is_checked_without_naming_it(call, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    code, out, error = call("--plugin", tmp_path / "own.py", "--seed", 3, "--device", "cpu")
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "own-mean: random inputs of seed 3, device cpu"
    assert lines[-1].startswith("own-mean: conforms: ")
    assert "holds: " in out
    assert "not checked" in out


def test_a_fault_is_told_with_its_input_and_advice(call):
    code, out, _ = call("broken-call", "--plugin", BROKEN, "--device", "cpu")
    assert code == 1
    assert "WRONG: ordinary shapes: it raises" in out
    assert "  at: dense (3 images" in out
    assert "  look at: " in out
    assert out.splitlines()[-1].startswith("broken-call: 1 fault: ordinary shapes")


def test_json_is_for_machines(call):
    code, out, _ = call("broken-call", "--plugin", BROKEN, "--json", "--device", "cpu")
    found = json.loads(out)
    assert code == 1
    assert found["conforms"] is False
    assert [finding["outcome"] for finding in found["findings"]] == ["WRONG", "not checked", "not checked"]
    assert found["findings"][0]["kind"] == "required"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--plugin"),
        (("dynamc",), "'dynamic'"),
        (("dynamic[detahc=true]",), "'detach'"),
        (("--plugin", BROKEN), "broken-batch"),
        (("dynamic", "--plugin", "absent.py"), "absent.py"),
    ],
)
def test_a_wrong_call_is_one_line(call, arguments, says):
    code, out, error = call(*arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert says in error
