"""Routing by kernel density estimation: each parent climbs to a mode of the density of the votes for it.

Source: Zhao, Peng, Eger, Cambria and Yang, Towards scalable and reliable capsule networks for challenging NLP
applications, ACL 2019 (arXiv:1906.02829), as the authors' code computes it, with the kernel of Epanechnikov. The
idea is that of Zhang, Zhou and Wu, Fast dynamic routing based on weighted kernel density estimation, 2018.

Departure: the number of iterations is fixed, as in one of the two variants of the code; the other stops when the
density changes by less than 5 %.
"""

import torch
from torch import Tensor
from torch.linalg import vector_norm

from routebench import routing
from routebench.capsules import Sizes, Votes
from routebench.ops import length


@routing.register("kernel-density")
class KernelDensity(routing.RoutingMethod):
    """A child follows the parents whose mode lies within the kernel around its own vote."""

    source = "Zhao et al., ACL 2019, KDE routing (arXiv:1906.02829)"
    competition = "children"  # the axis over which the coupling sums to one

    def __init__(self, sizes: Sizes, *, iterations: int = 3):
        super().__init__(sizes)
        self.iterations = iterations

    def route(self, votes: Votes, activations: Tensor) -> routing.Routed:
        cast = _short(votes.dense())  # (lane, child, parent, pose)
        logits = torch.zeros_like(cast[..., 0])
        for iteration in range(self.iterations):
            chosen = torch.softmax(logits, dim=2)  # each child chooses among parents
            coupling = chosen / chosen.sum(1, keepdim=True)  # and each parent weighs its children
            parents = _short(votes.aggregate(coupling))
            if iteration < self.iterations - 1:
                logits = logits + 1 - (cast - parents[:, None]).square().sum(-1)
        return routing.Routed(parents, length(parents), coupling=coupling)


def _short(vectors: Tensor) -> Tensor:
    """Maps a length n to n^2 / (0.5 + n^2), the squashing of the authors' code."""
    size = vector_norm(vectors, dim=-1, keepdim=True)
    return vectors * size / (0.5 + size.square())
