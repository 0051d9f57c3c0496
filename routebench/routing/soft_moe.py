"""The dispatch of soft mixtures of experts."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Positive, Range
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod

EPSILON = 1e-6
"""Number added to a squared length before its root is taken, as in the authors' code."""


@routing.register("soft-moe")
class SoftMoE(RoutingMethod):
    """Each parent takes a weighted mean of all votes for it, by a softmax over children of their match with its slot.

    One pass, without agreement: votes are not looked at. A slot is a learned vector of a parent, and its match with a
    child is the cosine of both times a learned scale. Children compete for a parent, not parents for a child.

    Exact: a child is a token, a parent a slot with an expert of its own, and coupling is the dispatch weights. A linear
    expert gives of a mean of tokens the mean of what it gives of each, so that votes, which are that, may be averaged.
    Learned slots read the children; `examples/soft_dispatch.py`, an example of a plug-in, lets them read the votes.

    Source: Puigcerver, Riquelme, Mustafa and Houlsby, "From sparse to soft mixtures of experts", ICLR 2024
    (arXiv:2308.00951), section 2, by the authors' code (google-research/vmoe); the text was not at hand.
    Departures: experts are linear, and each child may have a matrix of its own for each expert, where the paper's
    experts are perceptrons that treat all tokens alike. An expert has one slot. The paper gives every token a mean of
    all slots' outputs back, by a softmax over slots of the same logits, its combine weights; a routing layer ends with
    the parents, so that this half is left out, and nothing here has these weights. Parents are layer-normalised, as the
    paper's tokens are before the next layer reads them. In a convolutional layer, tokens are the children of a window.
    Initial slots are normal numbers, not truncated ones.

    Args:
        scale: where the learned scale begins; the code has 1 by default and 10 in one of its configurations.
    """

    title = "Soft MoE"
    source = "Puigcerver, Riquelme, Mustafa and Houlsby, ICLR 2024, section 2 (arXiv:2308.00951), dispatch"
    claims = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.PADDING,
    )
    competition = "children"
    gives_activations = False

    def __init__(self, sizes: Sizes, *, scale: Annotated[Positive, Range(1.0, 30.0, "log")] = 1.0):
        super().__init__(sizes)
        self.scale = scale
        self.slots = nn.Parameter(torch.randn(sizes.pose_below, sizes.parents))  # their length does not matter
        self.sharpness = nn.Parameter(torch.tensor(scale))
        self.norm = nn.LayerNorm(sizes.pose)

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """Cosines, a softmax over children, and means of the votes, normalised."""
        slots = self.sharpness * _unit(self.slots, dim=0)
        coupling = votes.competition.couple(_unit(votes.poses_below, dim=-1) @ slots)  # lane child parent
        return Routed(self.norm(votes.aggregate(coupling)))


def _unit(vectors: Float[Tensor, "*axes"], dim: int) -> Float[Tensor, "*axes"]:
    """Vectors of length one, along an axis; of length zero where they are."""
    return vectors * torch.rsqrt(vectors.square().sum(dim=dim, keepdim=True) + EPSILON)
