"""Finds the parts of an image: the first half of a stacked capsule autoencoder."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from routebench.models.backbones import grid_after

from ..affine_poses import NUMBERS, pose_of
from ..attentive_pooling import AttentivePooling


@dataclass(frozen=True)
class Parts:
    """Parts as the encoder infers them.

    Args:
        poses: from places in a part's template to places on the canvas, both from -1 to 1.
        presences: logits of the probability that a part is there.
        features: special features: everything else about a part.
    """

    poses: Float[Tensor, "batch part 2 3"]
    presences: Float[Tensor, "batch part"]
    features: Float[Tensor, "batch part feature"]


class PartEncoder(nn.Module):
    """Four convolutions and, for each part, a weighted mean over positions with its own weights.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.2; sizes and
    noise are those of the authors' code. Weights start as torch has them, not sonnet.

    Args:
        shape: (channels, height, width) of the images.
        parts: part capsules.
        features: special features of each.
        width: channels of each convolution.
        places: learn a bias for every position and channel, as the code does (the paper does not say). Without it, the
            weighted mean does not know its position. It fixes the size of images.
        noise: width of the uniform noise around 0 that is added to the logits of presences in training; 4 in the code.
    """

    def __init__(
        self, shape: tuple[int, int, int], *, parts: int, features: int, width: int, places: bool, noise: float
    ):
        super().__init__()
        self.sizes = (NUMBERS, features, 1)
        grid_after(shape, (3, 2, 0), (3, 2, 0), (3, 1, 0), (3, 1, 0))
        size = (shape[1], shape[2]) if places else None
        self.pooling = AttentivePooling(shape[0], parts, sum(self.sizes), width=width, size=size)
        self.noise = noise

    def forward(self, images: Float[Tensor, "batch channel height width"], generator: Generator | None = None) -> Parts:
        """Infers the parts of each image.

        Args:
            images: values in [0, 1].
            generator: generator of the noise, on the images' device; None for torch's own.
        """
        numbers, features, presences = self.pooling(images).split(self.sizes, dim=-1)
        return Parts(
            pose_of(numbers), noisy(presences[..., 0], self.noise if self.training else 0.0, generator), features
        )


def noisy(logits: Float[Tensor, "*axes"], width: float, generator: Generator | None) -> Float[Tensor, "*axes"]:
    """Adds uniform noise of this width around 0 to logits; width 0 adds none.

    Args:
        logits: logits of presences.
        width: greatest less smallest noise, at least 0.
        generator: a generator on the logits' device; None for torch's own.
    """
    if not width:
        return logits
    draws = torch.rand(logits.shape, generator=generator, device=logits.device, dtype=logits.dtype)
    return logits + width * (draws - 0.5)
