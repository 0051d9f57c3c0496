"""Self-routing."""

import torch
from torch import einsum, nn

from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod, competition_axis

MASS_FLOOR = 1e-8
"""The least mass that is divided by; of a parent or of all children together."""


@routing.register("self-routing")
class SelfRouting(RoutingMethod):
    """Each child decides alone where it goes, by a gate on its own pose: no agreement, no iterations.

    The control for agreement. The gate starts at zero, which is uniform coupling.

    Source: Hahn, Pyeon and Kim, NeurIPS 2019; equations as in the authors' code.
    Departures: divisions have a floor, for images in which no child is present. In a convolutional layer all positions
    share the gate of their window, as in the code; in a dense layer every child has a gate of its own, also where it
    shares the weights of its votes with others. Activations depend on no vote: in the last layer of a classifier, whose
    class scores they are, the weights of votes learn only if a decoder reads the poses, and are counted all the same.

    Args:
        competition: which parents share a child, in convolutional layers; the code has `types`.
    """

    source = "Hahn, Pyeon and Kim, NeurIPS 2019, Self-Routing Capsule Networks"
    claims = (
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.POSE_ROTATION,
        Claim.POSE_TRANSLATION,
        Claim.POSE_SIGNED_PERMUTATION,
    )
    uses_activations = True

    def __init__(self, sizes: Sizes, *, competition: str = "types"):
        super().__init__(sizes)
        self.competition = competition_axis(competition)
        self.gate = nn.Parameter(torch.zeros(sizes.children, sizes.parents, sizes.pose_below))
        self.bias = nn.Parameter(torch.zeros(sizes.children, sizes.parents))

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """A gate, and means of the votes and of the children's presence that it weights."""
        logits = einsum("lid,ijd->lij", votes.poses_below, self.gate) + self.bias  # lane child parent
        coupling = votes.competition.couple(logits)
        weighted = coupling * activations[..., None]
        mass = weighted.sum(dim=1)  # over children
        total = votes.aggregate(weighted, shown=coupling)
        present = activations.sum(dim=1, keepdim=True)
        return Routed(total / mass.clamp(min=MASS_FLOOR)[..., None], mass / present.clamp(min=MASS_FLOOR))
