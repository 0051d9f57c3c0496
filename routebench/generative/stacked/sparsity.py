"""Losses that make few object capsules answer to one image, and all of them to some image."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

Presences = Float[Tensor, "batch object"]
Scalar = Float[Tensor, ""]

TINY = 1e-16
"""A probability below this counts as this in a logarithm."""


@dataclass(frozen=True)
class Sparsity:
    """Losses within an example, and between the examples of a batch; both are to be made small."""

    within: Scalar
    between: Scalar


def prior_sparsity(presences: Presences, *, objects_per_image: float, share: float, images: int | None) -> Sparsity:
    """How far prior presences are from a given number of objects per image, and of images per object.

    `within` is the mean over images of `(sum_k presence - objects_per_image)^2`, `between` the mean over objects of
    `(sum_b presence - share * images)^2`.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.4;
    constants are those of the authors' code.

    Args:
        presences: a_k max_m a_km.
        objects_per_image: that should be there.
        share: of the images in which each object should be.
        images: presences are summed over as many, by way of their mean: what is lost does not then depend on how many
            are in the batch. 128, the batch of the code, gives what that has; None sums over the batch itself.
    """
    within = (presences.sum(dim=1) - objects_per_image).square().mean()
    count = len(presences) if images is None else images
    between = (count * (presences.mean(dim=0) - share)).square().mean()
    return Sparsity(within, between)


def posterior_sparsity(presences: Presences) -> Sparsity:
    """Entropies, in nats, of who explains the parts of one image, and, with a minus, of all images of the batch.

    Source: Kosiorek et al., section 2.4; which logarithm, and that each is normalised first, are of the authors' code.

    Args:
        presences: parts that each object explains, or its share of them.
    """
    within = _entropy(presences).mean()
    return Sparsity(within, -_entropy(presences.sum(dim=0)))


def _entropy(masses: Float[Tensor, "*axes object"]) -> Float[Tensor, "*axes"]:
    shares = masses / (masses.sum(dim=-1, keepdim=True) + 1e-8)
    return -(shares * shares.clamp(min=TINY).log()).sum(dim=-1)
