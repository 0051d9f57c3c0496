"""Turns whole batches of images on their device."""

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional

from routebench.errors import UserError

Batch = Float[Tensor, "batch channel height width"]


def rotate(images: Batch, degrees: Float[Tensor, " batch"]) -> Batch:
    """Turns each image about its centre, counter-clockwise, with bilinear interpolation; zeros move in.

    Quarter turns of square images are those of `torch.rot90` to rounding.

    Args:
        images: any values; height and width may differ.
        degrees: one angle per image, on any device.

    Returns:
        images of the same shape, type and memory layout.
    """
    height, width = images.shape[2:]
    angle = degrees.double().deg2rad()
    turn = torch.stack([angle.cos(), angle.sin()]).to(images)[..., None, None]  # cosine and sine, b 1 1
    # Pixel centres, counted from the middle of the image; rows go down, so that counter-clockwise is (x, y) to (y, -x).
    y = (torch.arange(height, device=images.device, dtype=images.dtype) - (height - 1) / 2)[:, None]
    x = torch.arange(width, device=images.device, dtype=images.dtype) - (width - 1) / 2
    from_x = turn[0] * x - turn[1] * y
    from_y = turn[1] * x + turn[0] * y
    grid = torch.stack([2 * from_x / width, 2 * from_y / height], dim=-1)
    turned = functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return torch.empty_like(images).copy_(turned)  # in the layout of the images


def rotate_up_to(images: Batch, degrees: float, generator: Generator) -> Batch:
    """Turns each image by an angle of its own, uniform in [-degrees, degrees].

    Args:
        images: as for `rotate`.
        degrees: the largest angle, 0 to 180.
        generator: may live on another device than the images: one on the CPU draws the same angles for every device.

    Raises:
        UserError: the largest angle is below 0 or above 180.
    """
    return rotate(images, draw_angles(len(images), degrees, generator))


def draw_angles(count: int, degrees: float, generator: Generator) -> Float[Tensor, " image"]:
    """Angles, so many, uniform in [-degrees, degrees], on the generator's device.

    Args:
        count: number of angles.
        degrees: the largest angle, 0 to 180.
        generator: the generator that they are drawn from.

    Raises:
        UserError: the largest angle is below 0 or above 180.
    """
    if not 0 <= degrees <= 180:
        raise UserError(f"rotation: expected a largest angle from 0 to 180 degrees, got {degrees}")
    return (2 * torch.rand(count, generator=generator, device=generator.device) - 1) * degrees
