"""Losses that make few object capsules active in one image, and every one active in some image."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

Presences = Float[Tensor, "batch object"]
Scalar = Float[Tensor, ""]

TINY = 1e-16
"""Smallest probability in a logarithm."""


@dataclass(frozen=True)
class Sparsity:
    """Losses within an example, and between the examples of a batch; both are minimised."""

    within: Scalar
    between: Scalar


def prior_sparsity(presences: Presences, *, objects_per_image: float, share: float, images: int | None) -> Sparsity:
    """Distance of prior presences from a given number of objects per image, and of images per object.

    `within` is the mean over images of `(sum_k presence - objects_per_image)^2`, `between` the mean over objects of
    `(sum_b presence - share * images)^2`.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.4;
    constants are those of the authors' code.

    Args:
        presences: a_k max_m a_km.
        objects_per_image: the target.
        share: target share of images with each object.
        images: presences are averaged over the batch and scaled to this many images, so that the loss does not depend
            on the batch size. 128, the code's batch size, gives the code's loss; None sums over the batch itself.
    """
    within = (presences.sum(dim=1) - objects_per_image).square().mean()
    count = len(presences) if images is None else images
    between = (count * (presences.mean(dim=0) - share)).square().mean()
    return Sparsity(within, between)


def posterior_sparsity(presences: Presences) -> Sparsity:
    """Entropies, in nats, of which object explains parts: of one image and, with a minus, over the batch.

    Source: Kosiorek et al., section 2.4; the logarithm, and normalising first, are those of the authors' code.

    Args:
        presences: parts that each object explains, or its share of them.
    """
    within = _entropy(presences).mean()
    return Sparsity(within, -_entropy(presences.sum(dim=0)))


def _entropy(masses: Float[Tensor, "*axes object"]) -> Float[Tensor, "*axes"]:
    shares = masses / (masses.sum(dim=-1, keepdim=True) + 1e-8)
    return -(shares * shares.clamp(min=TINY).log()).sum(dim=-1)
