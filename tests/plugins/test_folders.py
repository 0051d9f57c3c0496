"""`--plugin FOLDER`: a folder with the layout of the repository, and ROUTEBENCH_PLUGINS."""

import json
import os
import re
import sys

import pytest

from routebench.catalogue import page_of, shown_as
from routebench.engine.suites import load_suite
from routebench.errors import PluginError, UserError
from routebench.registry import (
    EVERY,
    extensions,
    load_plugin,
    loaded_plugins,
    plugin_files,
    plugins_of_environment,
    suite_files,
)
from tests.plugins.texts import analysis, method, suite


@pytest.fixture
def lab(write, tmp_path):
    """A folder with a method in two places, an analysis, a suite, and what is no plug-in."""
    write({
        "lab/beside.py": method("beside"),
        "lab/routing/mine.py": "from _common import NAME\n" + method("x").replace('"x"', "NAME"),
        "lab/_common.py": "NAME = 'mine'",
        "lab/routing/test_mine.py": "raise ValueError",
        "lab/routing/conftest.py": "raise ValueError",
        "lab/analyses/count.py": analysis("count-cells"),
        "lab/suites/own-question.toml": suite("mine"),
        "lab/pyproject.toml": "",
    })  # fmt: skip
    return tmp_path / "lab"


def test_a_folder_brings_all_that_it_holds(lab):
    added = load_plugin(str(lab))
    assert {kind: names for kind, names in added.items() if names} == {
        "methods": ["beside", "mine"],
        "analyses": ["count-cells"],
        "suites": ["own-question"],
    }
    assert load_plugin(str(lab)) == added
    assert [file.name for file in plugin_files(str(lab))] == ["beside.py", "mine.py", "count.py"]


def test_its_suites_are_found_by_name(lab):
    with pytest.raises(UserError, match="unknown suite 'own-question'"):
        load_suite("own-question")
    load_plugin(str(lab))
    assert load_suite("own-question").methods[0].name == "mine"
    with pytest.raises(UserError, match="did you mean 'own-question'"):
        load_suite("own-qestion")


def test_one_broken_file_keeps_the_folder_out(lab):
    (lab / "routing" / "wrong.py").write_text("1 / 0")
    with pytest.raises(PluginError, match=r"wrong\.py:1 failed to import: ZeroDivisionError"):
        load_plugin(str(lab))
    assert "beside" not in EVERY["methods"]
    (lab / "routing" / "wrong.py").unlink()
    assert load_plugin(str(lab))["methods"] == ["beside", "mine"]


def test_what_is_loaded_for_a_while_is_forgotten(lab):
    names, path, modules = {kind: list(registry) for kind, registry in EVERY.items()}, list(sys.path), set(sys.modules)
    with extensions.restored():
        added = load_plugin(str(lab))
        assert "mine" in EVERY["methods"] and "own-question" in suite_files()
    assert {kind: list(registry) for kind, registry in EVERY.items()} == names
    assert (loaded_plugins(), sys.path) == ([], path)
    assert "own-question" not in suite_files()
    assert set(sys.modules) == modules
    assert load_plugin(str(lab)) == added


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(UserError, match=r"suites/\*\.toml"):
        load_plugin(str(tmp_path))
    with pytest.raises(UserError, match="got a folder"):
        load_plugin(f"{tmp_path}:Name")


