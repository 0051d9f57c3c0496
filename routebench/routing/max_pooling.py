"""A baseline that keeps the largest vote in place of a sum."""

import torch

from routebench.capsules import Activations, Votes
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod


@routing.register("max-pooling")
class MaxPooling(RoutingMethod):
    """Each element of a parent's pose is the largest that any child votes for: one child wins, and nothing agrees.

    Routing was put forward against max-pooling, which keeps the strongest of its inputs and forgets the others. All
    votes are stored.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, section 1 (arXiv:1710.09829), which calls max-pooling a very
    primitive form of routing; as an equation in Gebotys, "Encapsulating Capsule Networks", equation 1. Both pool
    activations. That votes are pooled is ours; the squash is that of dynamic routing.
    """

    source = "Sabour, Frosst and Hinton, NeurIPS 2017, section 1 (arXiv:1710.09829), max-pooling, of votes"
    claims = (Claim.CHILD_ORDER, Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.PADDING)
    competition = "none"

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """squash(max_i V_ij), element by element."""
        stored = votes.dense()
        if votes.present is not None:
            stored = stored.masked_fill(~votes.present[..., None, None], -torch.inf)
        poses = squash(stored.amax(dim=1))  # over children
        return Routed(poses, length(poses))
