"""Every promise of SECURITY.md names the tests that hold it, and they are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISES = re.findall(
    r"^\| (?!promise|---)(.+?) \| (.+?) \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE
)
READERS = ("analysis", "comparing", "engine/results", "export", "report", "tables", "plain.py", "engine/reproduce.py")
"""What reads records, arrays, plans and packs of others."""
RUNS_CODE = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "eval", "exec", "compile", "__import__",
    "torch.load", "np.load", "numpy.load", "pd.read_pickle", "marshal.load", "marshal.loads", "yaml.load",
}  # fmt: skip


def named_in(text):
    return re.findall(r"`([\w/]+\.py)::(\w+)`", text)


@pytest.mark.parametrize("promise", PROMISES, ids=[sentence[:40] for sentence, _ in PROMISES])
def test_a_promise_names_tests_that_are_there(promise):
    sentence, named = promise
    assert sentence.endswith(".")
    found = named_in(named)
    assert found and re.sub(r"`[\w/]+\.py::\w+`| ", "", named) == ""
    for file, test in found:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test.startswith("test_")
        assert test in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, f"{file} has no {test}"


def test_all_promises_are_read():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = text.partition("| --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    assert len(PROMISES) == len(rows) > 10
    assert {f"{file}::{test}" for file, test in named_in(text)} == {
        f"{file}::{test}" for _, named in PROMISES for file, test in named_in(named)
    }


def called_in(code):
    """The names that code calls or imports: `torch.load`, `pickle`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("code", ["import pickle", "from pickle import loads", "eval('1')", "torch.load(file)"])
def test_code_that_runs_code_is_found(code):
    assert not RUNS_CODE.isdisjoint(called_in(code))


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_results_unpickles_and_evaluates_nothing(reader):
    place = ROOT / "routebench" / reader
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files
    assert {
        file.name: found for file in files if (found := RUNS_CODE & {*called_in(file.read_text(encoding="utf-8"))})
    } == {}
