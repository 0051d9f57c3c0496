"""`--plugin FILE.py` and `FILE.py:Name`."""

import pytest

from routebench import routing
from routebench.capsules import Sizes
from routebench.data import load
from routebench.errors import PluginError, UserError
from routebench.registry import EVERY, datasets, load_plugin, loaded_plugins, models, protocols
from tests.plugins.texts import analysis, method

UNDECORATED = method("x").replace('@routing.register("x")\n', "")


def test_a_file_adds_what_it_decorates(write):
    added = load_plugin(str(write({"mine.py": method("mine")})))
    assert added == {**{kind: [] for kind in EVERY}, "suites": [], "methods": ["mine"]}
    assert routing.make("mine", Sizes(6, 4, 8)).name == "Mine"


def test_loading_again_gives_the_same_names(write):
    file = str(write({"mine.py": method("mine")}))
    assert load_plugin(file) == load_plugin(file)


def test_two_files_of_one_name_stand_side_by_side(write):
    files = [write({f"{folder}/mine.py": method(folder)}) for folder in ("one", "two")]
    assert [load_plugin(str(file))["methods"] for file in files] == [["one"], ["two"]]


def test_a_name_needs_no_decorator(write):
    file = write({"mine.py": UNDECORATED.replace("Mine", "HTTPLikeRouting")})
    assert load_plugin(f"{file}:HTTPLikeRouting")["methods"] == ["http-like-routing"]
    assert "http-like-routing" in EVERY["methods"]
    assert loaded_plugins() == [f"{file}:HTTPLikeRouting"]


def test_a_name_adds_only_itself_but_the_rest_is_known(write):
    file = write({"mine.py": method("one", "One") + method("two", "Two")})
    assert load_plugin(f"{file}:Two")["methods"] == ["two"]
    assert "one" in EVERY["methods"]


PROTOCOL = """
from routebench.protocols import Measurement, Protocol
class Nothing(Protocol):
    def measure(self, request, options, context):
        return Measurement([])
"""
MODEL = """
from routebench.models.cnn import ControlCNN
from routebench.models.facts import facts
@facts(source="mine", routed=False)
def tiny_cnn(shape, classes):
    return ControlCNN(shape, classes, channels=(2, 2), kernel=5, stride=2, hidden=8)
"""
DATA = "from routebench.data import Dataset, load\ndef my_digits() -> Dataset:\n    return load('mnist5k')\n"
ANALYSIS = analysis("x").replace('@analyses.register("x")\n', "").replace("(runs):", "(runs) -> Analysis | None:")


@pytest.mark.parametrize(
    ("text", "name", "kind", "known_as"),
    [
        (PROTOCOL, "Nothing", "protocols", "nothing"),
        (MODEL, "tiny_cnn", "models", "tiny-cnn"),
        (DATA, "my_digits", "data", "my-digits"),
        (ANALYSIS, "count_cells", "analyses", "count-cells"),
    ],
)
def test_a_name_is_registered_by_its_kind(write, text, name, kind, known_as):
    added = load_plugin(f"{write({'mine.py': text})}:{name}")
    assert {kind: names for kind, names in added.items() if names} == {kind: [known_as]}
    assert EVERY[kind][known_as].__name__ == name


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("", "", "registers nothing"),
        (UNDECORATED, "", "mine.py:Mine"),
        (UNDECORATED, "Mien", "did you mean 'Mine'?"),
        ("X = 3", "X", "expected a routing method"),
        ("def f():\n    return 1", "f", "or decorate it"),
    ],
)
def test_a_file_without_the_wanted_is_told(write, text, name, says):
    file = write({"mine.py": text})
    with pytest.raises(UserError, match=says) as caught:
        load_plugin(f"{file}:{name}" if name else str(file))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_told():
    with pytest.raises(UserError, match=r"absent\.py.*no such file"):
        load_plugin("absent.py:Name")


WRONG = {
    "a function": ('@routing.register("f")\ndef f(): ...', "expected a subclass of routing.RoutingMethod"),
    "another class": ('@routing.register("f")\nclass F: ...', "got class F"),
    "no route": ('@routing.register("f")\nclass F(routing.RoutingMethod): ...', "define route"),
    "no default": (
        '@routing.register("f")\nclass F(routing.RoutingMethod):\n route = 3\n def __init__(self, sizes, *, power): 1',
        "none for 'power'",
    ),
    "a name to mistype": ('@routing.register("my f")\nclass F(routing.RoutingMethod): ...', "without spaces"),
    "a protocol": ('from routebench import protocols\n@protocols.register("f")\nclass F: ...', "protocols.Protocol"),
    "a model": ('from routebench import models\n@models.register("f")\ndef f(): ...', "@models.facts"),
    "a data set": ('from routebench import datasets\n@datasets.register("f")\nclass F: ...', "expected a function"),
}


@pytest.mark.parametrize(("text", "says"), WRONG.values(), ids=WRONG)
def test_what_is_of_another_kind_is_refused(write, text, says):
    file = write({"mine.py": f"from routebench import routing\n{text}\n"})
    with pytest.raises(UserError, match=says) as caught:
        load_plugin(str(file))
    assert "\n" not in str(caught.value)
    assert not any("f" in registry for registry in EVERY.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (method("mine") + "\nraise ValueError('two\\nlines')", r"mine\.py:13 failed to import: ValueError: two lines"),
        ("import absent_module_of_a_user", "ModuleNotFoundError"),
        ("def f(:", "SyntaxError"),
        ("import sys\nsys.exit('wanted arguments')", "SystemExit: wanted arguments"),
    ],
)
def test_a_file_that_breaks_leaves_nothing(write, text, says):
    file = write({"mine.py": text})
    with pytest.raises(PluginError, match=says):
        load_plugin(str(file))
    assert "mine" not in EVERY["methods"]
    file.write_text(method("mine"))
    assert load_plugin(str(file))["methods"] == ["mine"]


