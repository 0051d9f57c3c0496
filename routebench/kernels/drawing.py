"""Templates drawn over each other: on a processor in C++, on a GPU by Triton's kernels in `drawing_triton`.

The former visits only the pixels that a template covers; the latter visit all.
"""

import ctypes
import importlib.util
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from routebench.kernels.compiler import NoCompiler, drawing_library
from routebench.kernels.triton_sweep import is_interpreting, obstacles_of
from routebench.kernels.trust import IMAGES, ROUNDING, differences


@cache
def missing(channels: int, device: torch.device) -> str:
    """Reason why a device has no such kernel; empty if it has one. Compiles that of a processor if need be.

    Args:
        channels: channels of colour.
        device: the device to draw on.
    """
    if device.type != "cpu":
        absent = "triton is not installed" if importlib.util.find_spec("triton") is None else ""
        return "; ".join((*filter(None, (absent,)), *obstacles_of(device)))
    try:
        drawing_library(channels)
    except NoCompiler as error:
        return str(error)
    return ""


def draw(templates: Tensor, maps: Tensor, presences: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Templates drawn on a canvas, in single precision; no gradient of the gradient.

    Args:
        templates: (template, channel + 1, row, column), the last channel being opacity.
        maps: (batch, template, 2, 3), from a place (x, y, 1) on the canvas to one in the template, both from -1 to 1.
        presences: (batch, template), which multiply the opacities.
        size: (height, width) of the canvas, in pixels.

    Returns:
        colours times opacity (batch, channel, height, width), and opacity (batch, 1, height, width).
    """
    found: tuple[Tensor, Tensor] = _Drawing.apply(templates, maps, presences, size)  # type: ignore[no-untyped-call]
    return found


def is_trusted(reference: Callable[..., tuple[Tensor, Tensor]], *given: Tensor) -> bool:
    """Tells whether the kernel agrees with a reference, forward and backward; tried once per template size and process.

    It is tried on the poses of the first images, on a canvas of `TRIED` pixels. A disagreement is a warning.

    Args:
        reference: a function like `draw`.
        given: templates, maps and presences, as for `draw`.
    """
    key = (given[0].device.type, *given[0].shape)
    if key not in _verdicts:
        few = [given[0], *(value[:IMAGES] for value in given[1:])]
        exact, plain, ours = (
            _evaluate(way, [value.detach().to(dtype) for value in few])
            for way, dtype in ((reference, torch.float64), (reference, torch.float32), (draw, torch.float32))
        )
        errors = zip(differences(ours, exact), differences(plain, exact), strict=True)
        worst = max(error if not error <= max(TOLERANCE, ROUNDING * rounding) else 0.0 for error, rounding in errors)
        _verdicts[key] = worst == 0
        if worst:
            warnings.warn(
                f"the kernel that draws templates differs from the reference by {worst:.1g}; it is not used",
                stacklevel=3,
            )
    return _verdicts[key]


TRIED = (12, 10)
TOLERANCE = 1e-3
_verdicts: dict[tuple[object, ...], bool] = {}


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _evaluate(way: Callable[..., tuple[Tensor, Tensor]], given: list[Tensor]) -> list[Tensor]:
    """A drawing, and the gradients of a fixed random weighting of it."""
    leaves = [value.clone().requires_grad_() for value in given]
    found = way(*leaves, TRIED)
    random = torch.Generator().manual_seed(0)
    loss = sum((part * torch.randn(part.shape, generator=random).to(part)).sum() for part in found)
    return [*(part.detach() for part in found), *torch.autograd.grad(loss, leaves)]  # type: ignore[arg-type]


class _Drawing(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, templates: Tensor, maps: Tensor, presences: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        work = _work(templates, maps, presences, size)
        canvas, opacity, *kept = work.forward(any(ctx.needs_input_grad))
        ctx.save_for_backward(templates, maps, presences, *kept)
        ctx.size = size
        return canvas, opacity

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_canvas: Tensor, of_opacity: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        templates, maps, presences, *kept = ctx.saved_tensors
        found = _work(templates, maps, presences, ctx.size).backward(of_canvas, of_opacity, *kept)
        return *found, None


class _Work:
    """The arrays of one drawing, in the kernels' layout."""

    def __init__(self, templates: Tensor, maps: Tensor, presences: Tensor, size: tuple[int, int]):
        self.size, self.count, self.values = size, templates.shape[0], templates.shape[1]
        self.images, (self.rows, self.columns) = len(maps), templates.shape[2:]
        self.scale = [side.to(maps.device) for side in _pixels(size, (self.rows, self.columns))]
        around = templates.new_zeros(self.count, self.rows + 2, self.columns + 2, self.values)
        around[:, 1:-1, 1:-1] = templates.movedim(1, -1)
        self.templates, self.presences = around, presences.contiguous()
        left, right = self.scale
        self.maps = (
            left @ torch.cat([maps, maps.new_tensor([0.0, 0, 1]).expand(*maps.shape[:2], 1, 3)], 2) @ right
        ).contiguous()

    def _of_maps(self, found: Tensor) -> Tensor:
        """The gradient of maps between pixels as that of maps between places."""
        left, right = self.scale
        return left[:, :2].T @ found @ right.T


class _OnProcessor(_Work):
    def __init__(self, templates: Tensor, maps: Tensor, presences: Tensor, size: tuple[int, int]):
        super().__init__(templates, maps, presences, size)
        self.kernel = drawing_library(self.values - 1)
        self.parts = max(1, min(torch.get_num_threads(), self.images))
        pointers = (self.templates.data_ptr(), self.maps.data_ptr(), self.presences.data_ptr())
        self.problem = _Problem(*pointers, self.images, self.count, self.rows, self.columns, *size)

    def forward(self, keep: bool) -> tuple[Tensor, ...]:
        canvas = self.maps.new_empty(self.images, *self.size, self.values - 1)
        opacity = self.maps.new_empty(self.images, 1, *self.size)
        self._run("draw", ctypes.c_void_p(canvas.data_ptr()), ctypes.c_void_p(opacity.data_ptr()))
        return canvas.movedim(-1, 1), opacity

    def backward(self, of_canvas: Tensor, of_opacity: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        given = of_canvas.movedim(1, -1).contiguous(), of_opacity.contiguous()
        templates = self.templates.new_zeros(self.parts, *self.templates.shape)
        maps, presences = torch.empty_like(self.maps), torch.empty_like(self.presences)
        gradients = _Gradients(*(array.data_ptr() for array in (*given, templates, maps, presences)))
        self._run("pull", ctypes.byref(gradients))
        return templates.sum(dim=0)[:, 1:-1, 1:-1].movedim(-1, 1), self._of_maps(maps), presences

    def _run(self, function: str, *arguments: Any) -> None:
        """Calls the kernel; its threads are OpenMP's where there is that, else it runs on one."""
        self.kernel[function](ctypes.byref(self.problem), *arguments, ctypes.c_long(self.parts))


class _OnGpu(_Work):
    """Kernels of `drawing_triton`. What was on the canvas before each template is kept for the backward pass."""

    @property
    def given(self) -> "_Given":
        return _Given(self.templates, self.maps, self.presences)

    @property
    def sizes(self) -> "_Sizes":
        height, width = self.size
        return _Sizes(self.images, self.count, self.rows, self.columns, width, height * width)

    @property
    def tile(self) -> "_Tile":
        return _Tile(self.values, 1 << (self.values - 1).bit_length())

    def forward(self, keep: bool) -> tuple[Tensor, ...]:
        canvas = self.maps.new_empty(self.images, self.values, *self.size)
        before = self.maps.new_empty(self.images, self.count, self.values, *self.size) if keep else None
        self._start("paint", (self.images, self._tiles), self.given, canvas, before, self.sizes)
        drawn = canvas[:, :-1], canvas[:, -1:]
        return drawn if before is None else (*drawn, before)

    def backward(self, of_canvas: Tensor, of_opacity: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        of_both = torch.cat([of_canvas, of_opacity], dim=1)
        of_values, partial = torch.empty_like(before), before.new_empty(self._tiles, self.images, self.count, 8)
        self._start("pull", (self.images, self._tiles), self.given, of_both, before, of_values, partial, self.sizes)
        sums = partial.sum(dim=0)
        parts = min(self.images, PARTS)
        templates = before.new_empty(parts, self.count, self.values, self.rows, self.columns)
        grid = (self.count * self.values, -(-self.rows * self.columns // self.tile.texels), parts)
        self._start("gather", grid, self.given, of_values, templates, self.sizes, -(-self.images // parts))
        return templates.sum(dim=0), self._of_maps(sums[..., 1:7].view(self.images, self.count, 2, 3)), sums[..., 0]

    @property
    def _tiles(self) -> int:
        return -(-self.size[0] * self.size[1] // self.tile.pixels)

    def _start(self, name: str, grid: tuple[int, ...], *arguments: Any) -> None:
        from routebench.kernels import drawing_triton  # hence triton is only imported where it is used

        with torch.cuda.device_of(self.maps):  # type: ignore[no-untyped-call]
            getattr(drawing_triton, name)[grid](*arguments, self.tile, enable_fp_fusion=True)


def _work(templates: Tensor, maps: Tensor, presences: Tensor, size: tuple[int, int]) -> Any:
    kind = _OnGpu if maps.is_cuda or is_interpreting() else _OnProcessor
    return kind(templates, maps, presences, size)


PARTS = 16
"""Parts of a batch over which the gradient of templates is summed apart, for programs enough on a large GPU."""


class _Given(NamedTuple):
    templates: Tensor
    maps: Tensor
    presences: Tensor


class _Sizes(NamedTuple):
    """Numbers that may change without a new compilation; `pixels` of a canvas."""

    images: int
    templates: int
    rows: int
    columns: int
    width: int
    pixels: int


class _Tile(NamedTuple):
    """Constants that kernels are compiled for: values of a padded template, and pixels and texels of a program."""

    planes: int
    planes_tile: int
    pixels: int = 128
    texels: int = 64
    few: int = 32


@cache
def _pixels(size: tuple[int, int], template: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The factors, left and right, that turn a map between places from -1 to 1 into one between pixels.

    Pixel x of a canvas lies at (2 x + 1) / width - 1; place u of a template is at (u + 1) columns / 2 + 1/2 if its
    first pixel, behind one of zeros, is at 1.
    """
    (height, width), (rows, columns) = size, template
    left = torch.tensor([[columns / 2, 0, columns / 2 + 0.5], [0, rows / 2, rows / 2 + 0.5]])
    right = torch.tensor([[2 / width, 0, 1 / width - 1], [0, 2 / height, 1 / height - 1], [0, 0, 1.0]])
    return left, right


class _Problem(ctypes.Structure):
    """`Problem` in drawing.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("templates", "maps", "presences")),
        *((name, ctypes.c_long) for name in ("images", "count", "rows", "columns", "height", "width")),
    )


class _Gradients(ctypes.Structure):
    """`Gradients` in drawing.cpp."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("canvas", "opacity", "templates", "maps", "presences"))
