"""What a notebook cell defines is hashed by its own lines and all that they use."""

import linecache
import sys
from itertools import count
from types import ModuleType

import pytest

import routebench
from routebench.engine.origin import code_of
from routebench.errors import UserError
from routebench.registry import extensions

METHOD = '''
from routebench import routing

@routing.register("in-cell")
class InCell(routing.RoutingMethod):
    """{doc}"""

    def route(self, votes, activations):
        return {body}
'''
numbers = count()


@pytest.fixture
def run(monkeypatch):
    """Runs a cell, whose lines Python keeps as those of IPython; gives what the notebook holds."""
    module = ModuleType("a_notebook")
    monkeypatch.setitem(sys.modules, "a_notebook", module)
    vars(module)["__builtins__"] = __builtins__

    def go(text, *, kept=True):
        name = f"<cell {next(numbers)}>"
        if kept:
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), vars(module))  # as a notebook does
        return module

    with extensions.restored():
        yield go


def hash_of(module, name="InCell"):
    return code_of(vars(module)[name], shipped=False).yours


def test_its_code_counts_and_nothing_else_of_the_cell(run):
    first = hash_of(run(METHOD.format(doc="One.", body="votes")))
    assert hash_of(run("x = 1\n" + METHOD.format(doc="Two.", body="votes  # why") + "\ny = 2")) == first
    assert hash_of(run(METHOD.format(doc="One.", body="activations"))) != first


def test_what_it_uses_of_other_cells_counts(run):
    run("FACTOR = 1.0\nOTHER = object()\nvotes = OTHER")
    run("def half(value):\n    return FACTOR * value")
    hashes = [hash_of(run(METHOD.format(doc="", body="half(votes)")))]
    hashes.append(hash_of(run("FACTOR = 2.0")))
    hashes.append(hash_of(run("def half(value):\n    return value")))
    assert len({*hashes}) == 3
    assert hash_of(run("OTHER = 3")) == hashes[-1]  # which it does not use


def test_files_of_its_own_and_of_routebench_count(run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    hashes = set()
    for number in (1, 22):
        (tmp_path / "helper_of_cells.py").write_text(f"def helped(): return {number}\n")
        module = run("from helper_of_cells import helped\n" + METHOD.format(doc="", body="helped()"))
        hashes.add(code_of(module.InCell))
        del sys.modules["helper_of_cells"]
    assert len(hashes) == len({code.yours for code in hashes}) == 2
    assert len({code.shipped for code in hashes} - {""}) == 1


def test_a_value_without_a_text_is_refused(run):
    run("THING = object()")
    with pytest.raises(UserError, match=r"InCell uses 'THING' of the notebook, a object, .*save both as a file"):
        hash_of(run(METHOD.format(doc="", body="THING")))


def test_lines_that_nobody_keeps_are_refused(run):
    module = run(METHOD.format(doc="", body="votes"), kept=False)
    with pytest.raises(UserError, match=r"InCell: expected a file or a notebook cell .*; save it as a file"):
        hash_of(module)


def test_it_runs_here_and_nowhere_else(run, parts, suite_file, tmp_path):
    run(METHOD.format(doc="", body="votes"))
    asked = {"methods": "in-cell", "results": tmp_path / "r", "report": False}
    for elsewhere in ({}, {"jobs": 2}, {"time_limit": "5m"}):
        with pytest.raises(UserError, match="what this session registers itself is known to no other process"):
            routebench.run_suite(suite_file(seeds=1), **asked, **elsewhere)
    done = routebench.run_suite(suite_file(seeds=1), isolate=False, **asked)
    assert (done.counts.run, done.failed) == (3, 0)
    run(METHOD.format(doc="", body="activations"))
    edited = routebench.run_suite(suite_file(seeds=1), isolate=False, **asked)
    assert (edited.counts.run, edited.counts.cached, edited.failed) == (1, 2, 0)
