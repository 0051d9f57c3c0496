"""Which edits a hash of code sees."""

import importlib
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from routebench.registry import IMPORTS, in_folder

PACKAGE = {
    "routebench/__init__.py": "",
    "routebench/registry.py": f"from pathlib import Path\nIMPORTS = {IMPORTS!r}\n{inspect.getsource(in_folder)}"
    "def loaded_source(file): return file.read_bytes()\ndef own_files_of(file): return {}\n"
    "def named_beside(entry, names): return []\nclass extensions: ran_plugin = False\n",
    "routebench/cache.py": "def kept(kind, name): return None\ndef keep(kind, name, content): pass\n",
    "routebench/errors.py": "class UserError(Exception): pass\n",
    "routebench/engine/origin/__init__.py": "",
    "routebench/ops.py": "SCALE = 1\n",
    "routebench/base.py": '"""Base."""\nfrom routebench.ops import SCALE\n',
    "routebench/one.py": '"""One."""\nfrom routebench import base\ndef f():\n    """Does."""\n    return base.SCALE\n',
    "routebench/other.py": "X = 1\n",
}


@pytest.fixture
def hash_of(tmp_path):
    """The source hash of a module in a small package of the same name, in a fresh process."""
    from routebench.engine.origin import _source as source

    for name, text in PACKAGE.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for file in ("_source.py", "_cells.py"):
        shutil.copy(Path(source.__file__).with_name(file), tmp_path / "routebench" / "engine" / "origin")

    def hashed(module="routebench.one", **files):
        for name, text in files.items():
            (tmp_path / "routebench" / f"{name}.py").write_text(text)
        code = f"from routebench.engine.origin._source import code_of; print(code_of({module!r}).shipped)"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return hashed


def test_comments_docstrings_layout_and_strangers_do_not_count(hash_of):
    before = hash_of()
    after = hash_of(
        one='"""Uno."""\n\nfrom routebench import base  # why\n\n\ndef f():\n    return (base.SCALE)\n', other="X = 2\n"
    )
    assert before == after


@pytest.mark.parametrize(
    "edit",
    [{"one": "from routebench import base\ndef f():\n    return 2 * base.SCALE\n"}, {"ops": "SCALE = 2\n"}],
    ids=["the module itself", "what it imports indirectly"],
)
def test_code_counts_through_imports(hash_of, edit):
    assert hash_of() != hash_of(**edit)


def test_methods_have_hashes_of_their_own():
    from routebench.engine.origin import code_of
    from routebench.registry import routing

    assert code_of(routing["dynamic"]).shipped != code_of(routing["uniform"]).shipped


def test_what_a_plugin_imports_from_beside_it_counts(tmp_path, monkeypatch):
    from routebench.engine.origin import code_of
    from routebench.registry import import_file

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "beside_the_plugin.py").write_text("X = 1\n")
    (tmp_path / "plug.py").write_text("from beside_the_plugin import X\ndef f(): return X\n")
    function = import_file(tmp_path / "plug.py").f
    before = code_of(function).yours
    (tmp_path / "beside_the_plugin.py").write_text("X = 20\n")
    assert code_of(function).yours == before  # this process still has the other
    importlib.reload(sys.modules["beside_the_plugin"])
    assert code_of(function).yours != before


def test_own_code_is_told_apart_from_what_ships(tmp_path):
    from routebench.engine.origin import code_of
    from routebench.registry import import_file, routing

    (tmp_path / "own_file.py").write_text("from routebench.ops import squash\ndef f(): return squash\n")
    own, shipped = code_of(import_file(tmp_path / "own_file.py").f), code_of(routing["dynamic"])
    assert own.yours and own.shipped and not shipped.yours
    assert code_of(import_file(tmp_path / "own_file.py").f, shipped=False) == type(own)(own.yours, "")


