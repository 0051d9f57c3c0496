"""Measures are declared once; what is published, and what shipped protocols yield, is as declared."""

import ast
import re
from pathlib import Path

import pytest

from routebench import load_results
from routebench.declared import LESS, MORE, Measure, as_recorded, declare, declared
from routebench.errors import UserError
from routebench.masking import CHECKS
from routebench.protocols import Metric
from routebench.registry import extensions, load_plugin

ROOT = Path(__file__).parents[1]
PACKS = sorted(file.parent for file in ROOT.glob("reports/*/records.parquet"))
SHIPPED = [file for part in ("protocols", "papers", "studies") for file in (ROOT / "routebench" / part).rglob("*.py")]
UNITS = {"check": {one.unit for one in CHECKS.values()}}
"""Measures whose unit is that of something else."""
UNDIRECTED = {
    ("sparsity", "residual"): "routing of few iterations is not meant to come to rest",
    ("overlap", "exact_match"): "it is `accuracy`, which is judged",
    ("predictive-coding", "right_longest"): "where inference was given the right label",
}
"""Measures with a direction of which a protocol says that they have none there, with its reason."""


@pytest.fixture
def restored():
    with extensions.restored():
        yield


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_published_records_are_as_declared(pack):
    results = load_results(pack)
    kinds = results[["protocol", "metric", "unit", "higher_is_better"]].drop_duplicates().dropna(subset="metric")
    assert len(kinds) > 5
    for protocol, metric, unit, way in kinds.astype(object).where(kinds.notna(), None).itertuples(index=False):
        assert metric in declared(), f"{metric} of protocol {protocol} is not declared"
        assert unit in UNITS.get(metric, {declared()[metric].unit}), metric
        undirected = way is None and (protocol, metric) in UNDIRECTED
        assert undirected or way is declared()[metric].higher_is_better, (protocol, metric, way)


def test_published_values_are_within_their_limits():
    for pack in PACKS:
        values = load_results(pack).dropna(subset=["metric", "value"])
        for metric, own in values.groupby("metric")["value"]:
            low, high = declared()[metric].range if metric not in UNITS else (-float("inf"), float("inf"))
            rounding = 1e-9 * max(1.0, own.abs().max())
            assert low - rounding <= own.min() <= own.max() <= high + rounding, (pack.name, metric)


def test_exceptions_are_needed():
    kinds = {
        (protocol, metric)
        for pack in PACKS
        for protocol, metric, way in load_results(pack)[["protocol", "metric", "higher_is_better"]]
        .dropna(subset="metric")
        .itertuples(index=False)
        if way is not True and way is not False and declared()[metric].higher_is_better is not None
    }
    assert kinds == UNDIRECTED.keys()


def test_shipped_protocols_yield_declared_measures_alone():
    """`Metric.of` raises for any other, in every test that measures."""
    for file in SHIPPED:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            plain = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Metric"
            assert not plain, f"{file}:{node.lineno} states unit and direction of a measure; declare it"


def test_declarations_are_whole():
    for name, measure in declared().items():
        assert measure.name == name
        assert measure.title
        assert measure.meaning, name
        assert not measure.meaning.endswith("."), name
        assert measure.share is not True or not measure.unit, name  # in %, that is said by the unit


def test_a_value_has_unit_and_direction_of_its_measure():
    assert Metric.of("accuracy", "test", 90.0, epoch=2) == Metric("accuracy", "test", 90.0, "%", True, epoch=2)
    assert Metric.of("accuracy", "test", 90.0, undirected="a test").higher_is_better is None
    with pytest.raises(UserError, match="unknown measure 'acuracy'; did you mean 'accuracy'"):
        Metric.of("acuracy", "test", 90.0)


@pytest.mark.parametrize(
    ("name", "whole", "limits"),
    [
        ("accuracy", 100.0, (0.0, 100.0)),
        ("top_share", 1.0, (0.0, 1.0)),
        ("hoyer", None, (0.0, 1.0)),
        ("static_loss", None, (-100.0, 100.0)),
        ("accuracy_taken", None, (-100.0, 100.0)),
        ("training_time", None, (0.0, float("inf"))),
        ("bound", None, (-float("inf"), float("inf"))),
    ],
)
def test_limits_follow_from_the_unit_unless_declared(name, whole, limits):
    assert (declared()[name].whole, declared()[name].range) == (whole, limits)


def test_what_nobody_declared_is_known_by_its_unit():
    assert as_recorded("my_number", "%").range == (0.0, 100.0)
    assert as_recorded("my_number", "%").title == "my number"
    assert as_recorded("accuracy", "fraction") == Measure("accuracy", "accuracy", "fraction")


@pytest.mark.usefixtures("restored")
def test_a_plugin_declares_measures(tmp_path):
    file = tmp_path / "sharpness.py"
    file.write_text("""
from routebench.protocols import Measure, Measurement, Metric, Protocol, declare, register

declare(Measure("sharpness", "Sharpness", "", False, 3, "how sharp it is"))

@register("sharpness")
class Sharpness(Protocol):
    def measure(self, request, options, context):
        return Measurement([Metric.of("sharpness", "test", 1.0), Metric("plain", "test", 2.0, "s", False)])
""")
    load_plugin(str(file))
    assert declared()["sharpness"].higher_is_better is LESS


@pytest.mark.usefixtures("restored")
def test_a_name_is_declared_once(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("""
from routebench.protocols import Measure, declare

declare(Measure("sharpness", "Sharpness"))
declare(Measure("accuracy", "Mine"))
""")
    with pytest.raises(UserError, match=r"measure 'accuracy' of plug-in .*mine.py is taken by routebench"):
        load_plugin(str(file))
    assert "sharpness" not in declared()  # it is loaded whole or not at all
    declare(Measure("sharpness", "Sharpness"))
    declare(Measure("sharpness", "Sharpness", higher_is_better=MORE))  # a notebook's cell, run again
    assert declared()["sharpness"].higher_is_better


def test_pages_explain_every_measure():
    pages = [(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("numbers", "parts", "objects")]
    asked = [
        name for page in pages for line in re.findall(r"<!-- fill: measures (.*) -->", page) for name in line.split()
    ]
    assert {*asked} == {*declared()}