def test_a_file_imports_its_neighbours(write):
    file = write({"mine.py": "from neighbour import NAME\n" + method("x").replace('"x"', "NAME"),
                  "neighbour.py": "NAME = 'named-next-door'"})  # fmt: skip
    assert load_plugin(str(file))["methods"] == ["named-next-door"]


@pytest.mark.parametrize(
    ("imports", "files", "hidden"),
    [
        ("import helpers", {"helpers.py": ""}, r"two/mine\.py: its neighbour 'helpers'"),
        ("from inner.deep import X", {"inner/deep.py": "X = 1"}, r"two/mine\.py: its neighbour 'inner\.deep'"),
        ("from inner import deep", {"inner/deep.py": "X = 1"}, r"two/mine\.py: its neighbour 'inner\.deep'"),
        ("def late():\n    import helpers", {"helpers.py": ""}, r"two/mine\.py: its neighbour 'helpers'"),
        ("def late():\n    from inner.deep import X", {"inner/deep.py": ""},
         r"two/mine\.py: its neighbour 'inner\.deep'"),
        ("from importlib import import_module\nX = import_module('helpers')", {"helpers.py": ""},
         r"two/mine\.py: its neighbour 'helpers'"),
        ("X = __import__('helpers')", {"helpers.py": ""}, r"two/mine\.py: its neighbour 'helpers'"),
        ("import inner.deep.er", {"inner/deep/er.py": "X = 1"}, r"two/mine\.py: its neighbour 'inner\.deep\.er'"),
        ("import inner", {"inner/__init__.py": "X = 1"}, r"two/mine\.py: its neighbour 'inner'"),
        ("import {}_only", {"{}_only.py": "import common", "common.py": ""},
         r"two/two_only\.py: its neighbour 'common'"),
        ("import {}_only", {"{}_only/__init__.py": "from . import a", "{}_only/a.py": "import common", "common.py": ""},
         r"two/two_only/a\.py: its neighbour 'common'"),
    ],
)  # fmt: skip
def test_a_neighbour_of_another_plugin_is_not_taken_for_the_own(write, imports, files, hidden):
    """Be it a package without `__init__.py`, or what a neighbour itself imports."""
    for folder in ("two", "one"):
        file = write({f"{folder}/mine.py": f"{imports.format(folder)}\n{method(folder)}",
                      **{f"{folder}/{name.format(folder)}": text for name, text in files.items()}})  # fmt: skip
    load_plugin(str(file))
    with pytest.raises(UserError, match=rf"{hidden} is hidden by .*one/.*\.py; rename"):
        load_plugin(str(file.parents[1] / "two" / "mine.py"))


def test_a_plugin_folder_gets_its_own_file_of_two_that_share_a_name(write):
    write({"lab/routing/mine.py": "import common\n" + method("mine"), "lab/common.py": "", "lab/routing/common.py": ""})
    folder = write({"other/common.py": "", "other/routing/its.py": "import common\n" + method("its")}).parent
    with pytest.raises(UserError, match=r"lab/routing/mine\.py: its neighbour 'common' is hidden by .*lab/common\.py"):
        load_plugin(str(folder.parent / "lab"))
    write({"lab/routing/common.py": ""}).unlink()
    load_plugin(str(folder.parent / "lab"))
    with pytest.raises(UserError, match=r"other/routing/its\.py: its neighbour 'common' is hidden by .*lab/common\.py"):
        load_plugin(str(folder))


def test_a_mistyped_name_of_a_plugin_is_suggested(write):
    load_plugin(str(write({"mine.py": method("cosine-like")})))
    for registry, wrong, right in (
        (EVERY["methods"], "cosin-like", "cosine-like"),
        (models, "capsnet-smal", "capsnet-small"),
        (datasets, "mnist5", "mnist5k"),
        (protocols, "acuracy", "accuracy"),
    ):
        with pytest.raises(UserError, match=f"unknown {registry.kind} '{wrong}'; did you mean '{right}'"):
            _ = registry[wrong]


def test_a_decorator_without_parentheses_is_told(write, call):
    write({"mine.py": "from routebench import routing\n@routing.register\nclass F(routing.RoutingMethod): ...\n"})
    done = call("list", "methods", "--plugin", "mine.py")
    assert (done.code, done.error.count("\n")) == (2, 1)
    assert "expected a name without spaces as in @register('my-name'), got <class" in done.error


@pytest.mark.parametrize("others", [{}, {"ROUTEBENCH_PLUGINS": "mine.py:my_digits"}], ids=["alone", "known already"])
def test_features_of_a_data_set_of_a_plugin_are_extracted(write, call, tmp_path, others):
    file, plugin = tmp_path / "x.safetensors", f"{write({'mine.py': DATA})}:my_digits"
    network = ("torchvision:squeezenet1_1", "--weights", "random", "--size", 32, "--device", "cpu")
    done = call("features", *network, "take:60:my-digits", "-o", file, "--plugin", plugin, **others)
    assert done.code == 0 and len(load(f"features:{file}").classes) == 10, done.error
