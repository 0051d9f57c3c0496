"""What the Triton kernels start for published layers, and the machine code that they are compiled to, without a GPU.

Tensors are on torch's device `meta`, and Triton compiles for a chip by its name.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from routebench.kernels import Sweep, triton_sweep
from routebench.kernels.triton_sweep import Plan
from routebench.ops import Competition, Windows


def published() -> dict[str, Sweep]:
    """A sweep after the first one of two published layers, with the batch that they were trained with."""
    windows = Windows(16, 16, 3, 2, 32)
    attention = Competition("types", windows=windows)
    return {
        "capsnet": _sweep(128, (1152, 8), (1152, 10, 8, 16), Competition()),
        "tsai-1": _sweep(128, (windows.cells, 16), (windows.seen, 32, 4, 4), attention),
    }


def _sweep(batch: int, children: tuple[int, int], block: tuple[int, ...], competition: Competition) -> Sweep:
    windows, (_, parents, rows, columns) = competition.windows, block
    lanes = batch * (1 if windows is None else windows.positions)
    query = _meta(lanes, parents, columns**2 if rows == columns else columns)
    return Sweep(_meta(batch, *children), _meta(*block), competition, moments=1, query=query)


def _meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta", requires_grad=True)


@dataclass(frozen=True)
class Launch:
    """One start of a kernel.

    Args:
        kernel: its name in `triton_kernels`.
        given: the sweep.
        plan: tile and grid.
        tensors: what it is given besides: inputs, gradients, outputs.
    """

    kernel: str
    given: Sweep
    plan: Plan
    tensors: tuple[Any, ...]


def launches(given: Sweep) -> list[Launch]:
    """Lists the kernels that forward and backward of a sweep start."""
    found: list[Launch] = []

    def note(kernel: str, plan: Plan, of: Sweep, *tensors: Any) -> None:
        found.append(Launch(kernel, of, plan, tensors))

    with mock.patch.object(triton_sweep, "_start", note):
        sums = triton_sweep.sweep(given)
        torch.autograd.backward([total.sum() for total in sums if total is not None and total.requires_grad])
    return found


class _Pretended:
    """Says to Triton which GPU there is."""

    def __init__(self, capability: int):
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> str:
        """Under which Triton keeps what it compiled in this process."""
        return f"pretended {self.capability}"

    def get_current_stream(self, _device: str) -> int:
        return 0


@contextmanager
def pretending(capability: int) -> Iterator[None]:
    """Has Triton compile for a GPU that need not be there."""
    from triton.runtime import driver

    with mock.patch.object(driver, "_active", _Pretended(capability)):
        yield


def compiled(launch: Launch, capability: int) -> str:
    """The machine code of a launch, with its use of registers, as cuobjdump lists them."""
    from routebench.kernels import triton_kernels

    given, plan = launch.given, launch.plan
    sizes = triton_sweep.Sizes(given.lanes, given.weight.shape[0], given.children.shape[1], given.positions)
    with pretending(capability):
        made = getattr(triton_kernels, launch.kernel).warmup(
            *launch.tensors,
            sizes,
            plan.per_part,
            plan.tile,
            grid=plan.grid,
            num_warps=plan.warps,
            enable_fp_fusion=True,
        )
    return _listed(made.asm["cubin"])


def _listed(cubin: bytes) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        said = [tool, "--dump-resource-usage", "--dump-sass", file]
        return subprocess.run(said, capture_output=True, text=True, check=True).stdout
