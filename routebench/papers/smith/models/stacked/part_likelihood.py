"""Likelihood of parts under objects: a mixture of their predictions, and the posterior of a part's object."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .object_decoder import Predictions
from .part_encoder import Parts


@dataclass(frozen=True)
class Explanation:
    """Explanation of parts by objects.

    Args:
        log_likelihood: log likelihood of all parts of an image, each weighted by its presence, in nats.
        responsibilities: the posterior probability that a part comes from an object; the rest to 1 over objects is
            clutter.
    """

    log_likelihood: Float[Tensor, " batch"]
    responsibilities: Float[Tensor, "batch object part"]

    def posterior(self) -> Float[Tensor, "batch object"]:
        """The posterior presence of every object: its share of the parts, between 0 and 1."""
        return self.responsibilities.mean(dim=2)


def explain(parts: Parts, predictions: Predictions, *, normalised: bool, clutter: float) -> Explanation:
    """The likelihood of parts under the mixture of objects, and its posterior.

    For part m it is `sum_k w_km N(x_m; pose_km, deviation_km^2)` with `w_km = a_k a_km`, over the six numbers of a
    pose, plus one term for clutter. Its logarithm is weighted by the presence of the part.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.3; Smith et al.,
    "Capsule networks: a probabilistic perspective", appendix D, for posterior presences.

    Args:
        parts: the parts whose poses the objects explain.
        predictions: predictions of the objects.
        normalised: divide the weights by their sum over k, clutter included; the authors' code computes that but then
            uses the raw weights. Responsibilities are the same.
        clutter: weight and density, each, of the term for clutter; 0.01 in the code.
    """
    away = (parts.poses[:, None] - predictions.poses).square().flatten(3).sum(dim=3)  # b object part
    numbers = parts.poses.shape[-2] * parts.poses.shape[-1]
    density = -0.5 * away / predictions.deviations.square() - numbers * predictions.deviations.log()
    joint = predictions.presences + density - 0.5 * numbers * math.log(2 * math.pi)
    nobody = torch.full_like(joint[:, :1], 2 * math.log(clutter))
    every = torch.cat([joint, nobody], dim=1)
    likely = every.logsumexp(dim=1)  # b part
    responsibilities = (joint - likely[:, None]).exp()
    if normalised:
        likely = likely - torch.cat([predictions.presences, 0.5 * nobody], dim=1).logsumexp(dim=1)
    present = parts.presences.sigmoid()
    return Explanation((present * likely).sum(dim=1), responsibilities)
