"""Mutual information of an image and its presences; how often parts change the object that they belong to."""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor

from .concrete import concrete_log_density, concrete_sample

ROWS = 50
"""Images compared with all others at once, which bounds memory."""
RARE = 0.05
"""A part's choice of object varies if more than this share of images differ from its most frequent choice."""


def information(
    log_odds: Float[Tensor, "image capsule"], temperature: float, *, draws: int, generator: Generator
) -> float:
    """The mutual information of an image and the presences of a layer in nats: E_x KL(q(t|x) || mean over x of q(t)).

    The mean is over the given images, so the estimate cannot exceed the log of their number. Presences are independent
    given an image, but not in the mean over images: the divergence is of all capsules jointly.

    Args:
        log_odds: log odds of the Concrete presences of each image.
        temperature: temperature of the presences.
        draws: number of draws from each image's posterior, to estimate the expectation.
        generator: generator of the draws, on the CPU.
    """
    said = log_odds.double().cpu()
    drawn = concrete_sample(said.expand(draws, -1, -1), temperature, generator)
    return float(divergence_from_the_mean(drawn, said, temperature))


def divergence_from_the_mean(
    drawn: Float[Tensor, "draw image capsule"], log_odds: Float[Tensor, "image capsule"], temperature: float
) -> Float[Tensor, ""]:
    """Mean over draws and images of log q(t|x) - log mean over x' of q(t|x'), in nats, at presences drawn from q(t|x).

    Args:
        drawn: logits of presences.
        log_odds: log odds of the posterior of each image.
        temperature: temperature of the presences.
    """
    own = concrete_log_density(drawn, log_odds, temperature).sum(dim=-1)
    flat = rearrange(drawn, "draw image capsule -> (draw image) 1 capsule")
    mixed = [
        concrete_log_density(rows, log_odds, temperature).sum(dim=-1).logsumexp(dim=1) - math.log(len(log_odds))
        for rows in torch.split(flat, ROWS)
    ]
    return own.mean() - torch.cat(mixed).mean()


def share_that_varies(responsibilities: Float[Tensor, "image choice part"]) -> float:
    """The share of parts whose most likely object varies between images, by `RARE`."""
    chosen = responsibilities.argmax(dim=1)
    usual = chosen.mode(dim=0).values
    return float(((chosen != usual).double().mean(dim=0) > RARE).double().mean())
