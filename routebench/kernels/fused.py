"""The sweep on a processor, in C++: votes exist in registers only. README.md tells how it works."""

import ctypes
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from routebench.kernels import reference
from routebench.kernels.compiler import NoCompiler, library
from routebench.kernels.layout import pack, unpack
from routebench.kernels.sweep import INPUTS, Packed, Sums, Sweep
from routebench.ops import Competition, Windows

TYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Types that are taken; computed is in single precision."""


def obstacle(given: Sweep) -> str:
    """Reason why the kernel cannot do this sweep; empty if it can."""
    for name in INPUTS:
        value = getattr(given, name)
        if value is None:
            continue
        if value.device.type != "cpu":
            return f"it runs on processors, not on {value.device.type}"
        if value.dtype not in TYPES:
            return f"it computes in single precision, and {name} are in {str(value.dtype).removeprefix('torch.')}"
    if not given.is_uniform and given.competition.axis not in {"types", *_BETWEEN_POSITIONS}:
        return f"it has no competition over {given.competition.axis!r}"
    return missing(given.children.shape[2], given.pose, given.weight.shape[2] if given.is_matrix else 0)


@cache
def missing(child_pose: int, pose: int, side: int) -> str:
    """Reason why there is no kernel for a pose size on this machine; empty if there is one. Compiles it if need be.

    Args:
        child_pose, pose, side: as for `compiler.library`.
    """
    try:
        library(child_pose, pose, side)
    except NoCompiler as error:
        return str(error)
    return ""


def sweep(given: Sweep) -> Sums:
    """One sweep, for which there is no obstacle. A gradient of the gradient stores the votes."""
    given = given.weighed()
    if given.is_uniform:  # weights take in the coupling, and what is left of it is 1
        everything = Competition("none", windows=given.competition.windows)
        given = replace(given, weights=reference.shares(given), competition=everything)
    mass, first, second = _Fused.apply(given.settings, *(getattr(given, name) for name in INPUTS))  # type: ignore[no-untyped-call]
    return Sums(mass, first, second)


class _Fused(torch.autograd.Function):
    """The kernel and its gradient."""

    @staticmethod
    def forward(ctx: Any, settings: Mapping[str, Any], *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        work = _Work(settings, dict(zip(INPUTS, tensors, strict=True)))
        sums = work.forward()
        # What all parents of a cell are normalised by is as small as the activations; votes are made anew, and so is
        # what each of them is normalised by apart.
        kept = {} if work.is_apart else work.arrays
        ctx.save_for_backward(*tensors, kept.get("peak"), kept.get("scale"))
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return sums

    @staticmethod
    def backward(ctx: Any, *of_sums: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, peak, scale = ctx.saved_tensors
        given = dict(zip(INPUTS, tensors, strict=True))
        wanted = [name for name, needed in zip(INPUTS, ctx.needs_input_grad[1:], strict=True) if needed]
        if torch.is_grad_enabled():
            found = reference.pull(Sweep(**given, **ctx.settings), of_sums, wanted)
        else:
            work = _Work(ctx.settings, given, {} if peak is None else {"peak": peak, "scale": scale})
            found = work.backward(dict(zip(Sums._fields, of_sums, strict=True)), wanted)
        return None, *(found.get(name) for name in INPUTS)


class _Work:
    """One sweep in the kernel's layout, arrays (block, ..., image in the block), child types in parts for threads."""

    def __init__(
        self, settings: Mapping[str, Any], given: Mapping[str, Tensor | None], known: Mapping[str, Tensor] | None = None
    ):
        children, weight = given["children"], given["weight"]
        assert children is not None and weight is not None
        self.given, self.settings = given, settings
        self.images, cells, child_pose = children.shape
        owners, self.parents, rows, columns = weight.shape
        is_matrix = rows != child_pose
        self.pose = columns**2 if is_matrix else columns
        self.kernel = library(child_pose, self.pose, rows if is_matrix else 0)
        self.side_by_side: int = self.kernel.lanes_in_a_block()
        self.blocks = -(-self.images // self.side_by_side)
        windows: Windows | None = settings["competition"].windows
        self.positions, types = (1, owners) if windows is None else (windows.positions, windows.types)
        seen = cells if windows is None else owners
        self.is_uniform = all(given[name] is None for name in ("query", "curvature", "bias"))
        self.full = settings["moments"] == 2 or any(given[name] is not None for name in ("curvature", "centre"))
        self.full |= self.is_uniform and given["offset"] is not None  # `forward_uniform` knows none
        axis = settings["competition"].axis if windows is not None and not self.is_uniform else "types"
        self.is_shared = axis in _BETWEEN_POSITIONS  # a cell's parents at several positions compete
        self.is_apart = axis == "positions"
        self.edges = _edges(types, torch.get_num_threads())
        self.parts = len(self.edges) - 1
        self.arrays: dict[str, Tensor] = {
            "children": _packed_children(children, self.kernel, settings["packed"]),
            "weight": weight.detach().float().contiguous(),
            "cells": _cells(windows, seen),
            **(known or {}),
            **self._packed(),
        }
        if (offset := given["offset"]) is not None:
            self.arrays["offset"] = offset.detach().float().contiguous()
        self.problem = _Problem(
            **{name: _pointer(array) for name, array in self.arrays.items()},
            blocks=self.blocks,
            positions=self.positions,
            cell_count=cells,
            groups=seen // types,
            types=types,
            parents=self.parents,
            orphan=settings["competition"].orphan,
            uniform=self.is_uniform,
            full=self.full,
            apart=self.is_apart,
            common=windows is None and owners < seen,
        )

    def forward(self) -> tuple[Tensor | None, ...]:
        """Mass, first moment, and the second or None."""
        if self.is_shared:
            self._normalise()
        sums = {"mass": self._partial(scalar=True), "first": self._partial()}
        if self.full:
            sums["second"] = self._partial()
        self._run("sweep_forward", self._by_part(_Sums, sums))
        moments = ("mass", "first", "second") if self.settings["moments"] == 2 else ("mass", "first")
        found: list[Tensor | None] = [self._unpack(_total(sums[name])) for name in moments]
        return (*found, None)[:3]

    def backward(self, of_sums: Mapping[str, Tensor | None], wanted: Collection[str]) -> dict[str, Tensor]:
        """Gradients of the inputs that are wanted."""
        arrays = {
            name: self._zeros(scalar=name == "mass") if of is None else self._pack(of) for name, of in of_sums.items()
        }
        if self.is_shared and "peak" not in self.arrays:
            self._normalise()
        if self.is_shared and not self.settings["constant_coupling"]:
            arrays["expectation"] = self._per_competition()
            self._run("sweep_expect", self._by_part(_Gradients, {}, arrays), to=[arrays["expectation"]])
        partial = self._gradients_of_parents(wanted)
        shared = self._gradients_of_children(wanted)
        constant = {"constant_coupling": self.settings["constant_coupling"]}
        self._run("sweep_backward", self._by_part(_Gradients, partial, {**arrays, **shared}, constant))
        return self._unpacked({**{name: _total(array) for name, array in partial.items()}, **shared}, wanted)

    def _packed(self) -> dict[str, Tensor]:
        needed = [] if self.is_uniform else ["query"]
        needed += ["centre", "curvature"] if self.full else []
        found = {name: self._pack(tensor) for name in _BY_LANE if (tensor := self.given[name]) is not None}
        return {**{name: self._zeros() for name in needed if name not in found}, **found}

    def _gradients_of_parents(self, wanted: Collection[str]) -> dict[str, Tensor]:
        """Arrays that parts add to, one for each. The kernel writes to those of poses even if nobody wants them."""
        names = [] if self.is_uniform else ["query"]
        names += ["centre", "curvature"] if self.full else []
        found = {name: self._partial() for name in names}
        if "bias" in wanted:
            found["bias"] = self._partial(scalar=True)
        return found

    def _gradients_of_children(self, wanted: Collection[str]) -> dict[str, Tensor]:
        """Arrays of which every thread writes a part of its own."""
        makers: dict[str, Callable[[], Tensor]] = {
            "children": lambda: torch.empty_like(self.arrays["children"]),
            "weights": lambda: torch.empty_like(self.arrays["weights"]),
            "weight": lambda: torch.empty_like(self.arrays["weight"]),
            "offset": lambda: torch.empty_like(self.arrays["offset"]),
        }
        return {name: make() for name, make in makers.items() if name in wanted}

    def _unpacked(self, arrays: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
        found = {}
        for name in wanted:
            tensor = self.given[name]
            assert tensor is not None
            if name in {"weight", "offset"}:
                own = arrays[name]
            else:
                own = (
                    unpack(arrays[name], self.images, self.kernel) if name == "children" else self._unpack(arrays[name])
                )
            found[name] = own.to(tensor.dtype)
        return found

    def _pack(self, tensor: Tensor) -> Tensor:
        """Packs (lane, ...) to (block, position, ..., image in the block)."""
        return pack(tensor.reshape(self.images, self.positions, *tensor.shape[1:]), self.kernel)

    def _unpack(self, array: Tensor) -> Tensor:
        return unpack(array, self.images, self.kernel).flatten(0, 1)

    def _partial(self, *, scalar: bool = False) -> Tensor:
        """An array (block, position, parent) or (block, position, parent, pose) for each part."""
        rest = () if scalar else (self.pose,)
        shape = (self.parts, self.blocks, self.positions, self.parents, *rest, self.side_by_side)
        return torch.empty(shape, dtype=torch.float32)

    def _zeros(self, *, scalar: bool = False) -> Tensor:
        return self._partial(scalar=scalar)[0].zero_()

    def _normalise(self) -> None:
        """Finds what the coupling of competitors at several positions is normalised by."""
        peak, scale = self._per_competition(), self._per_competition()
        self._run("sweep_normalise", to=[peak, scale])
        self.arrays |= {"peak": peak, "scale": scale}
        self.problem.peak, self.problem.scale = _pointer(peak), _pointer(scale)

    def _per_competition(self) -> Tensor:
        children = self.arrays["children"]
        each = (self.parents,) if self.is_apart else ()
        return children.new_empty(*children.shape[:2], *each, self.side_by_side)

    def _by_part(
        self,
        structure: type[ctypes.Structure],
        own: Mapping[str, Tensor],
        common: Mapping[str, Tensor] | None = None,
        numbers: Mapping[str, int] | None = None,
    ) -> Any:
        """An array of structures of pointers, one for each part of the child types."""
        both = {name: _pointer(array) for name, array in (common or {}).items()}
        parts = [{name: _pointer(array[part]) for name, array in own.items()} for part in range(self.parts)]
        return (structure * self.parts)(*(structure(**both, **mine, **(numbers or {})) for mine in parts))

    def _run(self, function: str, by_part: Any = None, *, to: Sequence[Tensor] = ()) -> None:
        """Calls the kernel for all parts at once, on OpenMP's threads or Python's, whose lock ctypes gives up."""
        targets = [ctypes.c_void_p(_pointer(array)) for array in to]
        call = partial(self._call, self.kernel[function], by_part, targets)
        if self.parts == 1 or self.kernel.has_openmp():
            call(0, self.parts)
        else:
            list(_pool(os.getpid(), self.parts).map(call, range(self.parts), [1] * self.parts))

    def _call(self, entry: Any, by_part: Any, targets: Sequence[Any], first: int, count: int) -> None:
        own = () if by_part is None else (ctypes.byref(by_part[first]),)
        edges = (ctypes.c_long * (count + 1))(*self.edges[first : first + count + 1])
        entry(ctypes.byref(self.problem), *own, *targets, edges, ctypes.c_long(count))


_BETWEEN_POSITIONS = ("types+positions", "positions")
"""Axes over which, in a convolutional layer, parents of several lanes compete for a cell."""
_BY_LANE = ("query", "curvature", "bias", "centre", "weights")


class _Problem(ctypes.Structure):
    """`Problem` in fused.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("children", "weight", "offset", "query", "curvature", "centre")),
        *((name, ctypes.c_void_p) for name in ("bias", "weights", "peak", "scale", "cells")),
        *((name, ctypes.c_long) for name in ("blocks", "positions", "cell_count", "groups", "types", "parents")),
        *((name, ctypes.c_int) for name in ("orphan", "uniform", "full", "apart", "common")),
    )


class _Sums(ctypes.Structure):
    """`Sums` in fused.cpp."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("mass", "first", "second"))


class _Gradients(ctypes.Structure):
    """`Gradients` in fused.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("mass", "first", "second", "expectation")),
        *((name, ctypes.c_void_p) for name in ("children", "query", "curvature", "centre", "bias", "weights")),
        *((name, ctypes.c_void_p) for name in ("weight", "offset")),
        ("constant_coupling", ctypes.c_int),
    )


def _packed_children(children: Tensor, kernel: ctypes.CDLL, known: Packed | None) -> Tensor:
    """Children in the kernel's layout, packed once for all sweeps of the same votes."""
    if known is None or children.is_inference():  # such a tensor does not count its changes
        return pack(children, kernel)
    found = known.get(children)
    if found is None or found[0] != children._version:
        found = known[children] = children._version, pack(children, kernel)
    return found[1]


def _pointer(array: Tensor) -> int:
    assert array.is_contiguous()
    return array.data_ptr()


def _total(partial: Tensor) -> Tensor:
    return partial[0] if len(partial) == 1 else partial.sum(dim=0)


def _edges(count: int, parts: int) -> list[int]:
    """Bounds of parts of `count` things, if there are as many parts, of nearly one length."""
    parts = max(1, min(parts, count))
    return [count * part // parts for part in range(parts + 1)]


@cache
def _cells(windows: Windows | None, seen: int) -> Tensor:
    """(position, child): which cell a child of a window is."""
    index = torch.arange(seen)[None] if windows is None else windows.index
    return index.to(torch.int32).contiguous()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked one has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"routebench-{process}")
