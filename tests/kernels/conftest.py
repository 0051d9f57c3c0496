"""Triton's kernels where there is no GPU: in its interpreter, on problems that are small and still split."""

import importlib
import sys

import pytest

from routebench.kernels import triton_sweep


@pytest.fixture(scope="module")
def interpreter():
    """Kernels, and the functions of Triton's own that they call, as the interpreter wants them: as plain functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        decorate_anew()
        yield
    decorate_anew()


def decorate_anew():
    """Triton reads the environment when it decorates, and may have been imported long ago."""
    for name in ("triton.language.standard", "triton.language"):
        importlib.reload(importlib.import_module(name))
    for name in ("triton_kernels", "drawing_triton"):
        sys.modules.pop(f"routebench.kernels.{name}", None)
        vars(importlib.import_module("routebench.kernels")).pop(name, None)


@pytest.fixture
def short_parts(monkeypatch):
    """Loops over few children are split into parts, too."""
    monkeypatch.setattr(triton_sweep, "FEWEST", 2)
