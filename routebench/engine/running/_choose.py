"""Chooses device, back end, processes and threads for the machine or the cluster."""

import os
import re

import torch

from routebench import kernels, plain
from routebench.engine.running._config import RunConfig
from routebench.engine.running._ray import Cluster
from routebench.engine.suites import Plan
from routebench.errors import UserError


def choose_config(
    plan: Plan,
    cells: int,
    *,
    executor: str,
    address: str,
    gpus: float | None,
    device: str,
    backend: str,
    jobs: int | None,
    threads: int | None,
) -> RunConfig:
    """Chooses where runs are executed, and how many at a time.

    Args:
        plan: the plan that is executed.
        cells: runs to execute.
        executor: `local` or `ray`.
        address: address of the cluster's head.
        gpus: GPUs per run on a cluster; None: one, if `device` allows it and the cluster has any.
        device: `auto`, `cpu`, `cuda` for all GPUs, one, such as `cuda:3`, or `mps`.
        backend: the implementation of routing, as in `routebench.kernels.BACKENDS`.
        jobs: runs at a time; None to choose.
        threads: torch threads per run; None to choose.

    Raises:
        UserError: a choice is impossible here.
    """
    if executor == "local":
        chosen = choose_device(device)
        count, share = choose_jobs(jobs, chosen, cells, alone=plan.is_alone)
        devices = () if plan.is_alone else each_gpu(chosen)
        return RunConfig(chosen, count, threads or share, backend=choose_backend(backend, chosen), devices=devices)
    count, gpus = choose_on_cluster(address, jobs, threads or 1, _gpus_of_a_cell(device, gpus), alone=plan.is_alone)
    chosen = "cuda" if gpus else "cpu"
    return RunConfig(chosen, count, threads or 1, backend=backend, executor=executor, address=address, gpus=gpus)


def choose_device(wanted: str) -> str:
    """`cuda` if there is a GPU and `auto` or `cuda` was asked for; a GPU asked for by number; `mps`; else `cpu`.

    `auto` leaves the GPU of an Apple computer alone: routing has no compiled kernel there.

    Raises:
        UserError: it is no name of a device, or the requested GPU does not exist.
    """
    if plain.device(wanted) == "cpu":
        return "cpu"
    if wanted == "mps":
        if not torch.backends.mps.is_available():
            raise UserError("--device mps: torch finds no GPU of an Apple computer here; use --device cpu")
        return "mps"
    available = torch.cuda.is_available()
    if wanted != "auto" and not available:
        raise UserError(
            f"--device {wanted}: torch finds no GPU here; use --device cpu or install a CUDA build of torch"
        )
    if wanted.startswith("cuda:"):
        if int(wanted.removeprefix("cuda:")) >= (count := torch.cuda.device_count()):
            raise UserError(f"--device {wanted}: torch sees {count} GPUs here, of which the first is cuda:0")
        torch.cuda.set_device(wanted)  # kernels start on the current one
        return wanted
    return "cuda" if available else "cpu"


def each_gpu(device: str) -> tuple[str, ...]:
    """The GPUs that `cuda` stands for, if torch sees several; else none."""
    count = torch.cuda.device_count() if device == "cuda" else 0
    return tuple(f"cuda:{number}" for number in range(count)) if count > 1 else ()


def choose_backend(wanted: str, device: str) -> str:
    """Checks and returns the requested back end.

    Args:
        wanted: name of the back end.
        device: name of the device.

    Raises:
        UserError: it does not work here.
    """
    if reason := kernels.unavailable(wanted, torch.device(device)):
        raise UserError(f"--backend {wanted}: cannot be used here: {reason}; `python -m routebench doctor` tells more")
    return wanted


def choose_jobs(wanted: int | None, device: str, cells: int, *, alone: bool = False) -> tuple[int, int]:
    """Number of processes, and torch threads of each: one process per GPU, else one per core.

    All threads together use every core, or fewer if OMP_NUM_THREADS says so.

    Args:
        wanted: the number of processes that the user wants; None to choose.
        device: as `choose_device` gives it.
        cells: number of runs to execute.
        alone: runs measure time, and none may be executed beside another.

    Raises:
        UserError: several processes were requested for runs that must be executed alone.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if alone and wanted not in (None, 1):
        raise UserError(
            f"--jobs {wanted}: this suite measures time, so that its runs go one at a time; leave it out, and unset "
            "ROUTEBENCH_JOBS"
        )
    places = cores if device == "cpu" else max(1, len(each_gpu(device)))
    jobs = wanted if wanted is not None else (1 if alone else places)
    # Threads do not depend on how many runs are left: another number of threads may give other last digits.
    return max(1, min(jobs, cells)), max(1, min(cores // jobs, _most_threads(cores)))


def _most_threads(cores: int) -> int:
    """The limit of OMP_NUM_THREADS, if it is a number."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # `4,2` is for nested parallel regions
    return int(wanted) if re.fullmatch("0*[1-9][0-9]{0,8}", wanted) else cores


def _gpus_of_a_cell(device: str, wanted: float | None) -> float | None:
    """GPUs per run on a cluster; None: one, if the cluster has any."""
    if device == "mps":
        raise UserError("--device mps: machines of a cluster use cpu or cuda; leave --executor ray out")
    if device.startswith("cuda:"):
        raise UserError(f"--device {device}: on a cluster, Ray says which GPU a run gets; use --device cuda")
    if wanted is None:
        return {"cpu": 0.0, "cuda": 1.0}.get(device)
    if (device == "cpu" and wanted) or (device == "cuda" and not wanted):
        raise UserError(f"--gpus-per-run {wanted:g} contradicts --device {device}; leave one of them out")
    if wanted > 1 and not wanted.is_integer():
        raise UserError(f"--gpus-per-run: expected a part of one GPU or a whole number, got {wanted:g}")
    return wanted


def choose_on_cluster(
    address: str, wanted: int | None, threads: int, gpus: float | None, *, alone: bool
) -> tuple[int, float]:
    """Runs at a time on a Ray cluster, as many as its processors or GPUs allow; and GPUs per run.

    Args:
        address: address of its head.
        wanted: runs at a time; None to choose.
        threads: threads of a run.
        gpus: GPUs of a run; None for one if the cluster has any.
        alone: runs measure time, and none may be executed beside another.

    Raises:
        UserError: runs must be executed alone, no cluster answers, or it is too small for one run.
    """
    if alone:
        raise UserError("--executor ray: this suite measures time, which a shared cluster would falsify; leave it out")
    with Cluster(address) as cluster:
        gpus = float(cluster.total("GPU") >= 1) if gpus is None else gpus
        room = cluster.total("CPU") // threads
        if gpus:
            room = min(room, cluster.total("GPU") // gpus)
    if room < 1:
        needs = f"{threads} processors" + (f" and {gpus:g} GPUs" if gpus else "")
        raise UserError(f"--executor ray: a run takes {needs}, and the cluster has no room for one")
    return (int(room) if wanted is None else min(wanted, int(room))), gpus


def slow_back_end(config: RunConfig) -> str:
    """The reason why `auto` falls back to plain torch although its device has a faster back end; else empty."""
    if config.backend != "auto" or config.executor != "local":
        return ""
    device = torch.device(config.device)
    reason = kernels.unavailable("triton" if device.type == "cuda" else "fused", device)
    return f"routing runs on the slow back end, plain torch: {reason}" if reason else ""
