"""Draws templates on a canvas, each moved by an affine pose, composited in order."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from routebench.kernels import backend, drawing

Poses = Float[Tensor, "batch template 2 3"]
SMALLEST = 1e-3
"""Smallest size of a determinant; thinner templates are drawn this thick."""


def inverse(poses: Float[Tensor, "*axes 2 3"]) -> Float[Tensor, "*axes 2 3"]:
    """Inverse affine maps, without the last row (0, 0, 1).

    A determinant nearer to 0 than `SMALLEST` is moved there, keeping its sign.
    """
    linear, shift = poses[..., :2], poses[..., 2:]
    a, b, c, d = linear.flatten(-2).unbind(dim=-1)
    determinant = a * d - b * c
    sign = torch.where(determinant < 0, -1.0, 1.0).to(determinant)
    determinant = torch.where(determinant.abs() < SMALLEST, sign * SMALLEST, determinant)
    turned = torch.stack([torch.stack([d, -b], dim=-1), torch.stack([-c, a], dim=-1)], dim=-2)
    undone = turned / determinant[..., None, None]
    return torch.cat([undone, -undone @ shift], dim=-1)


def warp(
    templates: Float[Tensor, "template channel row column"], poses: Poses, size: tuple[int, int]
) -> Float[Tensor, "template batch channel height width"]:
    """Templates as they appear on the canvas, bilinearly interpolated, with zeros around them.

    Both the canvas and a template reach from -1 to 1 in x (to the right) and y (down), at the outer edges of their
    pixels: the identity stretches a template over the whole canvas.

    Args:
        templates: what is drawn, one for each pose.
        poses: map a place in the template, (x, y), to one on the canvas.
        size: (height, width) of the canvas, in pixels.
    """
    return _sampled(templates, inverse(poses), size)


def _sampled(templates: Tensor, maps: Poses, size: tuple[int, int]) -> Tensor:
    """Samples templates at the places given by maps from the canvas."""
    height, width = size
    y = (torch.arange(height, device=maps.device, dtype=maps.dtype) * 2 + 1) / height - 1
    x = (torch.arange(width, device=maps.device, dtype=maps.dtype) * 2 + 1) / width - 1
    back = maps.transpose(0, 1)  # template b 2 3
    across = back[..., 0][:, :, None] * x[:, None]  # template b x 2
    down = back[..., 1][:, :, None] * y[:, None] + back[..., 2][:, :, None]  # template b y 2
    grid = across[:, :, None] + down[:, :, :, None]  # one sum per pixel: products of whole canvases cost ten times that
    # Templates are the batch of the sampling and images are rows below each other: no template is copied.
    drawn = functional.grid_sample(templates, grid.flatten(1, 2), padding_mode="zeros", align_corners=False)
    placed: Tensor = rearrange(drawn, "k c (b y) x -> k b c y x", y=height)
    return placed


def drawn(
    templates: Float[Tensor, "template value row column"],
    poses: Poses,
    presences: Float[Tensor, "batch template"],
    size: tuple[int, int],
) -> tuple[Float[Tensor, "batch channel height width"], Float[Tensor, "batch 1 height width"]]:
    """Templates warped and composited over each other in their order.

    In float32 a compiled kernel does it: on a processor one that visits only the pixels that a template covers, on a
    GPU one in Triton.

    Args:
        templates: colours, and as the last channel opacities in [0, 1].
        poses: as for `warp`.
        presences: in [0, 1]; they multiply opacities.
        size: (height, width) of the canvas, in pixels.

    Returns:
        as `over`.
    """
    maps = inverse(poses)
    if _kernel_serves(templates, maps, presences):
        return drawing.draw(templates, maps, presences, size)
    return composited(templates, maps, presences, size)


def composited(
    templates: Float[Tensor, "template value row column"],
    maps: Poses,
    presences: Float[Tensor, "batch template"],
    size: tuple[int, int],
) -> tuple[Float[Tensor, "batch channel height width"], Float[Tensor, "batch 1 height width"]]:
    """The same as `drawn`, in torch, from the inverse poses: the reference for the kernel.

    Args:
        templates, presences, size: as for `drawn`.
        maps: inverse poses, from places on the canvas to places in a template.

    Returns:
        as `over`.
    """
    both = _sampled(templates, maps, size)
    return over(both[:, :, :-1], both[:, :, -1:] * presences.T[:, :, None, None, None])


def _kernel_serves(templates: Tensor, maps: Tensor, presences: Tensor) -> bool:
    given = (templates, maps, presences)
    single = all(value.device == maps.device and value.dtype == torch.float32 for value in given)
    if not single or backend.wished() == "reference" or drawing.missing(templates.shape[1] - 1, maps.device):
        return False
    return drawing.is_trusted(composited, templates, maps, presences)


def over(
    colours: Float[Tensor, "template batch channel height width"],
    alphas: Float[Tensor, "template batch 1 height width"],
) -> tuple[Float[Tensor, "batch channel height width"], Float[Tensor, "batch 1 height width"]]:
    """Layers composited in their order, the first at the bottom, on a canvas of zeros.

    Args:
        colours: colours of the layers.
        alphas: their opacities, in [0, 1].

    Returns:
        the colour of the result times its alpha, and its alpha. Over an opaque black ground the former is the picture;
        divided by the latter it is the colour that the operation `over` gives on a transparent ground.

    Source: Porter and Duff, SIGGRAPH 1984; Smith et al., section 2.1.
    """
    canvas = torch.zeros_like(colours[0])
    opacity = torch.zeros_like(alphas[0])
    for colour, alpha in zip(colours, alphas, strict=True):
        canvas = colour * alpha + canvas * (1 - alpha)
        opacity = alpha + opacity * (1 - alpha)
    return canvas, opacity