def test_names_in_the_environment_stay_with_their_files(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("ROUTEBENCH_PLUGINS", os.pathsep.join(["a.py", "Name", "folder", "", "b.py", "folder"]))
    assert plugins_of_environment() == ["a.py:Name", "folder", "b.py", "folder"]


def test_list_shows_plugins_of_option_and_environment(lab, write, call):
    write({"other.py": method("other")})
    done = call("list", "--json", "--plugin", "lab", ROUTEBENCH_PLUGINS="other.py")
    assert (done.code, done.error) == (0, "")
    known = {kind: {entry["name"]: entry for entry in entries} for kind, entries in json.loads(done.out).items()}
    assert known["methods"]["mine"]["origin"] == known["suites"]["own-question"]["origin"] == f"plug-in {lab}"
    assert known["methods"]["other"]["origin"].endswith("other.py")
    assert "origin" not in known["methods"]["dynamic"]
    assert "count-cells" in known["analyses"]


def test_a_broken_plugin_of_the_environment_is_told_where_plugins_are_asked_for(write, call):
    write({"wrong.py": "1 / 0"})
    done = call("list", "methods", ROUTEBENCH_PLUGINS="wrong.py")
    assert done.code == 2
    assert done.error == "Error: plug-in wrong.py:1 failed to import: ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("asked", ["--data of-it", "--model of-it", "--set training.loss=of-it"])
def test_what_is_missing_may_lie_in_a_plugin_that_did_not_import_which_is_told(write, call, asked):
    write({"wrong.py": "1 / 0"})
    done = call("suite", "accuracy", "--preset", "smoke", "--plugin", "wrong.py", *asked.split(), "--dry-run")
    assert done.code == 2 and "'of-it'" in done.error, done
    assert done.error.endswith("; plug-in wrong.py:1 failed to import: ZeroDivisionError: division by zero\n")


def test_elsewhere_it_is_one_line_and_the_others_are_there(write, monkeypatch, caplog):
    monkeypatch.setenv(
        "ROUTEBENCH_PLUGINS",
        os.pathsep.join([str(write({"wrong.py": "1 / 0"})), str(write({"other.py": method("other")}))]),
    )
    registry = EVERY["methods"]
    monkeypatch.setattr(registry, "is_loaded", False)
    assert {"other", "em"} <= set(registry)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("warning: ROUTEBENCH_PLUGINS: plug-in wrong.py:1 failed to import")


def test_a_package_that_failed_leaves_nothing_behind(write, tmp_path):
    write({
        "pack/__init__.py": "", "pack/_inner.py": "V = 1", "pack/suites/accuracy.toml": suite("packed"),
        "pack/routing/mine.py": "from .._inner import V\n" + method("packed"),
    })  # fmt: skip
    with pytest.raises(UserError, match="'accuracy'"):
        load_plugin(str(tmp_path / "pack"))
    assert [name for name in sys.modules if name.startswith("routebench_plugin_pack")] == []
    (tmp_path / "pack/suites/accuracy.toml").unlink()
    (tmp_path / "pack/_inner.py").write_text("V = 2")
    assert load_plugin(str(tmp_path / "pack"))["methods"] == ["packed"]
    assert sys.modules["routebench_plugin_pack._inner"].V == 2


def test_two_packages_of_one_name_are_refused(write, tmp_path):
    for place in ("one", "two"):
        write({f"{place}/pack/__init__.py": "", f"{place}/pack/mine.py": method(f"of-{place}")})
    load_plugin(str(tmp_path / "one/pack"))
    with pytest.raises(UserError, match=r"a package of the same name is loaded from .*; rename one folder"):
        load_plugin(str(tmp_path / "two/pack"))


def test_a_title_steers_no_terminal_and_breaks_no_line(write, tmp_path):
    facts = '    title = "A\\x1b[31m\\nB"\n    colour = "red"\n\n'
    page = 'page = { title = "P\\tQ", place = "first" }\n'
    write({
        "lab/titled.py": method("titled").replace("    def route", f"{facts}    def route"),
        "lab/suites/paged.toml": page + suite("titled"),
    })  # fmt: skip
    load_plugin(str(tmp_path / "lab"))
    assert shown_as("titled") == {"title": "A\\x1b[31m B", "colour": "red"}
    assert page_of("paged") == {"title": "P Q"}
    assert extensions.says_how_it_is_shown(str(tmp_path / "lab"))


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("title = 3", "expected text for 'title', got 3; write a text"),
        ('colour = "rde"', "unknown colour 'rde'; did you mean 'red'"),
        ('colour = "#ff0000"', "unknown colour '#ff0000'; known: blue, brown,"),
    ],
)
def test_a_title_that_is_no_text_and_a_colour_that_there_is_not_are_refused(write, tmp_path, fact, said):
    file = write({"titled.py": method("titled").replace("    def route", f"    {fact}\n\n    def route")})
    with pytest.raises(UserError, match=re.escape(said)):
        load_plugin(str(file))
