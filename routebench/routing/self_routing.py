"""Self-routing."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, einsum, nn
from torch.nn.functional import batch_norm

from routebench.arguments import Among
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.ops import Axis
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod

MASS_FLOOR = 1e-8
"""The least mass that is divided by; of a parent or of all children together."""


@routing.register("self-routing")
class SelfRouting(RoutingMethod):
    """Each child decides alone where it goes, by a gate on its own pose: no agreement, no iterations.

    The baseline without agreement. The gate starts at zero, which gives uniform coupling.

    Source: Hahn, Pyeon and Kim, NeurIPS 2019; equations as in the authors' code.
    Departures: divisions have a floor, for images in which no child is present. In a convolutional layer all positions
    share the gate of their window, as in the code; in a dense layer every child has a gate of its own, also where it
    shares the weights of its votes with others. Activations depend on no vote: in the last layer of a classifier, whose
    class scores they are, the weights of votes learn only if a decoder reads the poses, and are counted all the same.

    The authors' networks batch-normalise all poses and read the presence of primary capsules off a convolution of its
    own, by a batch norm and a sigmoid. Here the gate normalises what it reads, per child, not per type as theirs, and
    votes are made of poses as they are; how presence arises is the network's choice, in `capsnet-small` the option
    `presence`. Both matter. Trained on 3,600 digits of MNIST for 8 epochs, `capsnet-small` answers 85.6 % of 1,000 test
    images, and 92.9 % with `presence="batch-norm"`, as theirs (means of three seeds, each 85 to 86 and 92 to 93); by
    `cross-entropy` 87.7 and 93.1 %. Without the norm of the gate it came to 69 % of held-out images (one seed), and
    `capsnet-small-intermediate` after 2 epochs to 44 % where it has 89 % with it. Activations of classes add up to one,
    and the paper's loss is their negative log likelihood, to which `cross-entropy` is the nearest.

    Args:
        competition: which parents share a child, in convolutional layers; the code has `types`.
        pose_norm: batch-normalise the poses that the gate reads, each element of each child, without gain and bias. A
            batch of one lane is normalised by the running statistics, as in evaluation.
    """

    source = "Hahn, Pyeon and Kim, NeurIPS 2019, Self-Routing Capsule Networks"
    title = "Self-routing"
    claims: tuple[Claim, ...] = (
        Claim.PARENT_ORDER,
        Claim.MASS_CONSERVATION,
        Claim.POSE_ROTATION,
        Claim.POSE_TRANSLATION,
        Claim.POSE_SIGNED_PERMUTATION,
        Claim.PADDING,
    )
    uses_activations = True

    def __init__(
        self, sizes: Sizes, *, competition: Axis = "types", pose_norm: Annotated[bool, Among((False, True))] = True
    ):
        super().__init__(sizes)
        self.competition = competition
        self.pose_norm = pose_norm
        self.norm = nn.BatchNorm1d(sizes.children * sizes.pose_below, affine=False) if pose_norm else None
        self.gate = nn.Parameter(torch.zeros(sizes.children, sizes.parents, sizes.pose_below))
        self.bias = nn.Parameter(torch.zeros(sizes.children, sizes.parents))
        if not pose_norm:
            self.claims = (*self.claims, Claim.BATCH_INDEPENDENCE)

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """A gate, and means of the votes and of the children's presence that it weights."""
        logits = einsum("lid,ijd->lij", self._read(votes.poses_below), self.gate) + self.bias  # lane child parent
        coupling = votes.competition.couple(logits)
        weighted = coupling * activations[..., None]
        mass = weighted.sum(dim=1)  # over children
        total = votes.aggregate(weighted, shown=coupling)
        present = activations.sum(dim=1, keepdim=True)
        return Routed(total / mass.clamp(min=MASS_FLOOR)[..., None], mass / present.clamp(min=MASS_FLOOR))

    def _read(self, below: Float[Tensor, "lane child pose_in"]) -> Float[Tensor, "lane child pose_in"]:
        """Poses as the gate sees them."""
        if self.norm is None:
            return below
        elements = below.flatten(1)
        if self.training and len(below) > 1:
            normalised: Tensor = self.norm(elements)
        else:
            normalised = batch_norm(elements, self.norm.running_mean, self.norm.running_var)
        return normalised.view(below.shape)
