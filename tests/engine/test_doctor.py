"""What `routebench doctor` finds."""

import pytest
import torch

from routebench.engine import doctor
from routebench.kernels import BACKENDS, compiler, fused, trust

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_layer(monkeypatch):
    monkeypatch.setattr(doctor, "CHILDREN", 16)
    monkeypatch.setattr(trust, "_verdicts", {})


def told(about):
    (finding,) = (found for found in doctor.examine(CPU) if found.about == about)
    return finding


def test_every_back_end_is_examined():
    about = {finding.about for finding in doctor.examine(CPU)}
    assert {f"back end {name}" for name in BACKENDS if name != "auto"} <= about


@pytest.mark.skipif(bool(fused.missing(8, 16, 0)), reason="no kernel here")
def test_a_kernel_that_works_is_timed_against_plain_torch():
    assert "ms for one sweep of 16 children x 10 parents" in told("back end reference").told
    assert told("back end fused").is_ok
    assert "times faster" in told("back end fused").told


def test_what_a_missing_compiler_costs_and_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    compiler.library.cache_clear()
    fused.missing.cache_clear()
    try:
        found = told("back end fused")
    finally:
        fused.missing.cache_clear()
    assert not found.is_ok
    assert str(found).startswith("missing  back end fused: not used here: no C++ compiler")
    assert "apt install g++" in found.told
    assert "times as long" in found.told


def test_a_kernel_that_disagrees_is_missing(monkeypatch):
    monkeypatch.setattr(trust, "is_trusted", lambda *_: False)
    if not fused.missing(8, 16, 0):
        assert str(told("back end fused")) == "missing  back end fused: not used here: it disagrees with the reference"


def test_what_belongs_to_another_device_is_not_missing():
    assert told("back end triton").is_ok
    assert "not used here" in told("back end triton").told


def test_a_data_set_that_is_not_there_is_missing_and_how_to_get_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    assert told("data mnist5k").is_ok
    assert not told("data mnist").is_ok
    assert f"4 of 4 files not in {tmp_path / 'MNIST' / 'raw'}" in told("data mnist").told
    assert "downloads them" in told("data mnist").told
    assert str(told("data mnist")).startswith("optional data mnist: ")
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    for name in ("train-images", "t10k-images"):
        (tmp_path / "MNIST" / "raw" / f"{name}-idx3-ubyte").touch()
    for name in ("train-labels", "t10k-labels"):
        (tmp_path / "MNIST" / "raw" / f"{name}-idx1-ubyte").touch()
    assert told("data mnist").is_ok


def test_a_wrong_data_folder_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path / "absent"))
    assert "expected a folder" in told("data").told


def test_a_missing_ray_is_told(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: None)
    assert "routebench[ray]" in told("ray").told
