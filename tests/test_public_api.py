"""What `import routebench` promises. A name that goes or comes changes this file, and so the review."""

import importlib.metadata
import inspect
import os
import subprocess
import sys

import pytest

import routebench
from routebench.engine.origin._provenance import OUR_OWN


def test_public_names_are_these():
    assert sorted(routebench.__all__) == [
        "Placement",
        "Progress",
        "Recipe",
        "Routed",
        "RoutingMethod",
        "Sizes",
        "SuiteRun",
        "Votes",
        "analyses",
        "check",
        "compare",
        "datasets",
        "draw_coupling",
        "extract_features",
        "load_arrays",
        "load_fit",
        "load_results",
        "merge",
        "models",
        "own_file",
        "protocols",
        "rank",
        "routing",
        "run_suite",
        "training",
        "write_report",
    ]


@pytest.mark.parametrize("name", sorted(routebench.__all__))
def test_public_name_is_there_and_explained(name):
    assert inspect.getdoc(getattr(routebench, name))


@pytest.mark.parametrize("kind", ["analyses", "datasets", "models", "protocols", "routing"])
def test_every_kind_of_plugin_registers_in_one_way(kind):
    assert callable(getattr(routebench, kind).register)


def test_star_import_brings_the_public_names():
    brought = {}
    exec("from routebench import *", brought)  # a function may not hold it
    assert {name: brought[name] for name in routebench.__all__} == {
        name: getattr(routebench, name) for name in routebench.__all__
    }


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'invented'"):
        _ = routebench.invented


def test_version_is_that_of_the_installation():
    assert routebench.__version__ == importlib.metadata.version("routebench")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, OUR_OWN["GOMP_SPINCOUNT"]),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, "None"),
    ],
)
def test_waiting_threads_give_way_unless_the_user_says_otherwise(given, left):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP", "OMP_WAIT"))}
    code = "import sys, os, routebench; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **given}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [left, "False"]
