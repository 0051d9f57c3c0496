"""Functions that EM routing computes from the weighted moments of the votes for a parent."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def log_normaliser(variance: Float[Tensor, "*axes pose"]) -> Float[Tensor, "*axes"]:
    """The part of a diagonal Gaussian's log density that does not depend on the point: -1/2 sum_h log(2 pi var_h).

    Args:
        variance: that of each pose element, above zero.
    """
    return -0.5 * (torch.log(variance) + math.log(2 * math.pi)).sum(dim=-1)


def description_length_logit(
    mass: Float[Tensor, "*axes"],
    variance: Float[Tensor, "*axes pose"],
    beta_u: Float[Tensor, "#parent"],
    beta_a: Float[Tensor, "#parent"],
) -> Float[Tensor, "*axes"]:
    """beta_a minus the cost of describing the votes by the parent: the logit of its activation, before lambda.

    Source: Hinton, Sabour and Frosst, ICLR 2018, Procedure 1, M-step: `cost_h = (beta_u + log sigma_h) S`.

    Args:
        mass: S, how much of the children is assigned to each parent.
        variance: that of the votes assigned to it, per pose element.
        beta_u: cost of describing one vote's element without the parent, per parent type.
        beta_a: cost of having the parent, per parent type.
    """
    cost = (beta_u[:, None] + 0.5 * torch.log(variance)).sum(dim=-1) * mass
    return beta_a - cost
