"""Soft mixture-of-experts dispatch as a routing method: every parent takes a convex mixture of all votes for it.

Source: Puigcerver, Riquelme, Mustafa and Houlsby, From sparse to soft mixtures of experts, ICLR 2024, section 2.1: a
slot's input is the mean of all tokens, weighted by a softmax over tokens of their dot products with the slot's learned
parameters, both normalised, times a learned scale. Children stand for tokens and parents for slots.

Departures: an expert is linear here, the transformation matrices, so that votes stand for its outputs. A mean of n
votes is short, and is multiplied by the root of n. A parent's length is its activation.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from routebench import routing
from routebench.capsules import Sizes, Votes
from routebench.ops import length, squash


@routing.register("soft-dispatch")
class SoftDispatch(routing.RoutingMethod):
    """Softmax over children of the cosine of a vote and its parent's learned query, times a learned scale."""

    source = "Puigcerver et al., ICLR 2024, section 2.1"
    competition = "children"  # the axis over which the coupling sums to one

    def __init__(self, sizes: Sizes, *, scale: float = 4.0):
        super().__init__(sizes)
        self.query = nn.Parameter(torch.randn(sizes.parents, sizes.pose))
        self.scale = nn.Parameter(torch.tensor(scale))

    def route(self, votes: Votes, activations: Tensor) -> routing.Routed:
        cosine = torch.einsum("bijp, jp -> bij", normalize(votes.dense(), dim=-1), normalize(self.query, dim=-1))
        coupling = torch.softmax(self.scale * cosine, dim=1)
        parents = squash(votes.children**0.5 * votes.aggregate(coupling))
        return routing.Routed(parents, length(parents))
