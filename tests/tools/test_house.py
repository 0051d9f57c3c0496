import pytest

from tests.tools import house


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "__init__.py": "",
        "top.py": "from routebench.ops import squash\n",
        "ops/__init__.py": '__all__ = ["squash"]\nfrom routebench.ops.squash import squash\n',
        "ops/squash.py": "from routebench.ops import norm\n\n\ndef squash():\n    return norm.norm\n",
        "ops/norm.py": "def norm():\n    from routebench.ops.squash import squash\n    return squash\n",
        "ops/_hidden.py": "def hidden(): pass\n",
        "ops/grid/__init__.py": '__all__ = ["place"]\nfrom routebench.ops.grid._place import place\n',
        "ops/grid/_place.py": "from routebench.ops._hidden import hidden\n\n\ndef place(): pass\n",
        "ops/flow/__init__.py": "from routebench.ops.flow.one import one\n",
        "ops/flow/one.py": "from routebench.ops.grid import place\n\n\ndef one(): pass\n",
    }.items():
        path = tmp_path / "routebench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_planted_circle_is_found_and_is_one_floor(tree):
    graph = house.House(tree).inside("ops").subgraph(["routebench.ops.norm", "routebench.ops.squash"])
    assert house.circles(graph) == [["routebench.ops.norm", "routebench.ops.squash"]]
    assert house.floors(graph) == 1


def test_the_door_says_what_is_public_and_imports_say_what_is_used(tree):
    built = house.House(tree)
    assert built.public_names("ops") == 1  # what `__all__` lists
    assert built.used_outside("ops") == 1  # `squash`, by routebench/top.py
    assert list(built.between().edges) == [("routebench.top", "ops")]


def test_a_package_within_a_package_is_a_room_within_a_room(tree):
    built = house.House(tree)
    assert list(built.rooms) == ["ops", "ops.grid", "ops.flow", house.TOP]
    assert [file.module for file in built.rooms["ops.grid"]] == ["routebench.ops.grid", "routebench.ops.grid._place"]
    drawn = built.inside("ops")
    assert {"ops.flow", "ops.grid"} < set(drawn)
    assert house.floors(drawn) == 3
    assert ("ops.flow", "ops.grid") in drawn.edges and ("ops.grid", "routebench.ops._hidden") in drawn.edges
    assert (built.public_names("ops.grid"), built.used_outside("ops.grid")) == (1, 1)


def test_a_circle_of_inner_rooms_is_found_where_no_files_form_one(tree):
    (tree / "routebench/ops/grid/_back.py").write_text("from routebench.ops.flow import two\n")
    (tree / "routebench/ops/flow/two.py").write_text("")
    built = house.House(tree)
    assert built.circles_between() == [["ops.flow", "ops.grid"]]
    assert not any("routebench.ops.grid._back" in circle for circle in house.circles(built.graph))


def test_a_function_is_counted_without_its_docstring(tmp_path):
    path = tmp_path / "routebench" / "x.py"
    path.parent.mkdir()
    path.write_text('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n')
    assert house.File(path, tmp_path).functions == [2]
