"""The baseline without routing: every child gives each parent the same coupling coefficient."""

from routebench.capsules import Activations, Votes
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod


@routing.register("uniform")
class Uniform(RoutingMethod):
    """Splits every child equally between all J parents; the first iteration of most methods does the same.

    Source: the baseline of Paik et al. 2019 (arXiv:1907.13327), in the network of Sabour et al. 2017.
    """

    source = "Paik, Kwak and Kim 2019, arXiv:1907.13327 (baseline)"
    title = "Uniform routing"
    colour = "muted"
    claims = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.POSE_ROTATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """squash(1/J sum_i V_ij)."""
        poses = squash(votes.sweep().first)
        return Routed(poses, length(poses))
