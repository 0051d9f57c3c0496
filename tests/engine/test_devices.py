"""Which device a cell gets, where there are several. All GPUs here are pretended: nothing is computed on them."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from routebench.engine import doctor
from routebench.engine.isolation import Isolated
from routebench.engine.results import Identity
from routebench.engine.running import RunConfig, _cell, _choose, choose_device
from routebench.engine.running._cell import make_record
from routebench.engine.running._choose import choose_config, choose_jobs
from routebench.engine.suites import Cell, Plan, load_suite
from routebench.errors import UserError
from routebench.protocols import Measurement
from routebench.registry import load_plugin, protocols

TELLING = """
from routebench import protocols
from routebench.protocols import Measurement, Metric, Protocol

@protocols.register("telling")
class Telling(Protocol):
    "Tells the number of the device that it is given, and waits until both of two cells have told."
    options = {"meeting": str}
    def measure(self, request, options, context):
        import pathlib, time
        meeting = pathlib.Path(options["meeting"])
        (meeting / str(request.iterations)).touch()
        while len(list(meeting.iterdir())) < 2:
            time.sleep(0.02)
        return Measurement([Metric("number", "test", float(context.device.index), "", True, request.iterations)])
"""
IDENTITY = Identity(
    suite="none", suite_version=1, protocol="telling", options={}, method="dynamic", method_params={}, routed=True,
    role="method", model="capsnet-small", model_params={}, data="mnist5k", data_fingerprint="", training={}, source="",
    iterations=1, seed=0,
)  # fmt: skip


@pytest.fixture
def gpus(monkeypatch):
    """Has torch say that there are eight GPUs; gives the one that was made current last."""
    current = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: current.append(str(device)))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: f"pretended {device}")
    monkeypatch.setattr(_choose.kernels, "unavailable", lambda *_: "")
    return current


@pytest.fixture
def cluster(monkeypatch):
    """A cluster that says how many processors and pretended GPUs it has."""
    has = {"CPU": 64.0, "GPU": 8.0}

    class Pretended:
        def __init__(self, address):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def total(self, resource):
            return has[resource]

    monkeypatch.setattr(_choose, "Cluster", Pretended)
    return has


def chosen(suite="accuracy", **how):
    loaded = load_suite(suite)
    plan = Plan(loaded, loaded.preset("smoke"), (), is_alone=getattr(protocols[loaded.protocol], "alone", False))
    options = {"executor": "local", "address": "auto", "gpus": None, "device": "auto", "backend": "auto"}
    return choose_config(plan, 100, **{**options, "jobs": None, "threads": None, **how})


def spread(config, cells):
    """The devices that cells get which begin one after the other and go on."""
    busy = []
    for _ in range(cells):
        busy.append(config.on_free_device(busy).device)
    return busy


@pytest.mark.parametrize("how", [{}, {"device": "cuda"}, {"jobs": 8}])
def test_of_eight_pretended_gpus_each_gets_one_cell(gpus, how):
    config = chosen(**how)
    assert config.jobs == 8
    assert sorted(spread(config, 8)) == [f"cuda:{number}" for number in range(8)]


def test_more_cells_than_pretended_gpus_share_them_evenly(gpus):
    assert sorted(spread(chosen(jobs=16), 16)) == sorted([f"cuda:{number}" for number in range(8)] * 2)


def test_the_next_cell_takes_the_pretended_gpu_that_became_free(gpus):
    busy = [f"cuda:{number}" for number in range(8) if number != 5]
    assert chosen().on_free_device(busy).device == "cuda:5"


def test_one_of_eight_pretended_gpus_can_be_named(gpus):
    config = chosen(device="cuda:3")
    assert (config.device, config.devices, config.jobs) == ("cuda:3", (), 1)
    assert gpus == ["cuda:3"]
    assert spread(chosen(device="cuda:3", jobs=2), 2) == ["cuda:3", "cuda:3"]


def test_a_pretended_gpu_that_is_not_there_is_refused(gpus):
    with pytest.raises(UserError, match="--device cuda:8: torch sees 8 GPUs"):
        choose_device("cuda:8")


def test_what_measures_time_stays_on_one_pretended_gpu(gpus):
    config = chosen("cost")
    assert (config.jobs, config.devices) == (1, ())


def test_one_pretended_gpu_is_as_ever(gpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_jobs(None, "cuda", 9)[0] == 1
    assert (chosen().device, chosen().devices) == ("cuda", ())


def test_a_cell_makes_its_pretended_gpu_the_current_one_and_records_its_name(gpus, monkeypatch, store):
    monkeypatch.setattr(
        _cell, "run_cell", lambda cell, store, device, origin, tell, *, alone, compiled, package:
        make_record(cell, "ok", "", Measurement([]), {"on": str(device), **origin}),
    )  # fmt: skip
    config = RunConfig("cuda:3", 1, 1, origin={"device": "cuda", "gpu": "that of the main process"})
    end = _cell.run_claimed(Cell(IDENTITY), store, config, lambda _: None)
    assert end.record.provenance.items() >= {"on": "cuda:3", "device": "cuda", "gpu": "pretended cuda:3"}.items()
    assert gpus == ["cuda:3"]


def test_two_processes_get_two_pretended_devices(tmp_path, run_all):
    """`cpu:0` and `cpu:1` stand for GPUs: torch takes the numbers, and there is one processor."""
    plugin = tmp_path / "telling.py"
    plugin.write_text(TELLING)
    load_plugin(str(plugin))
    (tmp_path / "meeting").mkdir()
    options = {"meeting": str(tmp_path / "meeting")}
    identities = [replace(IDENTITY, iterations=steps, options=options) for steps in (1, 2)]
    cells = [Cell(identity, plugins=(str(plugin),)) for identity in identities]
    records = run_all(cells, jobs=2, devices=("cpu:0", "cpu:1"), plugins=(str(plugin),), time_limit=60.0)
    assert [record.reason for record in records] == ["", ""]
    assert sorted(record.metrics[0]["value"] for record in records) == [0, 1], records


@pytest.mark.parametrize(("device", "gpus_per_run", "has", "expected"), [
    ("auto", None, 8.0, ("cuda", 8, 1.0)),
    ("auto", None, 0.0, ("cpu", 64, 0.0)),
    ("auto", 0.25, 8.0, ("cuda", 32, 0.25)),
    ("cuda", None, 8.0, ("cuda", 8, 1.0)),
    ("cpu", None, 8.0, ("cpu", 64, 0.0)),
])  # fmt: skip
def test_pretended_gpus_of_a_cluster_are_found_as_elsewhere(cluster, device, gpus_per_run, has, expected):
    cluster["GPU"] = has
    config = chosen(executor="ray", device=device, gpus=gpus_per_run)
    assert (config.device, config.jobs, config.gpus) == expected


@pytest.mark.parametrize(("device", "gpus_per_run", "told"), [
    ("cuda:3", None, "Ray says which GPU"),
    ("cpu", 0.5, "contradicts --device cpu"),
    ("cuda", 0.0, "contradicts --device cuda"),
    ("auto", 1.5, "a whole number, got 1.5"),
])  # fmt: skip
def test_what_a_cluster_cannot_give_is_one_line(cluster, device, gpus_per_run, told):
    with pytest.raises(UserError, match=told):
        chosen(executor="ray", device=device, gpus=gpus_per_run)


def test_a_pretended_apple_computer_uses_its_gpu_when_asked(monkeypatch):
    with pytest.raises(UserError, match="--device mps: torch finds no GPU of an Apple computer here"):
        choose_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("mps") == "mps"
    assert choose_device("auto") == "cpu"
    assert choose_jobs(None, "mps", 9)[0] == 1
    assert [finding.about for finding in doctor.examine(torch.device("cpu"))].count("device mps") == 1
    with pytest.raises(UserError, match="--device mps: machines of a cluster"):
        chosen(device="mps", executor="ray")


FORKED_FROM = """
import torch
torch.cuda._is_compiled = lambda: True
torch.cuda._device_count_nvml = lambda: 1
def answer():
    raise SystemExit("CUDA itself was asked")
torch._C._cuda_getDeviceCount = answer
import routebench.engine.running._forkserver
assert torch.cuda.is_available() and "torch.utils.cpp_extension" in __import__("sys").modules
"""


def test_the_process_that_workers_are_forked_from_asks_the_driver_for_gpus_and_not_cuda():
    """CUDA, once asked, cannot be used after a fork: every cell of a suite on a GPU with several jobs failed so."""
    told = {**os.environ, "CUDA_HOME": sys.prefix}
    told.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    done = subprocess.run([sys.executable, "-c", FORKED_FROM], env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it needs a GPU")
def test_on_a_gpu_a_forked_process_can_use_it(tmp_path):
    process = Isolated(_on_the_gpu, output=tmp_path / "output")
    while (said := process.said()) is None or said[0] == "step":
        time.sleep(0.01)
    process.close()
    assert said == ("answer", 3.0)


def _on_the_gpu():
    return torch.ones(3, device="cuda").sum().item()