def test_a_fit_depends_on_all_code_that_makes_weights():
    from routebench.engine.origin import fit_code
    from routebench.engine.origin._source import PACKAGE, _file_of, _reachable
    from routebench.registry import models, routing

    code = fit_code(models["capsnet"], routing["em"])
    reached = {file.relative_to(PACKAGE).as_posix() for entry in code for file in _reachable(_file_of(entry))}
    makers = {"training.py", "losses.py", "recipe.py", "augmentations.py", "models/build.py", "models/capsnet.py"}
    makers |= {"models/network.py", "capsules/votes.py", "ops/squash.py", "routing/base.py", "routing/em.py"}
    makers |= {"kernels/reference.py", "kernels/fused.py", "kernels/fused.cpp", "ops/competition.py"}
    assert makers <= reached
    assert not {"routing/dynamic.py", "models/cnn.py", "protocols/accuracy.py", "engine/plan.py", "errors.py"} & reached


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """This process as one that has read no code yet; the folder in which it keeps what it reads."""
    from routebench.engine.origin import _source as source

    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "cache"))

    def forget():
        for known in (source._shipped_before, source._code_here, source._imported_here, source._reachable_here):
            known.cache_clear()
        source._parsed.cache_clear()
        source._read_anew.clear()

    forget()
    yield forget
    monkeypatch.undo()
    forget()


def test_code_that_another_process_read_is_not_parsed_again(fresh, monkeypatch):
    from routebench.engine.origin import _source as source
    from routebench.registry import routing

    before = source.code_of(routing["em"])
    fresh()
    with monkeypatch.context() as patch:
        patch.setattr(source, "_parsed", None)
        assert source.code_of(routing["em"]) == before
    fresh()
    monkeypatch.setattr(source, "loaded_source", lambda file: file.read_bytes() + b"\nX = 1\n" * (file.name == "em.py"))
    assert source.code_of(routing["em"]).shipped != before.shipped, "a file that was edited is parsed anew"


def test_after_an_edit_of_one_file_the_others_are_not_parsed_again(fresh, monkeypatch):
    from routebench.cache import cache_folder
    from routebench.engine.origin import _source as source
    from routebench.registry import routing

    before = source.code_of(routing["em"])
    monkeypatch.setattr(source, "MOST_FACTS", len(source._shipped_before()))
    fresh()
    parsed, facts = [], source._facts_of
    monkeypatch.setattr(source, "loaded_source", lambda file: file.read_bytes() + b"\nX = 1\n" * (file.name == "em.py"))
    monkeypatch.setattr(source, "_facts_of", lambda text: parsed.append(text) or facts(text))
    assert source.code_of(routing["em"]).shipped != before.shipped
    assert [text.endswith(b"\nX = 1\n") for text in parsed] == [True]
    fresh()
    assert source.code_of(routing["em"]).shipped != before.shipped and len(parsed) == 1, "the edited file is kept"
    monkeypatch.setattr(source, "loaded_source", lambda file: file.read_bytes())
    fresh()
    assert source.code_of(routing["em"]) == before
    assert len(parsed) == 2 and len([*(cache_folder() / "code").iterdir()]) == 1, "what was used last is kept"


def test_damaged_kept_code_is_read_anew(fresh):
    from routebench.cache import cache_folder
    from routebench.engine.origin import code_of
    from routebench.registry import routing

    before = code_of(routing["em"])
    (file,) = (cache_folder() / "code").iterdir()
    for damaged in (file.read_bytes()[:-9], file.read_bytes().replace(b"softmax", b"softmin"), b""):
        assert damaged != file.read_bytes()
        file.write_bytes(damaged)
        fresh()
        assert code_of(routing["em"]) == before


@pytest.mark.parametrize("text", ["raise RuntimeError('after it changed something')", "X = 1"])
def test_a_process_that_ran_code_of_others_keeps_nothing(fresh, tmp_path, text):
    from routebench.cache import cache_folder
    from routebench.engine.origin import code_of
    from routebench.errors import UserError
    from routebench.registry import extensions, load_plugin, routing

    (tmp_path / "mine.py").write_text(text)
    with extensions.restored():
        with pytest.raises(UserError):
            load_plugin(str(tmp_path / "mine.py"))
        assert code_of(routing["em"]).shipped and not (cache_folder() / "code").exists()
