"""Encodes the set of parts into one vector per object capsule."""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import checked

from ..affine_poses import NUMBERS
from ..set_transformer import Bias, SelfAttention, Set
from .part_encoder import Parts

Mask = Literal["log", "code", "none"]
FAR = 1e32
"""The code subtracts this from the attention logit of an absent part."""


class ObjectEncoder(nn.Module):
    """A Set Transformer over parts; one learned query per object attends to all of them.

    A part is its pose, one minus its presence, its special features and its template, in that image's colour.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.3; sizes, and
    pooling by attention alone without residual and feed-forward layer, are those of the authors' code. Departures: the
    code multiplies members by their presence before normalisation, which cancels it. We do not. Weights start as torch
    has them, not sonnet, and queries about a fifth as large as in the code.

    Args:
        objects: object capsules.
        features: special features of a part.
        pixels: numbers in a template, over all channels.
        width: elements of a member of the set.
        layers: layers of self-attention.
        heads: heads of each of these.
        encoded: numbers per object.
        mask: how the presence p of a part changes its attention logit. `log`: adds log p, which weights a part by its
            presence. `code`: subtracts 1e32 (1 - p), as in the code, which is meant for presences of 0 and 1; between
            them all attention goes to the single most present part. `none`: not at all.
    """

    @checked
    def __init__(
        self, *, objects: int, features: int, pixels: int, width: int, layers: int, heads: int, encoded: int, mask: Mask
    ):
        super().__init__()
        self.mask = mask
        self.enter = nn.Linear(NUMBERS + 1 + features + pixels, width)
        self.layers = nn.ModuleList(SelfAttention(width, heads, hidden=2 * width) for _ in range(layers))
        self.leave = nn.Linear(width, encoded)
        self.queries = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, objects, encoded)))
        self.query, self.key, self.value, self.out = (nn.Linear(encoded, encoded) for _ in range(4))

    def forward(
        self, parts: Parts, templates: Float[Tensor, "batch part channel row column"]
    ) -> Float[Tensor, "batch object encoded"]:
        """The encoding of each object."""
        missing = 1 - parts.presences.sigmoid()
        seen = torch.cat([parts.poses.flatten(2), missing[..., None], parts.features, templates.flatten(2)], dim=-1)
        bias = self._bias(parts)
        members = self.enter(seen)
        for layer in self.layers:
            members = layer(members, bias)
        return self._pooled(self.leave(members), bias)

    def _bias(self, parts: Parts) -> Bias | None:
        if self.mask == "log":
            return functional.logsigmoid(parts.presences)
        return -FAR * (1 - parts.presences.sigmoid()) if self.mask == "code" else None

    def _pooled(self, members: Set, bias: Bias | None) -> Float[Tensor, "batch object encoded"]:
        mask = None if bias is None else bias[:, None]  # b object part
        query = self.query(self.queries).expand(len(members), -1, -1)
        seen = functional.scaled_dot_product_attention(query, self.key(members), self.value(members), mask)
        pooled: Tensor = self.out(seen)
        return pooled


Stop = Literal["poses", "all", "nothing"]


def stopped(parts: Parts, stop: Stop) -> Parts:
    """Stops gradients from objects to parts.

    Args:
        parts: the parts from their encoder.
        stop: `poses`: stops gradients of poses and presences but not of special features, as in the authors' code;
            `all`: stops all; `nothing`: stops none.
    """
    if stop == "nothing":
        return parts
    fixed = replace(parts, poses=parts.poses.detach(), presences=parts.presences.detach())
    return fixed if stop == "poses" else replace(fixed, features=parts.features.detach())
