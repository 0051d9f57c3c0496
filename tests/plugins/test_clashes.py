"""A name that is taken is an error that names both places, whoever comes with it."""

import importlib
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


MAKER = """
from routebench import analyses, datasets, losses, routing
from routebench.data import Dataset

def method(name, text):
    from routebench.routing import RoutingMethod
    @routing.register(name)
    class Mine(RoutingMethod):
        __doc__ = text
        def route(self, votes, activations): ...

def data(name, text):
    @datasets.register(name)
    def made() -> Dataset: ...

def analysis(name, text):
    @analyses.register(name)
    def made(runs): ...

def loss(name, text):
    @losses.register(name)
    def made(output, labels, moment): ...
"""
"""Functions that register, each time the same lines."""
FROM_MAKER = "from maker import analysis, data, loss, method\n"


@pytest.mark.parametrize("kind", ["method", "data", "analysis", "loss"])
@pytest.mark.parametrize("text", ["{0}('mine', '1')\n{0}('mine', '2')\n", "for text in '12':\n    {0}('mine', text)\n"])
def test_a_name_twice_in_one_file_is_refused(write, kind, text):
    write({"maker.py": MAKER, "mine.py": FROM_MAKER + text.format(kind)})
    file = write({"mine.py": FROM_MAKER + text.format(kind)})
    with pytest.raises(UserError, match=r"'mine' of mine\.py:3 is taken by mine\.py:[23]; choose another name"):
        load_plugin(str(file))
    assert all("mine" not in registry.entries for registry in EVERY.values())
    write({"mine.py": FROM_MAKER + f"{kind}('mine', '1')\n"})
    load_plugin(str(file))  # mended, it is loaded


def test_the_same_class_twice_in_one_file_is_refused(write):
    file = write({"mine.py": 2 * method("mine")})
    with pytest.raises(UserError, match=r"method 'mine' of mine\.py:16 is taken by mine\.py:5; choose another name"):
        load_plugin(str(file))


@pytest.mark.parametrize("package", [True, False])
def test_a_name_twice_in_one_folder_is_refused(write, tmp_path, package):
    importing = FROM_MAKER.replace("maker", ".maker") if package else FROM_MAKER
    write({f"two/{name}.py": importing + "method('mine', '')\n" for name in "ab"})
    write({"two/maker.py": MAKER} | ({"two/__init__.py": ""} if package else {}))
    with pytest.raises(UserError, match=r"'mine' of b\.py:2 is taken by a\.py:2"):
        load_plugin(str(tmp_path / "two"))


def test_a_file_that_one_load_imports_under_two_names_is_no_clash(write, tmp_path):
    write({"two/a.py": "import b\n", "two/b.py": method("mine")})
    load_plugin(str(tmp_path / "two"))
    assert "mine" in EVERY["methods"]


def test_a_program_may_load_again_but_not_register_twice(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    write({"own_twice.py": method("own-twice")})
    module = importlib.import_module("own_twice")
    for text in ("", "\n\n"):
        write({"own_twice.py": text + method("own-twice") + text})
        importlib.reload(module)
    names = {"__name__": "own_twice"}
    for text in ("", "\n", "\n\n"):
        exec(compile(text + method("own-twice"), "cell", "exec"), names)  # as a cell that is run again
    cell = compile(method("own-twice"), "cell", "exec")
    exec(cell, names)
    exec(cell, names)
    with pytest.raises(UserError, match=r"'own-twice' of cell:16 is taken by cell:5"):
        exec(compile(2 * method("own-twice"), "cell", "exec"), names)
    del sys.modules["own_twice"]
