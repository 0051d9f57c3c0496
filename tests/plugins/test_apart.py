"""What a plug-in changes when it is imported changes no plan of what does without it."""

import pytest

from routebench.engine.suites import Asked, Choices, make_plans
from routebench.errors import UserError
from routebench.notation import parse
from tests.command import import_once
from tests.plugins.texts import SUITE, method

CONTROLS = ("uniform", "random", "none", "cnn")
LEARNS_NOT = """
import dataclasses
import routebench.engine.suites._points as points
real = points.cell_of
def changed(identity, *rest):
    return real(dataclasses.replace(identity, training={**identity.training, "learning_rate": 1e-9}), *rest)
points.cell_of = changed
"""
DEFAULTS = """
import routebench.engine.suites._points as points
points.hyperparameters_of = lambda name: {}
"""
FEWER = """
import routebench.engine.suites._lineup as lineup
lineup.CONTROLS = ()
"""
RAISES = {
    "a TypeError": "import numpy; numpy.random.RandomState = None",
    "an error of the user": "import torch; torch.zeros = torch.randn = torch.zeros_like = torch.ones = None",
    "an end": "import os, routebench.recipe as r; r.Recipe.__post_init__ = lambda self: os._exit(3)",
    "no JSON": "import json; json.dumps = lambda *_, **__: 'garbage'",
}


def planned(plugins, *methods, suite="accuracy"):
    import_once()
    specs = tuple(map(parse, methods))
    found = make_plans(Asked(str(suite), "smoke", Choices(methods=specs), tuple(map(str, plugins))))
    return found.plans[0].cells, found.warnings


def keys(cells, names):
    return sorted(cell.key for cell in cells if cell.identity.method in names)


@pytest.fixture(scope="module")
def plain():
    """The plan of shipped entries where no plug-in is."""
    return planned((), "dynamic")[0]


@pytest.mark.parametrize("deed", [LEARNS_NOT, DEFAULTS, FEWER], ids=["learning rate", "defaults", "controls"])
def test_shipped_entries_are_planned_where_no_plugin_was_imported(write, plain, deed):
    file = write({"bad.py": method("bad") + deed})
    cells, warnings = planned([file], "bad", "dynamic")
    shipped = ("dynamic", *CONTROLS)
    assert keys(cells, shipped) == keys(plain, shipped)
    assert {cell.identity.method for cell in cells if cell.plugins} == {"bad"}
    (told,) = warnings
    assert told.startswith(f"plug-in {file} changed how what does without it is planned")


def test_an_honest_plugin_changes_nothing_and_nothing_is_said(write, plain):
    cells, warnings = planned([write({"fine.py": method("fine")})], "fine", "dynamic")
    assert keys(cells, ("dynamic", *CONTROLS)) == keys(plain, ("dynamic", *CONTROLS))
    assert next(cell.identity.method for cell in cells) == "fine"
    assert warnings == []


def test_one_plugin_changes_no_plan_of_another(write):
    fine = write({"fine.py": method("fine")})
    alone, _ = planned([fine], "fine")
    both, _ = planned([write({"bad.py": method("bad") + LEARNS_NOT}), fine], "fine", "bad")
    assert keys(both, ("fine",)) == keys(alone, ("fine",))
    (cell,) = [cell for cell in both if cell.identity.method == "bad"]
    assert cell.identity.training["learning_rate"] == 1e-9  # its own affair


@pytest.mark.parametrize("how", RAISES)
def test_an_error_of_a_shipped_part_names_the_plugin_and_the_rest_runs(write, plain, how):
    bad, fine = write({"bad.py": method("bad") + RAISES[how]}), write({"fine.py": method("fine")})
    cells, (told, *_) = planned([bad, fine], "bad", "fine", "dynamic")
    reasons = {cell.identity.method: cell.broken for cell in cells}
    assert str(bad) in reasons.pop("bad")
    assert set(reasons.values()) == {""}
    assert keys(cells, ("dynamic", *CONTROLS)) == keys(plain, ("dynamic", *CONTROLS))
    assert {"fine", *CONTROLS} <= reasons.keys()
    assert str(bad) in told
    assert str(fine) not in told


@pytest.mark.parametrize(
    ("methods", "told"),
    [(("fine[nothing=1]",), "nothing"), (("fin",), "did you mean 'fine'"), (("uniform[a=1]",), "a")],
)
def test_a_mistake_of_the_user_is_still_one(write, methods, told):
    with pytest.raises(UserError, match=told):
        planned([write({"fine.py": method("fine")})], *methods)


def test_a_suite_of_a_plugin_is_planned_likewise(write):
    file = write({"all/mine.py": method("mine") + LEARNS_NOT, "all/suites/own.toml": SUITE.format(method="mine")})
    cells, warnings = planned([file.parent], suite="own")
    rates = {cell.identity.method: cell.identity.training["learning_rate"] for cell in cells}
    assert rates.pop("mine") == 1e-9
    assert set(rates.values()) == {1e-3}
    assert any("changed how" in one for one in warnings)
