"""Draws parts as pixels: learned templates, each with its own transparency, composited in order."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, Positive, checked

from ..templates import drawn, warp
from .part_whole import Layer, as_matrix, normal_log_density

Batch = Float[Tensor, "batch channel height width"]


class Sprites(nn.Module):
    """Draws templates where parts put them; the likelihood of pixels about the drawing.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", section 2.1 and equation 7. Templates are
    drawn in the order of their numbers, the first at the bottom.

    Args:
        count: number of templates.
        channels: number of channels of the images.
        size: rows and columns of a template; theirs is 12.
        pixel_deviation: deviation of pixels about the drawn image; theirs is 0.2.
        learned_deviation: learn `pixel_deviation`, with the given value as its floor: without one the likelihood has no
            upper bound. The paper says both that it is constrained and that it is set to 0.2.
        non_linearity: keeps templates' colours in range; the paper does not give it. `sigmoid`: between 0 and 1.
            `softplus`: not negative. `none`.
        ground: what templates are drawn on. `black`: an opaque canvas, so that a faint template looks faint.
            `transparent`: the canvas of zeros as printed, on which the colour of a single template does not depend on
            its alpha or presence.
        unit: what a pose of the identity draws. `template`: the template at its own size, in the middle of the canvas,
            so that poses count in halves of a template, 6 pixels. `canvas`: the template over the whole canvas.
    """

    @checked
    def __init__(
        self,
        count: Count,
        channels: Count,
        *,
        size: Count = 12,
        pixel_deviation: Positive = 0.2,
        learned_deviation: bool = False,
        non_linearity: Literal["sigmoid", "softplus", "none"] = "sigmoid",
        ground: Literal["black", "transparent"] = "black",
        unit: Literal["template", "canvas"] = "template",
    ):
        super().__init__()
        self.pixel_deviation, self.non_linearity, self.ground = pixel_deviation, non_linearity, ground
        self.unit = unit
        self.raw_colours = nn.Parameter((0.3 * torch.randn(count, channels, size, size) + 3) / SPEED)
        self.raw_alphas = nn.Parameter((0.3 * torch.randn(count, 1, size, size) + _blob(size)) / SPEED)
        self.raw_deviation = nn.Parameter(torch.tensor(-4.0)) if learned_deviation else None

    @property
    def colours(self) -> Float[Tensor, "template channel row column"]:
        """Colours of every template."""
        return NON_LINEARITIES[self.non_linearity](SPEED * self.raw_colours)

    @property
    def alphas(self) -> Float[Tensor, "template 1 row column"]:
        """Opacity of every template, between 0 and 1."""
        return (SPEED * self.raw_alphas).sigmoid()

    @property
    def deviation(self) -> Tensor | float:
        """Standard deviation of pixels about the drawn image."""
        if self.raw_deviation is None:
            return self.pixel_deviation
        return self.pixel_deviation + functional.softplus(self.raw_deviation)

    def draw(self, parts: Layer, size: tuple[int, int]) -> Batch:
        """Draws the images of parts, of (height, width) pixels.

        Args:
            parts: parts of every image, one for each template.
            size: (height, width) of the images.
        """
        templates = torch.cat([self.colours, self.alphas], dim=1)
        canvas, opacity = drawn(templates, self._on_canvas(parts, size), parts.presences.sigmoid(), size)
        return canvas if self.ground == "black" else canvas / opacity.clamp(min=TRANSPARENT)

    def visible(self, parts: Layer, size: tuple[int, int]) -> Float[Tensor, "batch template height width"]:
        """Visible brightness of each template, less what templates above it hide; the sum is the drawing.

        Args:
            parts, size: as for `draw`.
        """
        both = warp(torch.cat([self.colours, self.alphas], dim=1), self._on_canvas(parts, size), size)
        alphas = both[:, :, -1] * parts.presences.sigmoid().T[:, :, None, None]  # template b y x
        above = torch.cat([torch.ones_like(alphas[:1]), (1 - alphas.flip(0)).cumprod(dim=0)[:-1]]).flip(0)
        return (both[:, :, :-1].mean(dim=2) * alphas * above).transpose(0, 1)

    def _on_canvas(self, parts: Layer, size: tuple[int, int]) -> Float[Tensor, "batch template 2 3"]:
        """Poses from templates to places of the canvas, both from -1 to 1."""
        poses = as_matrix(parts.poses)
        if self.unit == "canvas":
            return poses
        own = self.raw_alphas.shape[2:]
        return poses * poses.new_tensor([[own[1] / size[1]], [own[0] / size[0]]])

    def log_likelihood(self, images: Batch, parts: Layer) -> Float[Tensor, " batch"]:
        """log p(x | parts) in nats, summed over pixels.

        Args:
            images: values in [0, 1].
            parts: parts of every image, one for each template.
        """
        squares = (images - self.draw(parts, (images.shape[2], images.shape[3]))).square().flatten(1).sum(dim=1)
        return normal_log_density(squares, self.deviation, math.prod(images.shape[1:]))


TRANSPARENT = 1e-6
SPEED = 10.0
"""Templates are stored at a tenth of their size, so that Adam, whose steps have one size for all parameters, moves them
ten times as fast as weights. They start as blobs and change a lot."""
NON_LINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "none": lambda values: values,
}


def _blob(size: int) -> Float[Tensor, "row column"]:
    """Logits of opacities that are high in the middle of a template."""
    place = torch.linspace(-1, 1, size)
    return 2 - 4 * (place[:, None].square() + place.square())
