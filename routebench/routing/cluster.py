"""Non-iterative cluster routing."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import einsum, nn

from routebench.arguments import Among
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod

VARIANCE_FLOOR = 1e-8
"""Number added to the variance of a cluster, so that votes that are all alike have a finite weight."""


@routing.register("cluster", version=2)
class ClusterRouting(RoutingMethod):
    """Each child casts several votes for a parent; the more they agree with each other, the more their mean counts.

    One pass. Children compete for a parent, not parents for a child, and each element of the pose has weights of its
    own: `m_ij` weighted by `1 / s_ij`, the mean and the standard deviation of a cluster. All votes are stored.

    Source: Zhao and Cheng, "Capsule networks with non-iterative cluster routing", Neural Networks 143, 2021
    (arXiv:2109.09213); equations as in the authors' code.
    Departures: in the code a child is all cells of one type in the window, whose votes a convolution adds up; here each
    cell is a child. The code normalises a parent over its pose and over all positions; here over its pose, so that
    positions stay apart. The variance has a floor of 1e-8. The code's votes have a bias; here they have none. Of each
    cluster the layer makes one vote, and the method the others: they are linear in the child's pose, also where poses
    are matrices.

    Args:
        votes: K, how many votes of a child for a parent are a cluster.
    """

    source = "Zhao and Cheng, Neural Networks 2021, non-iterative cluster routing (arXiv:2109.09213)"
    claims = (Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.PADDING)
    competition = "children"
    gives_activations = False

    def __init__(self, sizes: Sizes, *, votes: Annotated[int, Ge(2), Among((2, 4, 8))] = 8):
        super().__init__(sizes)
        self.votes = votes
        shape = (votes - 1, sizes.children, sizes.parents, sizes.pose_below, sizes.pose)
        self.further = nn.Parameter(torch.randn(shape) / sizes.pose_below**0.5)  # votes as long as poses below
        self.norm = nn.LayerNorm(sizes.pose)

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """Means of clusters, weighted by their agreement, and normalised."""
        further = einsum("lid,kijdp->klijp", votes.poses_below, self.further)
        cluster = torch.cat([votes.dense()[None], further])
        variance, mean = torch.var_mean(cluster, dim=0, correction=0)
        agreement = -0.5 * torch.log(variance + VARIANCE_FLOOR)
        if votes.present is not None:
            agreement = agreement.masked_fill(~votes.present[..., None, None], -torch.inf)
        weights = torch.softmax(agreement, dim=1)  # over children
        return Routed(self.norm((weights * mean).sum(dim=1)))
