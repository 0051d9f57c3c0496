"""Relaxed presences: Concrete numbers between 0 and 1 in place of on and off, kept as logits."""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional


def concrete_log_density(
    logits: Float[Tensor, "*#axes"], log_odds: Float[Tensor, "*#axes"], temperature: float
) -> Float[Tensor, "*#axes"]:
    """The log density of a Concrete presence t at its logit `l = log t - log(1 - t)`, in nats.

    `log tau + d - 2 log(1 + exp d)` with `d = log odds - tau l`: a density over l and not over t, which avoids the
    poles at 0 and 1. Ratios of two such densities are the same over t, because the change of variable cancels.

    Source: Maddison, Mnih and Teh, "The concrete distribution", ICLR 2017 (arXiv:1611.00712), appendix B and C.3.2.

    Args:
        logits: where the density is taken.
        log_odds: log odds of being on.
        temperature: tau; towards 0 presences become 0 or 1.
    """
    away = log_odds - temperature * logits
    return math.log(temperature) + away - 2 * functional.softplus(away)


def concrete_sample(
    log_odds: Float[Tensor, "*axes"], temperature: float, generator: Generator | None = None
) -> Float[Tensor, "*axes"]:
    """Logits of Concrete presences, differentiable with respect to the log odds.

    Args:
        log_odds: log odds of being on.
        temperature: tau.
        generator: a generator on the device of the log odds; None for torch's own.
    """
    tiny = torch.finfo(log_odds.dtype).tiny
    uniform = torch.rand(log_odds.shape, generator=generator, device=log_odds.device, dtype=log_odds.dtype)
    noise = torch.logit(uniform.clamp(min=tiny), eps=torch.finfo(log_odds.dtype).eps)
    return (log_odds + noise) / temperature
