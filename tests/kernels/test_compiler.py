"""Compiling the kernel: where the library goes, and what happens where it cannot be made."""

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from routebench.cache import cache_folder
from routebench.data import data_root
from routebench.kernels import compiler, fused
from routebench.kernels.compiler import NoCompiler
from tests.kernels.sweeps import SMALL_GRID, largest_error, random_sweep

ROOT = Path(__file__).parents[2]
SIZES = (2, 2, 0)
needs_a_compiler = pytest.mark.skipif(compiler.find_compiler() is None, reason="no C++ compiler")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(compiler, "FLAGS", tuple(flag for flag in compiler.FLAGS if flag != "-O3"))  # compiles faster
    compiler.library.cache_clear()
    fused.missing.cache_clear()
    yield tmp_path / "kernels"
    compiler.library.cache_clear()
    fused.missing.cache_clear()


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@needs_a_compiler
def test_a_library_is_compiled_once(folder, monkeypatch):
    assert compiler.library(*SIZES).lanes_in_a_block() in {4, 8, 16}
    (file,) = folder.glob("*.so")
    assert not list(folder.glob("*.part"))
    compiler.library.cache_clear()
    monkeypatch.setattr(compiler, "_compile", lambda *_: pytest.fail("compiled again"))
    compiler.library(*SIZES)
    assert file.exists()


@needs_a_compiler
def test_the_first_compilation_for_a_size_is_told_in_one_line(folder, caplog):
    compiler.library(*SIZES)
    (record,) = caplog.records
    assert record.getMessage().startswith("compiling a kernel for poses of 2 and 2 elements, once on this machine")
    compiler.library.cache_clear()
    compiler.library(*SIZES)  # from the cache folder
    assert len(caplog.records) == 1


@needs_a_compiler
def test_processes_that_start_together_share_one_library(folder):
    code = f"from routebench.kernels.compiler import library; print(library{SIZES}.lanes_in_a_block())"
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {process.communicate()[0] for process in both} <= {"4\n", "8\n", "16\n"}
    assert [process.returncode for process in both] == [0, 0]
    assert len(list(folder.glob("*.so"))) == 1


