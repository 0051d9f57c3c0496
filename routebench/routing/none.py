"""A capsule network without routing."""

from routebench.capsules import Activations, Votes
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod


@routing.register("none")
class NoRouting(RoutingMethod):
    """Every child gives itself whole to every parent: all coefficients are 1, where one iteration of routing has 1 / J.

    Source: Kiefer et al., section 3.1 and appendix A ("zero routing iterations").
    """

    source = "Kiefer et al., Capsule Networks as Generative Models, section 3.1"
    title = "No sharing"
    colour = "muted"
    claims = (Claim.CHILD_ORDER, Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.POSE_ROTATION, Claim.PADDING)
    competition = "none"

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """squash(sum_i V_ij)."""
        poses = squash(votes.sweep().first)
        return Routed(poses, length(poses))
