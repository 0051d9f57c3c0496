"""Direction of a child's coupling, to one parent as in a tree or to all of them; and whether images change it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

Coupling = Float[Tensor, "lane child parent"]
PerChild = Float[Tensor, "lane child"]
STARVED = 0.1
"""Share of its mass under uniform coupling below which a parent is starved."""


def coupling_entropy(coupling: Coupling) -> PerChild:
    """Entropy in nats of each child's coupling over the parents of its lane: 0 is one parent, ln J is all alike.

    Coupling is divided by its sum over parents, so that methods whose parents do not compete can be compared.
    A child without any coupling counts as spread over all.
    """
    total = coupling.sum(dim=2, keepdim=True)
    shares = torch.where(total > 0, coupling / total, 1 / coupling.shape[2])
    return -torch.xlogy(shares, shares).sum(dim=2)


def effective_parents(coupling: Coupling) -> PerChild:
    """`exp` of the entropy: how many parents a child feeds, 1 to J.

    Args:
        coupling: not negative, (lane, child, parent).
    """
    return coupling_entropy(coupling).exp()


def t_score(coupling: Coupling) -> PerChild:
    """`1 - H / ln J`: 1 where each child has one parent, which makes a tree; 0 where it has all alike.

    Source: Peer, Stabinger and Rodriguez-Sanchez, gamma-capsule networks (arXiv:1812.09707).

    Args:
        coupling: not negative, (lane, child, parent).
    """
    parents = coupling.shape[2]
    if parents == 1:
        return torch.ones_like(coupling[..., 0])
    return 1 - coupling_entropy(coupling) / math.log(parents)


def share_between(coupling: Float[Tensor, "image child parent"]) -> float:
    """The part of the variance of coupling that lies between images, 0 to 1; the rest lies between pairs.

    0: every pair of child and parent has the same coupling in all images. 1: all pairs have the same mean.
    Coupling that is the same for all pairs and images counts as 0.
    """
    between, total = coupling.var(dim=0, correction=0).mean(), coupling.var(correction=0)
    return float(between / total) if total > torch.finfo(torch.float32).eps ** 2 else 0.0


def starved_share(mass: Float[Tensor, "image position parent"]) -> float:
    """The share of parents that get less than a tenth of their mass under uniform coupling, over all images.

    A parent that gets nothing from most images and much from some is not starved: class capsules hardly ever are. In a
    convolutional layer, the parents of each position count.

    Source: Mitterreiter, Koch, Giesen and Laue, AAAI 2023, for the word; the tenth is our choice.
    """
    total, parents = mass.sum(dim=2, keepdim=True), mass.shape[2]
    shares = torch.where(total > 0, mass / total, 1 / parents)
    return float((shares.mean(dim=0) < STARVED / parents).double().mean())
