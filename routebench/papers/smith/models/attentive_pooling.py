"""A convolutional encoder in which every capsule chooses where in the image it looks."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn


class AttentivePooling(nn.Module):
    """A convolutional network; each capsule averages its features over positions, weighted by its own softmax.

    Source: Kosiorek et al., "Stacked capsule autoencoders", NeurIPS 2019 (arXiv:1906.06818), section 2.2 and their
    code; Smith et al., "Capsule networks: a probabilistic perspective", appendix B.

    Args:
        channels: number of channels of the images.
        capsules: how many there are.
        outputs: numbers per capsule.
        width: channels of each hidden layer.
        strides: strides of the 3 x 3 convolutions, one per layer.
        padding: padding of each; 0 leaves 2 x 2 places of a 28 x 28 image, 1 leaves 7 x 7.
        activation: the function after each hidden layer.
        size: (height, width) of the images. Then a bias that is learned for every place and channel is added to what
            the convolutions see, which tells places apart, as in the code of Kosiorek et al.; None: no such bias.
    """

    def __init__(
        self,
        channels: int,
        capsules: int,
        outputs: int,
        *,
        width: int,
        strides: tuple[int, ...] = (2, 2, 1, 1),
        padding: int = 0,
        activation: type[nn.Module] = nn.ReLU,
        size: tuple[int, int] | None = None,
    ):
        super().__init__()
        self.capsules = capsules
        layers: list[nn.Module] = []
        widths = [channels, *[width] * len(strides)]
        for (below, above), stride in zip(pairwise(widths), strides, strict=True):
            layers += [nn.Conv2d(below, above, 3, stride, padding), activation()]
        self.layers = nn.Sequential(*layers)
        self.places: nn.Parameter | None = None
        if size is not None:
            rows, columns = size
            for stride in strides:
                rows, columns = ((length + 2 * padding - 3) // stride + 1 for length in (rows, columns))
            self.places = nn.Parameter(torch.zeros(width, rows, columns))
        self.values = nn.Conv2d(width, capsules * outputs, 1)
        self.attention = nn.Conv2d(width, capsules, 1)

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch capsule output"]:
        """Features of each capsule for each image."""
        seen = self.layers(images)
        if self.places is not None:
            seen = seen + self.places
        values = self.values(seen).flatten(2).unflatten(1, (self.capsules, -1))  # b capsule output place
        weights = self.attention(seen).flatten(2).softmax(dim=-1)  # b capsule place
        pooled: Tensor = (values * weights[:, :, None]).sum(dim=-1)
        return pooled
