"""Prediction of class capsules by a trained capsule network: where inference over them starts."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.errors import UserError
from routebench.models.network import CapsuleNetwork
from routebench.ops import squash

CLOSE = 1e-4
"""Largest distance of the network's own class capsules from the squashed sum of votes, to be called the same."""


@dataclass(frozen=True)
class Forward:
    """The forward pass into the class capsules, in double precision so that energies can be compared.

    Args:
        sums: sums of all votes for each class, `s_j = sum_i V_ij`.
        gram: `W^T W` for the matrix W that takes all poses of the layer below, side by side, to all sums. Moving the
            poses below by `W a` moves the sums by `gram a`.
    """

    sums: Float[Tensor, "batch classes pose"]
    gram: Float[Tensor, "all all"]

    @property
    def poses(self) -> Float[Tensor, "batch classes pose"]:
        """Prediction of the class capsules, `squash(s_j)`."""
        return squash(self.sums)


@torch.no_grad()
def forward_pass(
    network: nn.Module, images: Float[Tensor, "batch channel height width"], *, any_routing: bool = False
) -> Forward:
    """The sums of votes that a trained network makes of images.

    Source: Kiefer et al., section 3.1: a network trained without routing, whose class capsules are `squash(s_j)`. In a
    network with capsule layers in between, everything below the class layer is taken as the forward pass has it.

    Args:
        network: the network in evaluation mode.
        images: images with values in [0, 1].
        any_routing: also take a network whose class capsules are something else, and predict them by the sum of votes
            all the same. That is not what it was trained to do: with routing, votes are weighed by 1 / classes or less.

    Raises:
        UserError: the network is not one for which this makes sense.
    """
    layer = class_layer(network)
    found = network(images).layers
    sums = _sums(layer, found[-2])
    if not any_routing and not torch.allclose(squash(sums), found[-1].poses, atol=CLOSE):
        raise UserError(
            "predictive coding: expected a network whose class capsules are the squashed sum of their votes, as method "
            f"none makes them, got one with {type(layer.routing).__name__}; train it with none, or allow any_routing"
        )
    return Forward(sums.double(), _gram(layer))


def class_layer(network: nn.Module) -> DenseCapsules:
    """The last layer of a capsule network.

    Raises:
        UserError: it is none, or its last layer is not one that sums votes of vector poses.
    """
    if not isinstance(network, CapsuleNetwork):
        raise UserError(f"predictive coding: expected a capsule network, got {type(network).__name__}")
    layer = network.layers[-1]
    if not isinstance(layer, DenseCapsules) or layer.weight.shape[-1] != layer.pose:
        raise UserError(
            "predictive coding: expected class capsules with vector poses that see every capsule below, as in capsnet, "
            f"got {type(layer).__name__}; choose another model"
        )
    return layer


def _sums(layer: DenseCapsules, children: Capsules) -> Float[Tensor, "batch classes pose"]:
    votes, _ = layer.votes(children)
    whole = torch.ones(1, votes.children, votes.parents, device=children.poses.device, dtype=children.poses.dtype)
    return votes.aggregate(whole)  # one coupling for all images: a matrix product, no vote is stored


def _gram(layer: DenseCapsules) -> Float[Tensor, "all all"]:
    flat = layer.weight.detach().double().transpose(1, 2).flatten(0, 1).flatten(1)  # (child x pose in, class x pose)
    cells = layer.grid[0] * layer.grid[1] if layer.share else 1  # shared weights stand for one child per position
    return cells * (flat.T @ flat)
