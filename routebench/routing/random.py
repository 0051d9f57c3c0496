"""The baseline with arbitrary routing: coupling drawn once, for ever."""

from typing import Annotated

import torch
from annotated_types import Ge

from routebench.arguments import NonNegative, Range
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod


@routing.register("random")
class FixedRandom(RoutingMethod):
    """Coupling is the softmax over parents of normal numbers that never change and that nothing learns.

    If it does as well as a routing method, then it is not the agreement that helps.

    Source: the baseline of Paik et al. 2019 (arXiv:1907.13327). How they draw the coupling is not known to us; the
    normal logits are our choice.

    Args:
        spread: standard deviation of the logits; 0 gives uniform coupling.
        draw: seed of the coupling, apart from the seed of the run.
    """

    source = "Paik, Kwak and Kim 2019, arXiv:1907.13327 (baseline)"
    title = "Random coupling"
    colour = "muted"
    claims = (Claim.BATCH_INDEPENDENCE, Claim.MASS_CONSERVATION, Claim.POSE_ROTATION, Claim.PADDING)

    def __init__(
        self,
        sizes: Sizes,
        *,
        spread: Annotated[NonNegative, Range(0.1, 3.0, "log")] = 1.0,
        draw: Annotated[int, Ge(0)] = 0,
    ):
        super().__init__(sizes)
        self.spread = spread
        self.draw = draw
        logits = torch.randn(sizes.children, sizes.parents, generator=torch.Generator().manual_seed(draw))
        self.register_buffer("coupling", (spread * logits).softmax(dim=1))  # over parents

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """squash(sum_i R_ij V_ij)."""
        poses = squash(votes.aggregate(self.get_buffer("coupling")[None]))
        return Routed(poses, length(poses))
