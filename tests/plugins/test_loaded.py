"""What is known of a file's source is what this process runs."""

import importlib
import os
import py_compile
import sys

import pytest

from routebench.engine.origin import code_of
from routebench.errors import UserError
from routebench.registry import EVERY, extensions, import_file, load_plugin, loaded_source
from tests.plugins.texts import method


def test_an_edit_after_the_import_of_a_plugin_is_not_what_runs(write):
    file = write({"mine.py": method("mine")})
    load_plugin(str(file))
    before = code_of(EVERY["methods"]["mine"])
    write({"mine.py": method("mine") + "EDITED = True\n"})
    assert code_of(EVERY["methods"]["mine"]) == before
    assert loaded_source(file) == method("mine").encode()


def test_an_edit_that_leaves_size_and_time_is_imported(write):
    file = write({"mine.py": "X = 1"})
    for number in (1, 2):
        write({"mine.py": f"X = {number}"})
        os.utime(file, (1_000_000_000, 1_000_000_000))
        with extensions.restored():
            assert number == import_file(file).X


@pytest.mark.parametrize("name", ["_beside.py", "inner/__init__.py", "inner/deep.py"])
@pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
def test_what_a_plugin_imports_from_beside_it_runs_as_it_is_hashed(write, tmp_path, name, mode):
    """Not as Python compiled it before: by an edit that leaves size and time, or by who sends it with other code."""
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    file = write({"mine.py": f"import {module}\n{method('mine')}\nX = {module}.X", "inner/__init__.py": "X = 0"})
    beside = tmp_path / name
    beside.parent.mkdir(exist_ok=True)
    beside.write_text("X = 1")
    os.utime(beside, (1_000_000_000, 1_000_000_000))
    py_compile.compile(str(beside), invalidation_mode=py_compile.PycInvalidationMode[mode])
    beside.write_text("X = 2")
    os.utime(beside, (1_000_000_000, 1_000_000_000))
    with extensions.restored():
        assert import_file(file).X == 2
        assert loaded_source(beside) == b"X = 2"
    for one in (module, module.partition(".")[0]):
        sys.modules.pop(one, None)


def test_a_neighbour_hides_nothing_that_is_built_in_or_installed(write):
    file = write({"mine.py": method("mine"), "time.py": "1 / 0", "torch.py": "1 / 0", "colorsys.py": "1 / 0"})
    sys.modules.pop("colorsys", None)
    with extensions.restored():
        import_file(file)
        assert all(importlib.import_module(name) for name in ("time", "torch", "colorsys"))


def test_a_module_that_is_loaded_again_is_hashed_again(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    write({"own_way.py": method("own-way")})
    module = importlib.import_module("own_way")
    before = code_of(EVERY["methods"]["own-way"])
    write({"own_way.py": method("own-way") + "EDITED = True\n"})
    assert code_of(EVERY["methods"]["own-way"]) == before
    importlib.reload(module)
    assert code_of(EVERY["methods"]["own-way"]) != before
    del sys.modules["own_way"]


def test_a_file_that_comes_to_lie_beside_it_counts(write, tmp_path):
    """Nothing is remembered by its path."""
    file = write({"mine.py": "try:\n    import late_neighbour\nexcept ImportError:\n    pass\n" + method("mine")})
    load_plugin(str(file))
    before = code_of(EVERY["methods"]["mine"])
    write({"late_neighbour.py": "X = 1"})
    assert code_of(EVERY["methods"]["mine"]) != before
    write({"late_neighbour.py": "X = 2"})
    assert len({before, code_of(EVERY["methods"]["mine"])}) == 2


def test_a_file_that_a_plugin_reads_counts_as_its_code(write, tmp_path):
    """One that was written since the plug-in was imported is neither what it was nor what it is: either may be read."""
    text = "import routebench\nTABLE = routebench.own_file(__file__, 'table.csv').read_text()\n" + method("reads")
    (tmp_path / "table.csv").write_text("1\n")
    hashes = []
    for content in ("1\n", "2\n", "1\n"):
        (tmp_path / "table.csv").write_text(content)
        with extensions.restored():
            load_plugin(str(write({"reads.py": text})))
            hashes.append(code_of(EVERY["methods"]["reads"], shipped=False).yours)
            for change in (lambda file: file.write_text("3\n"), lambda file: file.unlink()):
                change(tmp_path / "table.csv")
                hashes.append(code_of(EVERY["methods"]["reads"], shipped=False).yours)
            (tmp_path / "table.csv").write_text(content)  # at another time
            assert code_of(EVERY["methods"]["reads"], shipped=False).yours == hashes[-3]
    assert hashes[:3] == hashes[6:] and len({*hashes}) == 6


def test_a_file_that_is_not_there_is_one_line(write):
    text = "import routebench\nroutebench.own_file(__file__, 'gone.csv')\n" + method("reads")
    with pytest.raises(UserError, match=r"reads.py: its file 'gone.csv' cannot be read \(No such file"):
        load_plugin(str(write({"reads.py": text})))
