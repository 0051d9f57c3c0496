"""The facts of a data set are those of the set that is meant, whoever registered it; a file or folder has none."""

import json

import pytest

from routebench.analysis import open_folder
from routebench.catalogue import facts_of_data, views_of
from routebench.comparing._folders import read_side
from routebench.data import load
from routebench.engine.running import prepare
from routebench.engine.suites import NamedParts
from routebench.errors import UserError
from routebench.options import SuiteOptions
from routebench.registry import datasets, load_plugin
from tests.command import import_once

TURNTABLE = """
import torch
from routebench.data import Dataset, Images, facts
from routebench.registry import datasets

def part(n):
    drawn = torch.Generator().manual_seed(n)
    pixels = torch.randint(0, 255, (n, 1, 16, 16), generator=drawn, dtype=torch.uint8)
    return Images(pixels, torch.arange(n) % 2)

@datasets.register("turntable", version=2)
@facts(train=50, held_out=10, test=40, shape=(1, 16, 16), classes=2, views=20)
def turntable():
    "Objects, seen 20 times each."
    return Dataset.of("turntable", ("a", "b"), part(60), part(40), "made up")

@datasets.register("plain")
def plain():
    "Images that say nothing of themselves."
    return Dataset.of("plain", ("a", "b"), part(60), part(40), "made up")
"""
OF_ANOTHER = [
    "{}",
    "take:5000:{}",
    "few:50:{}",
    "features:efficientnet-lite0@96:{}",
    "take:9:features:a:b/c@96:few:9:{}",
]


@pytest.mark.parametrize("name", OF_ANOTHER)
def test_facts_of_a_plugin_are_seen_through_every_name(write, name):
    assert views_of(name.format("turntable"), 40) is None  # what nobody knows is not one image each
    load_plugin(str(write({"mine.py": TURNTABLE})))
    assert [views_of(name.format("turntable"), size) for size in (40, 39)] == [20, None]
    assert (views_of(name.format("plain"), 40), facts_of_data(name.format("plain"))) == (1, {})
    assert views_of(name.format("rendered-shapes-small"), 4_050) == 162


@pytest.mark.parametrize("name", ["turntable", "rendered-shapes-small", "take:9:smallnorb"])
def test_test_images_of_a_fold_are_others(write, name):
    load_plugin(str(write({"mine.py": TURNTABLE})))
    assert [views_of(f"fold:1/3:{name}", size) for size in (40, 4_050, 24_300)] == [None] * 3
    assert views_of("fold:1/3:mnist", 10_000) == 1


@pytest.mark.parametrize(
    "name", ["folder:{}", "npz:{}", "features:{}", "folder:a:{}", "fold:1/3:folder:C:{}", "take:9:npz:{}"]
)
def test_a_file_or_folder_takes_no_facts_by_its_name(name):
    assert [facts_of_data(name.format(of)) for of in ("smallnorb", "rendered-shapes-small")] == [{}, {}]
    assert views_of(name.format("smallnorb"), 24_300) == views_of(name.format("affnist"), 320_000) == 1


def test_the_version_of_a_set_is_of_the_one_that_is_meant(write):
    load_plugin(str(write({"mine.py": TURNTABLE})))

    def versions(data):
        return NamedParts("cnn", data, None, {}, {}).versions()

    assert versions("take:50:turntable") == versions("fold:1/3:turntable") == {"data": 2}
    assert versions("folder:turntable") == versions("npz:turntable") == versions("mnist") == {}


@pytest.mark.parametrize(
    ("told", "views"),
    [(None, None), ({}, 1), ({"test": 40, "views": 20}, 20), ({"test": 40, "views": None}, None), ({"views": 20}, None)]
    + [({"test": 40, "views": bad}, None) for bad in (0, -20, 7)],
)
def test_a_plan_tells_of_a_set_that_is_not_known_here(told, views):
    assert views_of("turntable", 40, told) == views


def test_a_plan_keeps_what_its_report_needs(write, tmp_path):
    plugin, plans = str(write({"mine.py": TURNTABLE})), {}
    for data in ("turntable", "mnist5k"):
        import_once()
        options = SuiteOptions("accuracy", preset="smoke", data=data, plugins=(plugin,), results=tmp_path / data)
        (planned,) = prepare(options)
        planned.write_plan()
        plans[data] = json.loads(next((tmp_path / data / "plans").glob("*.json")).read_text())
    assert plans["turntable"]["told"] == {"data": "turntable", "test": 40, "views": 20}
    assert "told" not in plans["mnist5k"]
    assert "turntable" not in datasets.entries  # a process of its own has planned it
    (part,) = open_folder(tmp_path / "turntable").parts
    assert (part.views(40), read_side(tmp_path / "turntable").told["turntable"]["views"]) == (20, 20)


BROKEN = """
import torch
from routebench.data import Dataset, Images, Tokens
from routebench.registry import datasets

def made(name, part):
    return Dataset.of(name, ("a", "b"), part(60), part(40), "made up")

@datasets.register("endless")
def endless():
    "Tokens that are no numbers."
    return made("endless", lambda n: Tokens(torch.full((n, 3, 8), torch.nan), torch.arange(n) % 2))

@datasets.register("bright:PATH")
def bright(path):
    "Images of the wrong type."
    return made("bright", lambda n: Images(torch.rand(n, 1, 16, 16), torch.arange(n) % 2))
"""


@pytest.mark.parametrize("name", ["endless", "bright:of glass", "few:9:endless"])
def test_a_fault_in_what_a_loader_builds_is_told_with_its_name(write, name):
    load_plugin(str(write({"mine.py": BROKEN})))
    with pytest.raises(UserError, match=rf"data set '{name.removeprefix('few:9:')}': .*expected ") as told:
        load(name)
    assert str(told.value).count("data set '") == 1
