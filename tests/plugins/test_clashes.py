"""A name that is taken is an error that names both places, whoever comes with it."""

import subprocess
import sys

import pytest

from routebench.errors import UserError
from routebench.registry import EVERY, load_plugin
from tests.plugins.texts import analysis, method, suite


def test_plugin_against_shipped(write):
    with pytest.raises(UserError, match=r"'dynamic' of plug-in .*mine\.py is taken by routebench; choose another name"):
        load_plugin(str(write({"mine.py": method("dynamic")})))
    assert EVERY["methods"].origin("dynamic") == "routebench"
    assert EVERY["methods"]["dynamic"].__name__ == "DynamicRouting"


def test_plugin_against_plugin(write):
    load_plugin(str(write({"one/mine.py": method("mine")})))
    second = write({"two/mine.py": method("mine")})
    with pytest.raises(UserError, match=r"of plug-in .*two/mine\.py is taken by plug-in .*one/mine\.py"):
        load_plugin(str(second))
    assert EVERY["methods"].origin("mine").endswith("one/mine.py")


def test_undecorated_name_against_shipped(write):
    file = write({"mine.py": method("x", "Uniform").replace('@routing.register("x")\n', "")})
    with pytest.raises(UserError, match=r"'uniform' of plug-in .* is taken by routebench"):
        load_plugin(f"{file}:Uniform")


def test_analysis_against_shipped(write):
    with pytest.raises(UserError, match=r"analysis 'failures' of plug-in .* is taken by routebench"):
        load_plugin(str(write({"mine.py": analysis("failures")})))


@pytest.mark.parametrize("name", ["d\u0443namic", "dynamic\u202e", "dyn\u00adamic", "\uff44ynamic"])
def test_a_name_that_looks_like_another(write, tmp_path, name):
    letter = ascii(next(letter for letter in name if not letter.isascii()))
    with pytest.raises(UserError, match="write it in ASCII: its letter ") as told:
        load_plugin(str(write({"mine.py": method(name)})))
    assert letter in str(told.value)
    assert name not in EVERY["methods"]
    write({f"two/suites/{name}.toml": suite("uniform")})
    with pytest.raises(UserError, match="write it in ASCII: its letter "):
        load_plugin(str(tmp_path / "two"))


@pytest.mark.parametrize("name", ["accuracy", "mine"])
def test_suite_against_suite(write, tmp_path, name):
    if name == "mine":
        write({"one/suites/mine.toml": suite("uniform")})
        load_plugin(str(tmp_path / "one"))
    write({f"two/suites/{name}.toml": suite("uniform"), "two/mine.py": method("of-two")})
    with pytest.raises(UserError, match=rf"suite '{name}' of .*two/suites/{name}\.toml is taken by .*suites/{name}"):
        load_plugin(str(tmp_path / "two"))
    assert "of-two" not in EVERY["methods"]  # whole or not at all


def test_a_program_that_registers_before_routebench_is_looked_at(tmp_path):
    """The shipped method keeps the name, and each look-up says so."""
    code = method("dynamic") + (
        "from routebench.registry import routing\nfrom routebench.errors import UserError\n"
        "for _ in range(2):\n    try:\n        routing['em']\n    except UserError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == 2 * [
        "routing method 'dynamic' of module __main__ is taken by routebench; choose another name"
    ]
