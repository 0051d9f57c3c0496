"""Amortised inference of generative capsules: parts from an image, objects from parts."""

from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Count, Natural, Positive, checked

from ..attentive_pooling import AttentivePooling
from ..set_transformer import InducedSelfAttention, PoolingByAttention, SelfAttention
from .beliefs import Belief
from .part_whole import POSE, Layer, as_deviation

START_OF_LOG_DEVIATIONS = -3.0  # 0.05 of half a canvas: a delta to the eye, so that a full posterior starts there


class PartEncoder(nn.Module):
    """q(t1, A1 | x): four 3 x 3 convolutions with strides 2, 2, 1, 1 and ELU, and attentive pooling.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", appendix B.

    Args:
        channels: number of channels of the images.
        parts: how many there are.
        width: channels of the convolutions; theirs is 32.
        padding: padding of the convolutions. The paper does not give it. With 28 x 28 pixels, 1 leaves 7 x 7 positions,
            0 leaves 2 x 2.
        full: give deviations of poses too.
        part_size: size of the parts when training starts, as a share of the canvas. Parts start spread over its inner
            half.
    """

    @checked
    def __init__(
        self,
        channels: Count,
        parts: Count,
        *,
        width: Count = 32,
        padding: Natural = 1,
        full: bool = False,
        part_size: Positive = 0.5,
    ):
        super().__init__()
        outputs = 1 + POSE * (2 if full else 1)
        self.network = AttentivePooling(channels, parts, outputs, width=width, padding=padding, activation=nn.ELU)
        start = torch.zeros(parts, outputs)
        place = torch.rand(parts, 2, 1) - 0.5
        start[:, 1 : 1 + POSE] = as_deviation(torch.cat([part_size * torch.eye(2).expand(parts, 2, 2), place], dim=-1))
        start[:, 1 + POSE :] = START_OF_LOG_DEVIATIONS
        self.start = nn.Parameter(start)

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Belief:
        """Parts of each image."""
        return _belief(self.start + self.network(images))


class ObjectEncoder(nn.Module):
    """q(t0, A0 | t1, A1): a Set Transformer on the parts, and one network per kind of output.

    Source: Smith et al., section 4 and appendix B; Lee et al., ICML 2019.

    Args:
        objects, parts: how many capsules there are.
        width, heads: sizes of the Set Transformer; theirs are 128 and 4.
        blocks: attention blocks before the pooling; theirs are 4.
        points: inducing points; theirs are 32. With 0, parts attend to each other directly, which costs less for 16
            parts.
        code: numbers that the summary of a set is mapped to; theirs is 32.
        hidden: units of the networks that read it; theirs is 128.
        seeds: `each`: one summary of the set per object, as in Kosiorek et al. `one`: one summary for all objects; the
            paper says "a 32 dimensional encoding". Compared with `each`, `one` lowers the bound by 13 nats and the
            probe accuracy of t0 and A0 by 4 points (three seeds, 16 epochs of 3,600 digits); that of t0 alone does not
            change.
        full: give deviations of poses too.
    """

    @checked
    def __init__(
        self,
        objects: Count,
        parts: Count,
        *,
        width: Count = 128,
        heads: Count = 4,
        blocks: Natural = 4,
        points: Natural = 32,
        code: Count = 32,
        hidden: Count = 128,
        seeds: Literal["one", "each"] = "each",
        full: bool = False,
    ):
        super().__init__()
        self.objects, self.each = objects, seeds == "each"
        self.embed = nn.Linear(1 + POSE, width)
        self.identity = nn.Parameter(torch.randn(parts, width) / width**0.5)  # or all parts would be alike
        attention = (
            InducedSelfAttention(width, heads, points) if points else SelfAttention(width, heads) for _ in range(blocks)
        )
        self.blocks = nn.Sequential(*attention)
        self.pool = PoolingByAttention(width, heads, objects if self.each else 1)
        self.code = nn.Linear(width, code)
        told = 1 if self.each else objects
        self.presences = _reader(code, hidden, told)
        self.poses = _reader(code, hidden, told * POSE)
        self.deviations = _reader(code, hidden, told * POSE) if full else None

    def forward(self, parts: Layer) -> Belief:
        """Objects of each image."""
        members = self.embed(torch.cat([parts.presences.sigmoid()[..., None], parts.poses], dim=-1)) + self.identity
        code = self.code(self.pool(self.blocks(members)))
        poses = self._of_objects(self.poses(code))
        deviations = (
            None if self.deviations is None else START_OF_LOG_DEVIATIONS + self._of_objects(self.deviations(code))
        )
        return Belief(self.presences(code).flatten(1), poses, deviations)

    def _of_objects(self, told: Tensor) -> Float[Tensor, "batch object 6"]:
        placed: Tensor = rearrange(told, "b seed (o p) -> b (seed o) p", p=POSE)
        return placed


def _reader(code: int, hidden: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(hidden, outputs)
    nn.init.normal_(last.weight, std=0.01)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(code, hidden), nn.ELU(), last)


def _belief(told: Float[Tensor, "batch capsule output"]) -> Belief:
    poses = told[..., 1 : 1 + POSE]
    return Belief(told[..., 0], poses, told[..., 1 + POSE :] if told.shape[-1] > 1 + POSE else None)
