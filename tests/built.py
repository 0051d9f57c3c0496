"""Folders that several files of tests read, built once for all processes that run them side by side."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """A folder that the first process fills, while the others wait for it. Nobody changes it afterwards.

    Args:
        factory: the factory of temporary folders.
        name: the name of the folder, one for each `build`.
        build: fills the folder.
    """
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "built" / name
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (done := Path(f"{folder}.done")).exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            build(folder)
            done.touch()
    return folder
