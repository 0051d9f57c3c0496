"""Agreement of two ways of grouping the same things."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

Groups = Int[Tensor, "case thing"]


def adjusted_rand_index(found: Groups, true: Groups, counted: Bool[Tensor, "case thing"]) -> Float[Tensor, " case"]:
    """The adjusted Rand index (Hubert and Arabie 1985) of the things that are counted: 1 is the same, 0 is chance.

    As `sklearn.metrics.adjusted_rand_score`, for many cases at once. Of fewer than two counted things, which can be
    grouped in one way only, it is NaN; there it is 1. Groups are any whole numbers.

    Args:
        found: the group that each thing was put into, (case, thing).
        true: the group that it belongs to, (case, thing).
        counted: which things count, (case, thing).
    """
    table = (_one_hot(found) * counted[..., None]).mT @ _one_hot(true)  # case group group
    both, own, right, every = (
        (many * (many - 1) / 2).sum(dim=1)
        for many in (table.flatten(1), table.sum(dim=2), table.sum(dim=1), table.sum(dim=(1, 2))[:, None])
    )
    expected, most = own * right / every, (own + right) / 2
    return torch.where(most == expected, 1, (both - expected) / (most - expected))


def _one_hot(groups: Groups) -> Float[Tensor, "case thing group"]:
    return functional.one_hot(groups - groups.min()).double()