def test_without_a_compiler_the_reason_is_told(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    told = fused.missing(*SIZES)
    assert told.startswith("no C++ compiler (looked for $CXX, g++, clang++); install one")


def test_a_compiler_that_is_not_there_is_named(folder, monkeypatch):
    monkeypatch.setenv("CXX", "absent++ -m64")
    assert fused.missing(*SIZES).startswith("no C++ compiler (CXX names 'absent++ -m64', which is not there); install")


@needs_a_compiler
def test_a_compiler_may_be_a_command_of_several_words(folder, monkeypatch, tmp_path):
    real = shlex.join(compiler.find_compiler())
    wrapper = script(tmp_path / "ccache", f'echo "$@" >> {tmp_path / "log"}; exec "$@"')
    monkeypatch.setenv("CXX", f"{wrapper} {real}")
    assert compiler.library(*SIZES).lanes_in_a_block() in {4, 8, 16}
    assert real in (tmp_path / "log").read_text()


def test_the_path_of_a_compiler_may_hold_a_space(monkeypatch, tmp_path):
    (tmp_path / "my tools").mkdir()
    monkeypatch.setenv("CXX", path := script(tmp_path / "my tools" / "c++", "exit 0"))
    assert compiler.find_compiler() == (path,)


def test_a_compiler_that_fails_is_quoted(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", script(tmp_path / "cc", 'echo "fused.cpp:1: error: bad luck" >&2; exit 1'))
    with pytest.raises(NoCompiler, match=r"cc failed: .* bad luck"):
        compiler.library(*SIZES)
    assert not list(folder.glob("*.so"))


def test_a_linker_that_fails_is_quoted_and_leaves_nothing(folder, monkeypatch, tmp_path):
    says = "ld: final link failed: No space left on device"
    text = f"for last; do :; done; touch $last; echo '{says}' >&2; echo 'collect2: error: ld returned 1' >&2; exit 1"
    monkeypatch.setenv("CXX", script(tmp_path / "cc", text))
    with pytest.raises(NoCompiler, match=f"cc failed: {says}"):
        compiler.library(*SIZES)
    assert not list(folder.glob("*.part"))


def test_a_compiler_that_hangs_is_given_up(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "PATIENCE", 0.3)
    monkeypatch.setenv("CXX", script(tmp_path / "cc", '[ "$1" = --version ] || exec sleep 20'))
    with pytest.raises(NoCompiler, match="did not finish"):
        compiler.library(*SIZES)


@needs_a_compiler
def test_a_folder_that_cannot_be_written_is_a_reason(monkeypatch, folder, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "file"))
    told = fused.missing(*SIZES)
    assert "cannot be used" in told
    assert "set ROUTEBENCH_CACHE to a folder" in told
    assert "install" not in told


def nobody(monkeypatch):
    """A user whom the system does not know, as in a container: `~` stands for nothing."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)


@needs_a_compiler
def test_without_a_home_folder_the_advice_is_to_name_one(monkeypatch, folder):
    nobody(monkeypatch)
    monkeypatch.delenv("ROUTEBENCH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    told = fused.missing(*SIZES)
    assert told.startswith("you have no home folder for what routebench keeps; set ROUTEBENCH_CACHE")


@needs_a_compiler
def test_a_damaged_library_is_compiled_again(folder):
    compiler.library(*SIZES)
    (file,) = folder.glob("*.so")
    compiler.library.cache_clear()
    file.unlink()
    file.write_bytes(b"not a library")
    assert compiler.library(*SIZES).lanes_in_a_block() in {4, 8, 16}


def test_what_a_killed_compilation_left_goes_with_the_next_one(folder, tmp_path):
    folder.mkdir()
    for name in ("one.1.part", "two.1.part"):
        (folder / name).touch()
    command = script(tmp_path / "cc", "for last; do :; done; touch $last")
    compiler._compile((command,), compiler.SOURCE, (), folder / "one.so")
    assert sorted(file.name for file in folder.iterdir()) == ["one.so", "two.1.part"]


@needs_a_compiler
def test_a_library_in_a_folder_that_can_only_be_read_is_used(folder, monkeypatch):
    """Such as the cache of an image that several machines start from."""
    compiler.library(*SIZES)
    compiler.library.cache_clear()

    def refuse(path):
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(compiler, "FileLock", refuse)
    assert compiler.library(*SIZES).lanes_in_a_block() in {4, 8, 16}


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("ROUTEBENCH_CACHE", raising=False)
    monkeypatch.delenv("ROUTEBENCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "routebench"
    assert data_root() == tmp_path / "routebench" / "data"
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "mine"))
    assert (cache_folder(), data_root()) == (tmp_path / "mine", tmp_path / "mine" / "data")
    monkeypatch.delenv("ROUTEBENCH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "routebench"


@needs_a_compiler
def test_another_source_or_compiler_is_another_library(monkeypatch):
    before = compiler._digest(("g++",))
    monkeypatch.setattr(compiler, "_version", lambda _: "another")
    assert compiler._digest(("g++",)) != before


@needs_a_compiler
@pytest.mark.parametrize("axis", ["types", "types+positions"])
def test_without_openmp_threads_of_python_share_the_work(folder, monkeypatch, axis):
    monkeypatch.setattr(compiler, "THREADS", ())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert largest_error(fused.sweep, random_sweep("Gaussian", windows=SMALL_GRID, axis=axis, images=9)) < 1e-5
    assert compiler.library(3, 5, 0).has_openmp() == 0


@needs_a_compiler
def test_a_compiler_that_lacks_openmp_still_makes_a_kernel(folder, monkeypatch, tmp_path):
    real = shlex.join(compiler.find_compiler())
    refuses = f'for a in "$@"; do [ "$a" = -fopenmp ] && echo "error: no OpenMP" >&2 && exit 1; done; exec {real} "$@"'
    monkeypatch.setenv("CXX", script(tmp_path / "cc", refuses))
    assert compiler.library(*SIZES).has_openmp() == 0


@pytest.mark.parametrize("sizes", [(8, 0, 0), (0, 8, 0), (4, -4, 2)])
def test_a_kernel_for_poses_without_elements_is_refused(sizes, folder):
    with pytest.raises(ValueError, match=f"expected poses of at least 1 element, got {sizes[0]} below and {sizes[1]}"):
        compiler.library(*sizes)
    assert not folder.exists()
