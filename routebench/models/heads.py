"""Heads on tokens, such as the features of a large network: capsules, and baselines of their size without any."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, Natural, Positive
from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork, Output
from routebench.registry import models

POSE_BELOW, POSE = 8, 16
"""Elements of the poses of primary capsules and of classes, as in Sabour et al. 2017."""
SHAPE = (16, 320)
"""Tokens and numbers that parameters are counted for: the last grid of EfficientNet-lite0 for images of 128 pixels."""
SOURCE = "ours: the capsule layers of Sabour et al., NeurIPS 2017, on tokens in place of a convolution's grid"
Tokens = Float[Tensor, "batch token number"]
Mask = Bool[Tensor, "batch token"]


class TokenPrimary(PrimaryCapsules):
    """Primary capsules of tokens, on a grid of one column: the convolution's window is one token, a matrix product."""

    def forward(self, features: Tokens) -> Capsules:
        """Capsules of tokens.

        Args:
            features: (batch, token, number).
        """
        weight = self.convolution.weight.flatten(1)
        return self.of_maps(functional.linear(features, weight, self.convolution.bias)[:, :, None])


class TokenCapsules(CapsuleNetwork):
    """A capsule classifier on tokens: each becomes some primary capsules, by one linear map for all tokens."""

    def forward(self, images: Tokens, mask: Mask | None = None) -> Output:
        """Answers to items, with the capsules of every layer.

        Args:
            images: tokens, (batch, token, number).
            mask: the tokens that are there; None for all. What stands in the others does not matter.
        """
        tokens = images if mask is None else images.masked_fill(~mask[..., None], 0)
        primary: Capsules = self.primary(self.features(tokens))
        if mask is not None:
            there = mask[:, :, None, None].expand_as(primary.activations)
            primary = Capsules(primary.poses, primary.activations, mask=there)
        return self.above(primary)


@models.register("token-capsules")
@facts(source=SOURCE, title="Capsules on tokens", takes="tokens", shape=SHAPE)
def token_capsules(
    routing: MakeRouting,
    shape: tuple[int, int],
    classes: int,
    *,
    types: Count = 4,
    hidden: Natural = 0,
    matrices: Literal["shared", "each"] = "shared",
    presence: Literal["length", "logistic", "none"] = "length",
    normalise: bool = True,
    weight_std: Positive = 0.3,
) -> CapsuleNetwork:
    """A linear map makes `types` primary capsules of 8 of each token, and these vote for class capsules of 16.

    Args:
        routing: makes the routing method of the capsule layers.
        shape: (tokens, numbers) of every item.
        classes: number of classes.
        types: primary capsules of each token.
        hidden: capsules of 16 of a layer in between, routed by the same method; 0 for none.
        matrices: whether transformation matrices are `shared` by all tokens, so that their order does not matter, or
            `each` token has its own, as each place of CapsNet's grid has.
        presence: presence of primary capsules; see `PrimaryCapsules`.
        normalise: whether the numbers of each token are layer-normalised first.
        weight_std: standard deviation of the initial transformation matrices to the first layer above.
    """
    tokens, numbers = shape
    features = normalised(numbers) if normalise else nn.Identity()
    primary = TokenPrimary(numbers, types, POSE_BELOW, presence=presence)
    share = matrices == "shared"
    above = hidden or classes
    first = DenseCapsules((tokens, 1, types), above, POSE_BELOW, POSE, routing, share=share, weight_std=weight_std)
    layers = [first, DenseCapsules(hidden, classes, POSE, POSE, routing)] if hidden else [first]
    return TokenCapsules(features, primary, layers)


class TokenHead(nn.Module):
    """A baseline on tokens: normalised tokens, a body for each of them, a mean or an attention, a linear classifier.

    Args:
        numbers: numbers of a token.
        classes: number of classes.
        hidden: units of a hidden layer that each token goes through; 0 for none.
        attends: whether tokens are weighted by a learned query (one head) in place of a mean.
    """

    def __init__(self, numbers: int, classes: int, *, hidden: int = 0, attends: bool = False):
        super().__init__()
        self.norm = normalised(numbers)
        self.body = nn.Sequential(nn.Linear(numbers, hidden), nn.ReLU()) if hidden else nn.Identity()
        width = hidden or numbers
        self.query = nn.Parameter(torch.zeros(width)) if attends else None
        self.classifier = nn.Linear(width, classes)

    def forward(self, images: Tokens, mask: Mask | None = None) -> Output:
        """Answers to items; arguments as in `TokenCapsules`."""
        logits = self.classifier(self._pooled(images, mask))
        return Output(logits, logits.sigmoid())

    def _pooled(self, tokens: Tokens, mask: Mask | None) -> Float[Tensor, "batch unit"]:
        tokens = tokens if mask is None else tokens.masked_fill(~mask[..., None], 0)
        units = self.body(self.norm(tokens))
        scores = units.new_zeros(units.shape[:2]) if self.query is None else units @ self.query / units.shape[2] ** 0.5
        if mask is None:
            weights = scores.softmax(dim=1)
        else:  # an item without tokens has a mean of zero
            weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=1) * mask
        mean: Tensor = (weights[:, None] @ units)[:, 0]
        return mean


@models.register("token-linear")
@facts(
    source="baseline: a linear probe of the mean token", title="Linear probe", takes="tokens", shape=SHAPE, routed=False
)
def token_linear(shape: tuple[int, int], classes: int) -> TokenHead:
    """The mean of all tokens, and a linear classifier.

    Args:
        shape: (tokens, numbers) of every item.
        classes: number of classes.
    """
    return TokenHead(shape[1], classes)


@models.register("token-mlp")
@facts(
    source="baseline: a hidden layer for each token, and their mean; its size is that of `token-capsules`",
    title="MLP",
    takes="tokens",
    shape=SHAPE,
    routed=False,
)
def token_mlp(shape: tuple[int, int], classes: int, *, types: Count = 4) -> TokenHead:
    """A hidden layer with ReLU for each token, the mean over tokens, and a linear classifier.

    Args:
        shape: (tokens, numbers) of every item.
        classes: number of classes.
        types: those of the `token-capsules` whose size it has.
    """
    return TokenHead(shape[1], classes, hidden=_as_large(shape[1], classes, types))


@models.register("token-attention")
@facts(
    source="baseline: attention pooling with one learned query; its size is that of `token-capsules`",
    title="Attention pooling",
    takes="tokens",
    shape=SHAPE,
    routed=False,
)
def token_attention(shape: tuple[int, int], classes: int, *, types: Count = 4) -> TokenHead:
    """`token-mlp` with tokens weighted by the softmax of their products with a learned query.

    Args:
        shape: (tokens, numbers) of every item.
        classes: number of classes.
        types: those of the `token-capsules` whose size it has.
    """
    return TokenHead(shape[1], classes, hidden=_as_large(shape[1], classes, types), attends=True)


def normalised(numbers: int) -> nn.LayerNorm:
    """Layer normalisation without gain and bias, which the linear map after it has anyway: tokens need no gradient."""
    return nn.LayerNorm(numbers, elementwise_affine=False)


def _as_large(numbers: int, classes: int, types: int) -> int:
    """The hidden units with which a head has about as many parameters as capsules with shared matrices."""
    capsules = types * POSE_BELOW * (numbers + 1) + types * classes * POSE_BELOW * POSE
    return max(1, round((capsules - classes) / (numbers + 1 + classes)))
