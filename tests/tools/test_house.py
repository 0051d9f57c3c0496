from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def house():
    spec = spec_from_file_location("house", Path(__file__).with_name("house.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "__init__.py": "",
        "top.py": "from routebench.ops import squash\n",
        "ops/__init__.py": '__all__ = ["squash"]\nfrom routebench.ops.squash import squash\n',
        "ops/squash.py": "from routebench.ops import norm\n\n\ndef squash():\n    return norm.norm\n",
        "ops/norm.py": "def norm():\n    from routebench.ops.squash import squash\n    return squash\n",
        "ops/_hidden.py": "def hidden(): pass\n",
    }.items():
        path = tmp_path / "routebench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_planted_circle_is_found_and_is_one_floor(house, tree):
    graph = house.House(tree).inside("ops")
    assert house.circles(graph) == [["routebench.ops.norm", "routebench.ops.squash"]]
    assert house.floors(graph) == 1


def test_the_door_says_what_is_public_and_imports_say_what_is_used(house, tree):
    built = house.House(tree)
    assert built.public_names("ops") == 1  # what `__all__` lists
    assert built.used_outside("ops") == 1  # `squash`, by routebench/top.py
    assert list(built.between().edges) == [("routebench.top", "ops")]


def test_a_function_is_counted_without_its_docstring(house, tmp_path):
    path = tmp_path / "routebench" / "x.py"
    path.parent.mkdir()
    path.write_text('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n')
    assert house.File(path, tmp_path).functions == [2]
