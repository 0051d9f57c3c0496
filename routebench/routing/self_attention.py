"""Self-attention routing, the routing of Efficient-CapsNet."""

import math
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Among
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod

EPSILON = 1e-16
"""Number added to a squared length before its root is taken, so that the gradient at the zero vector is finite."""


@routing.register("self-attention")
class SelfAttention(RoutingMethod):
    """One pass: votes that agree with the sum of all votes for their parent get more coupling to it.

    Source: Mazzia, Salvetti and Chiaberge, "Efficient-CapsNet", Scientific Reports 11, 2021 (arXiv:2101.12491), as the
    authors' code has it: `A_ij = <V_ij, sum_k V_kj> / sqrt(pose)`, `c = softmax_j A`, `s_j = sum_i (c_ij + B_ij) V_ij`,
    and a squash to the length `1 - exp(-|s|)`.
    Departures: lengths are sqrt(n^2 + 1e-16), where the code has no gradient at zero. Activations are the squashed
    lengths as in the paper, and come with their exact log odds. The paper has one dense layer; in convolutional layers,
    parent types compete at each position. Children's activations are not used.

    What is watched last, for analyses, is the softmax: with the prior, coupling need not be positive.

    Args:
        prior: learn B, one number for each child and parent, which starts at zero and is added after the softmax. As B
            is free, what a child hands out need not sum to one.
        scale: divide agreements by sqrt(pose).
    """

    source = "Mazzia, Salvetti and Chiaberge 2021, self-attention routing (arXiv:2101.12491)"
    title = "Self-attention"
    claims: tuple[Claim, ...] = (Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.POSE_ROTATION, Claim.PADDING)

    def __init__(self, sizes: Sizes, *, prior: Annotated[bool, Among((False, True))] = True, scale: bool = True):
        super().__init__(sizes)
        self.scale = scale
        self.prior = nn.Parameter(torch.zeros(sizes.children, sizes.parents)) if prior else None
        if not prior:
            self.claims = (*self.claims, Claim.CHILD_ORDER, Claim.MASS_CONSERVATION)

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """Two sweeps over the children, and the votes weighted by the prior."""
        query = self.sizes.parents * votes.sweep().first  # uniform coupling is 1 / J, and the paper's sum has 1
        if self.scale:
            query = query / math.sqrt(self.sizes.pose)
        fixed = 0 if self.prior is None else votes.aggregate(self.prior[None])
        total = votes.sweep(query).first + fixed
        size = (total.square().sum(dim=-1) + EPSILON).sqrt()
        presence = -torch.expm1(-size)
        return Routed(total * (presence / size)[..., None], presence, log_odds(size))


def log_odds(size: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """log(p / (1 - p)) of p = 1 - exp(-size), which saturates, without passing through p."""
    return size + torch.log(-torch.expm1(-size))
