"""An edit of any file that a plug-in runs through makes other cells of it."""

import sys

import pytest

from routebench.engine.origin import _source as source
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.notation import parse
from routebench.registry import EVERY, extensions, load_plugin
from tests.plugins.texts import method

FILES = {
    "lab/routing/mine.py": (
        "import helpers.inner as inner\nfrom common import X\nimport bare.core, importlib\n"
        "importlib.import_module('dynamic_one')\n__import__('other_place')\n"
        + method("mine").replace("poses = ", "named = ['by-name', 'a-model[x=1]']\n        poses = ")
    ),
    "lab/routing/by_name.py": "from behind_name import Z\n" + method("by-name"),
    "lab/routing/behind_name.py": "Z = 1",
    "lab/models/a_model.py": (
        "from routebench import models\n\n@models.register('a-model')\n"
        "@models.facts(source='none')\ndef build(shape, classes, method):\n    raise NotImplementedError"
    ),
    "lab/routing/bare/core.py": "from . import beside\nfrom .below.deep import X",
    "lab/routing/bare/beside.py": "X = 1",
    "lab/routing/bare/below/deep.py": "from ..above import X",
    "lab/routing/bare/above.py": "X = 1",
    "lab/routing/dynamic_one.py": "X = 1",
    "place/other_place/__init__.py": "from .inside import X",
    "place/other_place/inside.py": "X = 1",
    "lab/routing/helpers/__init__.py": "",
    "lab/routing/helpers/inner.py": "from . import deeper\nfrom .deeper import Y\n",
    "lab/routing/helpers/deeper.py": "Y = 1",
    "lab/common.py": "X = 1",
    "lab/routing/stranger.py": method("stranger"),
}


@pytest.fixture
def hash_after(write, tmp_path, monkeypatch):
    """The hash of the method, once with the files as they are, once loaded with one more line in one of them."""
    write(FILES)
    monkeypatch.syspath_prepend(str(tmp_path / "place"))

    def edited(name):
        hashes = []
        for line in ("", "\nEDITED = True\n"):
            (tmp_path / name).write_text(FILES[name] + line)
            sys.modules.pop("other_place", None), sys.modules.pop("other_place.inside", None)
            with extensions.restored():
                load_plugin(str(tmp_path / "lab"))
                hashes.append(source.code_of(EVERY["methods"]["mine"]).yours)
        return hashes

    return edited


@pytest.mark.parametrize("name", [name for name in FILES if "stranger" not in name])
def test_its_own_and_what_it_imports_count(hash_after, name):
    before, after = hash_after(name)
    assert before != after


def test_others_do_not(hash_after):
    before, after = hash_after("lab/routing/stranger.py")
    assert before == after


def test_a_part_that_a_setting_names_counts(write, tmp_path):
    """By its value, whether it is the default or not; a part that no code and no setting names does not count."""
    own = "    def __init__(self, sizes, *, inner='one'):\n        super().__init__(sizes)\n\n"
    mine, others, keys = method("mine").replace("    def route", own + "    def route"), ("one", "two", "three"), []
    for name in (*others, ""):
        files = {f"lab/routing/{other}.py": method(other) + "X = 1\n" * (other == name) for other in others}
        write({"lab/routing/mine.py": mine, **files})
        with extensions.restored():
            load_plugin(str(tmp_path / "lab"))
            choices = Choices(methods=(parse("mine[inner=two]"),), seeds=range(1))
            cells = plan(load_suite("accuracy"), "smoke", choices).cells
            keys += [cell.key for cell in cells if cell.identity.method == "mine"]
    assert keys[0] != keys[3] != keys[1] and keys[2] == keys[3]


@pytest.mark.parametrize("folder", ["site-packages", "target"])
def test_of_an_installed_package_its_own_files_count(write, tmp_path, monkeypatch, folder):
    """Wherever pip has put it, and torch and other packages beside it are left out."""
    start = write({
        f"{folder}/lab_package/routing/mine.py": "import torch\nimport other_package\nfrom ..names import NAME\n",
        f"{folder}/lab_package/routing/__init__.py": "",
        f"{folder}/lab_package/names.py": "import lab_package.deep.down",
        f"{folder}/lab_package/__init__.py": "",
        f"{folder}/lab_package/deep/down.py": "",
        f"{folder}/lab_package/stranger.py": "",
        "site-packages/other_package.py": "",
    })  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    reached = {file.relative_to(tmp_path / folder).as_posix() for file in source._reachable(start)}
    names = {"__init__.py", "names.py", "deep/down.py", "routing/mine.py", "routing/__init__.py"}
    assert reached == {f"lab_package/{name}" for name in names}


def test_a_plugin_may_say_its_version_in_place_of_its_code(write):
    """Then edits leave its keys as they are, and a new version changes them."""
    keys = {}
    for version in (None, 1, 2):
        for line in ("", "EDITED = True\n"):
            said = "" if version is None else f", version={version}"
            with extensions.restored():
                load_plugin(str(write({"mine.py": method("mine").replace('("mine")', f'("mine"{said})') + line})))
                cells = plan(load_suite("accuracy"), "smoke", Choices(methods=(parse("mine"),), seeds=range(1))).cells
                (cell,) = [cell for cell in cells if cell.identity.method == "mine"]
            assert (cell.identity.source is None) == (version is not None)
            assert cell.identity.versions == (None if version is None else {"method": version})
            keys.setdefault(version, set()).add(cell.key)
    assert [len(of) for of in keys.values()] == [2, 1, 1]
    assert len(set.union(*keys.values())) == 4


@pytest.mark.parametrize("version", [0, -1, True])
def test_a_version_is_a_whole_number_from_1(write, version):
    text = method("mine").replace('("mine")', f'("mine", version={version!r})')
    with pytest.raises(UserError, match="expected a version from 1, got"):
        load_plugin(str(write({"mine.py": text})))
