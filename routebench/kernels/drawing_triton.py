"""Templates drawn over each other on a GPU, in Triton's language. `drawing` starts these kernels.

A canvas has one plane of numbers for each value of a template: its channels of colour times opacity, then the opacity.
Drawing is `canvas += alpha (shade - canvas)`, where the shade of the opacity is 1. No two programs write to the same
place, so that results are the same each time.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917
# This is Triton's language: it has no types, and no keyword arguments at a launch.

import inspect

import triton
import triton.language as tl


def _kernel(function):
    """`triton.jit` of what was written, without the checks of shapes that tests wrap around every function."""
    return triton.jit(inspect.unwrap(function))


@_kernel
def paint(given, canvas, before, sizes, tile: tl.constexpr):
    """A tile of pixels of one image: (image, value, pixel).

    `before` is what was there before each template, (image, template, value, pixel); None where no gradient is wanted.
    """
    image, pixels = tl.program_id(0), tl.program_id(1) * tile.pixels + tl.arange(0, tile.pixels)
    value = tl.arange(0, tile.planes_tile)
    offsets = value[:, None] * sizes.pixels + pixels[None, :]
    mask = (value < tile.planes)[:, None] & (pixels < sizes.pixels)[None, :]
    last = value == tile.planes - 1
    now = tl.full([tile.planes_tile, tile.pixels], 0.0, tl.float32)
    for template in range(sizes.templates):
        if before is not None:
            layer = (image * sizes.templates + template) * tile.planes * sizes.pixels + offsets
            tl.store(before + layer, now, mask=mask)
        shown, alpha, _, _ = _layer(given, image, template, pixels, value, sizes, tile)
        now += alpha[None, :] * (tl.where(last[:, None], 1.0, shown) - now)
    tl.store(canvas + image * tile.planes * sizes.pixels + offsets, now, mask=mask)


@_kernel
def pull(given, of_canvas, before, of_values, partial, sizes, tile: tl.constexpr):
    """The gradient, from the last template to the first, of a tile of pixels of one image.

    `of_values` is the gradient of what a template shows at a pixel, (image, template, value, pixel); `partial` that of
    presences and of the six numbers of a map, summed over the tile, (tile, image, template, 8).
    """
    image, pixels = tl.program_id(0), tl.program_id(1) * tile.pixels + tl.arange(0, tile.pixels)
    value = tl.arange(0, tile.planes_tile)
    offsets = value[:, None] * sizes.pixels + pixels[None, :]
    mask = (value < tile.planes)[:, None] & (pixels < sizes.pixels)[None, :]
    flow = tl.load(of_canvas + image * tile.planes * sizes.pixels + offsets, mask=mask, other=0.0)
    x, y = (pixels % sizes.width).to(tl.float32), (pixels // sizes.width).to(tl.float32)
    last = value == tile.planes - 1
    for step in range(sizes.templates):
        template = sizes.templates - 1 - step
        layer = (image * sizes.templates + template) * tile.planes * sizes.pixels + offsets
        shown, alpha, across, down = _layer(given, image, template, pixels, value, sizes, tile)
        there = tl.load(given.presences + image * sizes.templates + template)
        shade = tl.where(last[:, None], 1.0, shown)
        of_alpha = tl.sum(flow * (shade - tl.load(before + layer, mask=mask, other=0.0)), 0)
        of_value = tl.where(last[:, None], (of_alpha * there)[None, :], flow * alpha[None, :])
        tl.store(of_values + layer, of_value, mask=mask)
        of_column, of_row = tl.sum(of_value * across, 0), tl.sum(of_value * down, 0)
        place = partial + ((tl.program_id(1) * sizes.images + image) * sizes.templates + template) * 8
        tl.store(place, tl.sum(of_alpha * tl.sum(tl.where(last[:, None], shown, 0.0), 0), 0))
        tl.store(place + 1, tl.sum(of_column * x, 0))
        tl.store(place + 2, tl.sum(of_column * y, 0))
        tl.store(place + 3, tl.sum(of_column, 0))
        tl.store(place + 4, tl.sum(of_row * x, 0))
        tl.store(place + 5, tl.sum(of_row * y, 0))
        tl.store(place + 6, tl.sum(of_row, 0))
        flow *= 1 - alpha[None, :]


@_kernel
def gather(given, of_values, out, sizes, per_part, tile: tl.constexpr):
    """The gradient of one value of a template, at a tile of its pixels, over one part of the images.

    The result is (part, template, value, row x column), without the zeros around. Each pixel of the canvas counts by
    how near the place that it shows is: the weight of bilinear interpolation.
    """
    template, number = tl.program_id(0) // tile.planes, tl.program_id(0) % tile.planes
    texels = tl.program_id(1) * tile.texels + tl.arange(0, tile.texels)
    part = tl.program_id(2)
    column, row = (texels % sizes.columns + 1).to(tl.float32), (texels // sizes.columns + 1).to(tl.float32)
    found = tl.full([tile.texels], 0.0, tl.float32)
    for image in range(part * per_part, tl.minimum((part + 1) * per_part, sizes.images)):
        plane = of_values + ((image * sizes.templates + template) * tile.planes + number) * sizes.pixels
        for first in range(0, sizes.pixels, tile.few):
            pixels = first + tl.arange(0, tile.few)
            seen_column, seen_row, inside = _place(given, image, template, pixels, sizes)
            near = tl.maximum(1 - tl.abs(seen_column[:, None] - column[None, :]), 0.0)
            near *= tl.maximum(1 - tl.abs(seen_row[:, None] - row[None, :]), 0.0)
            flow = tl.load(plane + pixels, mask=inside, other=0.0)
            found += tl.sum(flow[:, None] * near, 0)
    size = sizes.rows * sizes.columns
    place = ((part * sizes.templates + template) * tile.planes + number) * size
    tl.store(out + place + texels, found, mask=texels < size)


@_kernel
def _place(given, image, template, pixels, sizes):
    """Column and row of the padded template that pixels show, and whether they lie in it."""
    own = given.maps + (image * sizes.templates + template) * 6
    x, y = (pixels % sizes.width).to(tl.float32), (pixels // sizes.width).to(tl.float32)
    column = tl.load(own) * x + tl.load(own + 1) * y + tl.load(own + 2)
    row = tl.load(own + 3) * x + tl.load(own + 4) * y + tl.load(own + 5)
    inside = (column > 0) & (column < sizes.columns + 1) & (row > 0) & (row < sizes.rows + 1)
    return column, row, inside & (pixels < sizes.pixels)


@_kernel
def _corners(given, image, template, pixels, value, sizes, tile: tl.constexpr):
    """The four numbers of the template around each place, (value, pixel), and how far it lies to the right and down."""
    column, row, inside = _place(given, image, template, pixels, sizes)
    column, row = tl.where(inside, column, 0.0), tl.where(inside, row, 0.0)
    left, top = column.to(tl.int32), row.to(tl.int32)
    pitch = (sizes.columns + 2) * tile.planes
    corner = given.templates + template * (sizes.rows + 2) * pitch + top * pitch + left * tile.planes
    at = corner[None, :] + value[:, None]
    mask = (value < tile.planes)[:, None] & inside[None, :]
    v00 = tl.load(at, mask=mask, other=0.0)
    v01 = tl.load(at + tile.planes, mask=mask, other=0.0)
    v10 = tl.load(at + pitch, mask=mask, other=0.0)
    v11 = tl.load(at + pitch + tile.planes, mask=mask, other=0.0)
    return v00, v01, v10, v11, (column - left)[None, :], (row - top)[None, :]


@_kernel
def _layer(given, image, template, pixels, value, sizes, tile: tl.constexpr):
    """The template's values at pixels, its alpha there, and how the values change to the right and down."""
    v00, v01, v10, v11, right, lower = _corners(given, image, template, pixels, value, sizes, tile)
    shown = (v00 * (1 - right) + v01 * right) * (1 - lower) + (v10 * (1 - right) + v11 * right) * lower
    last = (value == tile.planes - 1)[:, None]
    alpha = tl.sum(tl.where(last, shown, 0.0), 0) * tl.load(given.presences + image * sizes.templates + template)
    across = (v01 - v00) * (1 - lower) + (v11 - v10) * lower
    down = (v10 - v00) * (1 - right) + (v11 - v01) * right
    return shown, alpha, across, down
