"""Beliefs of an encoder about capsules: for each a Concrete presence, and a point estimate or a normal pose."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from .concrete import concrete_log_density, concrete_sample
from .part_whole import Layer


@dataclass(frozen=True)
class Belief:
    """The approximate posterior of one layer of capsules, each independent of the others.

    Args:
        log_odds: log odds of being present.
        poses: means of the deviations A.
        log_deviations: logarithms of the poses' deviations; None for point estimates ("delta"). The bound is then one
            of the presences alone, at the best poses.
    """

    log_odds: Float[Tensor, "batch capsule"]
    poses: Float[Tensor, "batch capsule 6"]
    log_deviations: Float[Tensor, "batch capsule 6"] | None = None

    def sample(self, temperature: float, generator: Generator | None = None) -> Layer:
        """Draws capsules, differentiably with respect to the parameters.

        Args:
            temperature: tau of the presences, see `concrete_sample`.
            generator: a generator on the belief's device; None for torch's own.
        """
        presences = concrete_sample(self.log_odds, temperature, generator)
        if self.log_deviations is None:
            return Layer(presences, self.poses)
        noise = torch.randn(
            self.poses.shape, generator=generator, device=self.poses.device, dtype=self.poses.dtype
        )  # fmt: skip
        return Layer(presences, self.poses + self.log_deviations.exp() * noise)

    def middle(self) -> Layer:
        """The capsules at its centre: the log odds as logits, the means as poses."""
        return Layer(self.log_odds, self.poses)

    def log_density(self, drawn: Layer, temperature: float) -> Float[Tensor, " batch"]:
        """Log density of capsules drawn from it, in nats; point estimates of poses add nothing.

        Args:
            drawn: the capsules; of point estimates only presences count.
            temperature: tau of the presences, see `concrete_sample`.
        """
        found = concrete_log_density(drawn.presences, self.log_odds, temperature).sum(dim=1)
        if self.log_deviations is None:
            return found
        away = (drawn.poses - self.poses) / self.log_deviations.exp()
        of_poses = -0.5 * away.square() - self.log_deviations - 0.5 * math.log(2 * math.pi)
        return found + of_poses.sum(dim=(1, 2))
