"""Whatever a program gives to a public function, an error of its own is one `UserError`, as on the command line."""

import inspect
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import routebench
from routebench import check, compare, draw_coupling, load_arrays, load_fit, load_results, run_suite, write_report
from routebench.arguments import Count, Share
from routebench.data import load
from routebench.errors import UserError
from routebench.given import checked
from routebench.registry import EVERY

FUNCTIONS = (check, compare, draw_coupling, load_arrays, load_fit, load_results, run_suite, write_report)
VALUES = (b"x", object(), [None], [["a"]], {"a": 1}, {"a": "b"})
TEXTS = (5, -1, float("nan"), True, "a\0b", "x" * 300)
"""Where no number is expected."""
GIVEN = [
    (
        function,
        name,
        VALUES if {"int", "float", "bool"} & {*re.findall(r"\w+", str(one.annotation))} else VALUES + TEXTS,
    )
    for function in FUNCTIONS
    for name, one in inspect.signature(function).parameters.items()
    if not isinstance(one.annotation, str)
]
BASE = {
    "suite": "accuracy",
    "results": "absent",
    "path": "absent",
    "cell": "0" * 16,
    "images": 0,
    "base": "absent",
    "head": "absent",
}


def id_of(one):
    return getattr(one, "__name__", None)


@pytest.mark.parametrize(("function", "name", "values"), GIVEN, ids=id_of)
def test_wrong_arguments_of_public_functions_are_told_in_one_line(tmp_path, monkeypatch, function, name, values):
    monkeypatch.chdir(tmp_path)
    needed = {one: BASE[one] for one in inspect.signature(function).parameters if one in BASE}
    for value in values:
        with pytest.raises(UserError) as caught:
            function(**{**needed, name: value})
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [None, "0", [], {}, True])
@pytest.mark.parametrize(("function", "name"), [(check, "seed"), (compare, "alpha")], ids=id_of)
def test_a_number_is_a_number(function, name, value):
    with pytest.raises(UserError, match=f"{name}: expected an? "):
        function("absent", **({} if function is check else {"head": "absent"}), **{name: value})


NO_NAMES = """
from routebench.errors import UserError
from routebench.registry import EVERY
for kind in EVERY.values():
    for name in (None, 5, [], {}, b"x"):
        try:
            kind[name]
        except UserError as error:
            print(str(error)[:7] if name not in kind else "known")
"""
NINES = 5_000 * "9"


@pytest.mark.parametrize(
    "name",
    [
        f"take:{NINES}:mnist5k", f"fold:1/{NINES}:mnist5k", f"folder:.?size={NINES}", "fold:1/9999:mnist5k",
        "fold:1/4000:mnist5k", f"take:9:take:{NINES}:x",
    ],
    ids=lambda name: name[:20],
)  # fmt: skip
def test_a_number_that_no_data_set_can_have_is_told(name):
    with pytest.raises(UserError):
        load(name)


def test_what_is_no_name_is_no_entry():
    done = subprocess.run([sys.executable, "-c", NO_NAMES], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["unknown"] * 5 * len(EVERY), done.stderr  # tests check types themselves


def test_all_that_fits_is_passed_on():
    @checked
    def function(
        several: str | Path | list[str] = (), *, limit: float | str | None = None, place: Path | str = "", other=None
    ):
        return several, limit, place, other

    assert function("a") == ("a", None, "", None)
    assert function(Path("a"), limit=3, place=Path("b"), other=[1]) == (Path("a"), 3, Path("b"), [1])
    assert function(limit="30m").__class__ is tuple
    assert inspect.signature(routebench.run_suite).parameters["preset"].default == "quick"


PATHS = [(function, name) for function, name, _ in GIVEN if "Path" in str(inspect.signature(function).parameters[name])]


@pytest.mark.parametrize(("function", "name"), PATHS, ids=id_of)
def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, function, name):
    monkeypatch.chdir(tmp_path)
    needed = {one: BASE[one] for one in inspect.signature(function).parameters if one in BASE}
    with pytest.raises(UserError, match=f"{name}: expected a path, got an empty one"):
        function(**{**needed, name: ""})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=id_of)
def test_the_nearest_name_of_a_mistyped_argument_is_told(function):
    name = [*inspect.signature(function).parameters][-1]
    with pytest.raises(TypeError, match=f"unexpected argument '{name}x'; did you mean .*'{name}'"):
        function("absent", **{f"{name}x": 1})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": 0}, "^count: expected an integer of at least 1, got 0$"),
        ({"count": 2.0}, "^count: expected an integer of at least 1, got 2.0$"),
        ({"count": True}, "^count: expected an integer of at least 1, got True$"),
        ({"share": 1.5}, "^share: expected a number from 0 to 1 or none, got 1.5$"),
        ({"sizes": [1, 0]}, "^sizes: expected an integer of at least 1, got 0$"),
        ({"limit": -1}, "^limit: expected an integer of at least 1 or text, got -1$"),
    ],
    ids=str,
)
def test_bounds_that_are_annotated_are_kept(given, expected):
    @checked
    def function(
        count: Count = 1, share: Share | None = None, sizes: Count | Sequence[Count] = 1, limit: Count | str = 1
    ):
        return count, share, sizes, limit

    assert function() == (1, None, 1, 1)
    assert function(2, 0.5, [3, np.int64(4)], "all") == (2, 0.5, [3, 4], "all")
    with pytest.raises(UserError, match=expected):
        function(**given)


def test_a_list_may_be_annotated_alone():
    @checked
    def taking(names: Sequence[str], sizes: int | Sequence[int] = 1, paths: Sequence[str | Path] = ()) -> int:
        return len(names)

    assert taking(["a", "b"], [1, 2], [Path("c"), "d"]) == 2 and taking(("a",), 3) == 1
    for given in ({"names": [1]}, {"names": ["a"], "sizes": ["b"]}, {"names": ["a"], "paths": [1]}):
        with pytest.raises(UserError, match=rf"^{[*given][-1]}: expected .+, got"):
            taking(**given)
