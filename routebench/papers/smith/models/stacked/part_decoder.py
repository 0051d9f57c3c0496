"""Draws parts on a canvas: every pixel belongs to one template or to the ground."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import Positive, checked

from ..templates import warp
from .part_encoder import Parts

LEAST_DEVIATION = 0.1
"""Smallest deviation of a pixel: a value 1 away then has a density of e^-50, which float32 can hold."""
Picture = Literal["mode", "mean"]
Canvas = Float[Tensor, "batch channel height width"]


@dataclass(frozen=True)
class Drawing:
    """Values that every part, and last the ground, would draw at every pixel.

    Args:
        values: values of the pixels.
        weights: logits of the part that a pixel belongs to.
    """

    values: Float[Tensor, "part batch channel height width"]
    weights: Float[Tensor, "part batch 1 height width"]


class PartDecoder(nn.Module):
    """A mixture of normal distributions at every pixel, one for each part and one for the ground.

    Its means are the templates, moved by the poses of the parts, and 0 around them; its weights are the presence of a
    part times a second template, moved in the same way, whose logits are 0 around it.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.2;
    sizes, the ground and start values are those of the authors' code and of its script for MNIST. Departures: a canvas
    reaches to the edges of its outer pixels, not to their centres; determinants of poses are kept above 0.001; the
    ground starts at 0.5, where the code draws it between 0.15 and 0.85.

    Args:
        shape: (channels, height, width) of the images.
        parts: part capsules, and so templates.
        features: number of features of each part, which determine its colour.
        template: rows and columns of a template; 11 in the code.
        coloured: multiply templates by a colour per part and image, between 0 and 1, as the script does.
        weighed: learn the second template. False takes its logits from the first one, divided by a learned temperature,
            which the code offers too (for images of one channel).
        deviation: that of a pixel from its mean, at least 0.1; 1 in the code.
        gain: both templates and the ground are stored divided by this; their start is unchanged. Adam, whose steps do
            not grow with the gradient, then moves them that many times faster. At 1, logits of 5 take 5,000 steps at a
            learning rate of 0.001.

    Raises:
        ValueError: the deviation is too small, or the gain is not above 0.
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        parts: int,
        features: int,
        template: int,
        coloured: bool,
        weighed: bool,
        deviation: Annotated[float, Ge(LEAST_DEVIATION)],
        gain: Positive = 1.0,
    ):
        super().__init__()
        self.size, self.deviation, self.gain = (shape[1], shape[2]), deviation, gain
        self.logits = nn.Parameter(_different((parts, shape[0], template, template)) / gain)
        self.colour = _colour(features, shape[0]) if coloured else None
        self.alphas = nn.Parameter(torch.zeros(parts, 1, template, template)) if weighed else None
        self.ground = nn.Parameter(torch.zeros(()))
        self.ground_weight = nn.Parameter(torch.zeros(()))  # of a temperature, where nothing is weighed

    def templates(self) -> Float[Tensor, "part channel row column"]:
        """Templates of every part, values in (0, 1), before colouring."""
        templates: Tensor = (self.gain * self.logits).sigmoid()
        return templates

    def coloured(self, parts: Parts) -> Float[Tensor, "batch part channel row column"]:
        """Templates in the colours of each image."""
        templates = self.templates()
        if self.colour is None:
            return templates.expand(len(parts.poses), *templates.shape)
        colours = self.colour(parts.features).sigmoid()
        coloured: Tensor = templates * colours[..., None, None]
        return coloured

    def draw(self, parts: Parts) -> Drawing:
        """Draws parts with these poses and presences."""
        templates = self.templates()
        if self.alphas is not None:
            templates = torch.cat([templates, self.gain * self.alphas], dim=1)  # one sampling moves both
        drawn = warp(templates, parts.poses, self.size)
        values, weights = (drawn[:, :, :-1], drawn[:, :, -1:]) if self.alphas is not None else (drawn, drawn)
        if self.colour is not None:
            # A colour is one number per template, so that it may as well be put on after the template was moved.
            values = values * self.colour(parts.features).sigmoid().transpose(0, 1)[..., None, None]
        ground = (self.gain * self.ground).sigmoid().expand(1, *values.shape[1:])
        if self.alphas is None:
            temperature = functional.softplus(self.ground_weight + 0.5) + 1e-4
            weights, beneath = values / temperature, ground / temperature
        else:
            beneath = functional.softplus(self.ground_weight).expand(1, *weights.shape[1:])
        presences = functional.logsigmoid(parts.presences).transpose(0, 1)[..., None, None, None]
        return Drawing(torch.cat([values, ground]), torch.cat([weights + presences, beneath]))

    def log_likelihood(self, images: Canvas, parts: Parts) -> Float[Tensor, " batch"]:
        """log p(image | parts) in nats, summed over pixels and channels.

        Args:
            images: values in [0, 1].
            parts: parts of every image.
        """
        drawing = self.draw(parts)
        density = (-0.5 / self.deviation**2 * (images - drawing.values).square()).exp()
        # Values and images are in [0, 1]: no density vanishes, and weights are exponentiated once for both sums.
        weights = (drawing.weights - drawing.weights.detach().amax(dim=0)).exp()
        likely = (weights * density).sum(dim=0).log() - weights.sum(dim=0).log()
        constant = 0.5 * math.log(2 * math.pi) + math.log(self.deviation)
        return likely.flatten(1).sum(dim=1) - constant * images[0].numel()

    @checked
    def picture(self, parts: Parts, *, of: Picture = "mode") -> Canvas:
        """The canvas, values in [0, 1].

        Args:
            parts: what is drawn.
            of: `mode`: at every pixel the mean of the component of greatest weight, with which the code measures its
                error; `mean`: the mean of the mixture.
        """
        drawing = self.draw(parts)
        if of == "mean":
            mean: Tensor = (drawing.weights.softmax(dim=0) * drawing.values).sum(dim=0)
            return mean
        winner = drawing.weights.argmax(dim=0, keepdim=True).expand(1, *drawing.values.shape[1:])
        mode: Tensor = drawing.values.gather(0, winner)[0]
        return mode

    def visible(self, parts: Parts) -> Float[Tensor, "batch part height width"]:
        """The brightness of `picture`, by the part that each pixel belongs to."""
        drawing = self.draw(parts)
        mine = torch.arange(len(drawing.weights), device=drawing.weights.device)[:, None, None, None, None]
        shown = drawing.values * (drawing.weights.argmax(dim=0) == mine)
        by_part: Tensor = shown[:-1].mean(dim=2).transpose(0, 1)
        return by_part


def _colour(features: int, channels: int) -> nn.Module:
    """Maps special features to logits of a colour: a hidden layer of 32 that all parts share."""
    return nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, channels))


def _different(shape: tuple[int, int, int, int]) -> Float[Tensor, "part channel row column"]:
    """Initial templates: orthogonal to each other, then scaled to [0, 1], as in the code."""
    numbers = shape[1] * shape[2] * shape[3]
    basis = torch.linalg.qr(torch.rand(max(shape[0], numbers), max(shape[0], numbers))).Q[: shape[0], :numbers]
    placed: Tensor = ((basis - basis.min()) / (basis.max() - basis.min())).reshape(shape)
    return placed
