"""The baseline whose coupling is learned, and the same for every image."""

import torch
from torch import nn

from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod


@routing.register("static")
class Static(RoutingMethod):
    """Coupling is the softmax over parents of a learned number for each child and parent: no image changes it.

    If it does as well as a routing method, then it is not the agreement that helps: a layer of fixed weights does.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, section 2 (arXiv:1710.09829): the "log prior probabilities" b_ij of
    dynamic routing, learned with all other weights, and one iteration of it. They start at zero, which gives
    uniform coupling. In convolutional layers all positions share them, as they share weights.
    """

    source = "Sabour, Frosst and Hinton, NeurIPS 2017, section 2 (arXiv:1710.09829), log priors alone"
    colour = "muted"
    claims = (Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.MASS_CONSERVATION, Claim.POSE_ROTATION, Claim.PADDING)

    def __init__(self, sizes: Sizes):
        super().__init__(sizes)
        self.log_prior = nn.Parameter(torch.zeros(sizes.children, sizes.parents))

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """squash(sum_i softmax_j(b_ij) V_ij)."""
        poses = squash(votes.aggregate(self.log_prior.softmax(dim=1)[None]))  # over parents
        return Routed(poses, length(poses))
