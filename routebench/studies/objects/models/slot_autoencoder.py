"""An autoencoder whose code is a layer of capsules, each of which draws a part of the picture: for learning objects."""

from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from routebench.arguments import Count, Positive, checked
from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules, MakeRouting, PrimaryCapsules
from routebench.models.facts import facts
from routebench.models.network import Output
from routebench.registry import models

Batch = Float[Tensor, "batch channel height width"]
SMALLEST = 1e-6
"""Number added to a presence before its logarithm is taken."""


@dataclass(frozen=True)
class SlotPictures:
    """Pictures that slots draw.

    Args:
        pictures: picture of each slot alone.
        masks: the share of each pixel that is the slot's; over slots they add up to one.
        layers: the capsules of the grid, and the slots.
    """

    pictures: Float[Tensor, "batch slot channel height width"]
    masks: Float[Tensor, "batch slot height width"]
    layers: list[Capsules]

    @property
    def picture(self) -> Batch:
        """All slots together."""
        return (self.pictures * self.masks[:, :, None]).sum(dim=1)


class SlotAutoencoder(nn.Module):
    """Capsules on a grid vote for a few slots; each slot draws a picture and a mask; masks add the pictures up.

    Learns by the squared error of the picture, without labels. An object is found if one slot draws it and no other.

    Source: the form is that of slot attention for object discovery, Locatello et al., NeurIPS 2020 (arXiv:2006.15055),
    section 3.1 and figure 2a: convolutions, places added, slots, a decoder that sees one slot and a place, masks by a
    softmax over slots. Departures: it is smaller, its grid is half the picture's, and places are those of pixels'
    centres, where theirs reach from 0 to 1. Any routing method groups the grid. It votes by matrices of each slot's
    own, which slots are told apart by (`votes`). The decoder is a perceptron at each place in place of convolutions,
    which takes a quarter of their time. Where a routing method gives activations, the mask's logit has their logarithm
    added.

    Args:
        routing: makes the routing method.
        shape: (channels, height, width) of the images; height and width are even.
        slots: number of slots; one more than there are objects leaves one for the ground.
        pose: elements of a capsule.
        hidden: units of the layers of the decoder.
        votes: `own`: a matrix for each slot, all places share it. `shared`: one for all slots, as in slot attention,
            so that only their starts tell them apart; with a method whose parents start alike they stay the same.
        weight_std: standard deviation of the initial weights of votes; None for 1/sqrt(pose).

    Raises:
        ValueError: height or width is odd.
    """

    @checked
    def __init__(
        self,
        routing: MakeRouting,
        shape: tuple[int, int, int],
        *,
        slots: Count = 5,
        pose: Count = 16,
        hidden: Count = 32,
        votes: Literal["own", "shared"] = "own",
        weight_std: Positive | None = None,
    ):
        super().__init__()
        channels, height, width = shape
        if height % 2 or width % 2:
            raise ValueError(f"expected images of even height and width, got {height} x {width}")
        self.shape, self.hidden = shape, hidden
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 16, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 32, 5, padding=2),
            nn.ReLU(),
            WithPlaces(32, height // 2, width // 2),
            nn.Conv2d(32, 32, 1),
            nn.ReLU(),
        )
        self.primary = PrimaryCapsules(32, 1, pose, presence="none")
        std = pose**-0.5 if weight_std is None else weight_std
        grid = (height // 2, width // 2, 1)
        self.slots = DenseCapsules(grid, slots, pose, pose, routing, share=True, weight_std=std)
        if votes == "shared":
            self.slots.weight = nn.Parameter(self.slots.weight[:, :1].detach().clone())
            parametrize.register_parametrization(self.slots, "weight", ForAll(slots), unsafe=True)  # another shape
        self.of_slot = nn.Linear(pose, hidden)
        self.of_place = nn.Linear(4, hidden)
        layers = [nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
        self.decoder = nn.Sequential(*layers, nn.Linear(hidden, channels + 1))
        self.register_buffer("places", _places(height, width), persistent=False)
        self.places: Tensor

    def forward(self, images: Batch) -> Output:
        """The capsules of both layers; it says no class."""
        nothing = images.new_zeros(len(images), 0)
        return Output(nothing, nothing, self._layers(images))

    def draw(self, images: Batch) -> SlotPictures:
        """The pictures that slots draw of images with values in [0, 1]."""
        layers = self._layers(images)
        slots = layers[-1]
        told = self.of_slot(slots.poses)[:, :, None] + self.of_place(self.places)  # b slot pixel unit
        *colours, masks = self.decoder(told).unbind(dim=-1)
        if self.slots.routing.gives_activations:
            masks = masks + (slots.activations + SMALLEST).log()[..., None]
        height, width = self.shape[1:]
        pictures = torch.stack(colours, dim=2).view(*masks.shape[:2], -1, height, width)
        return SlotPictures(pictures, masks.softmax(dim=1).view(*masks.shape[:2], height, width), layers)

    def reconstruction(self, images: Batch) -> Batch:
        """The picture that all slots draw together, with values in [0, 1]."""
        return self.draw(images).picture.clamp(0, 1)

    def objective(self, images: Batch, generator: Generator | None = None) -> Float[Tensor, ""]:
        """Squared error of the picture, mean over images, channels and pixels.

        Args:
            images: values in [0, 1].
            generator: nothing is drawn by it.
        """
        return functional.mse_loss(self.draw(images).picture, images)

    def features(self, images: Batch) -> dict[str, Tensor]:
        """`slots`: the poses of all slots, (batch, slot x pose)."""
        return {"slots": self._layers(images)[-1].poses.flatten(1)}

    def _layers(self, images: Batch) -> list[Capsules]:
        grid = self.primary(self.encoder(images))
        return [grid, self.slots(grid)]


class WithPlaces(nn.Module):
    """Adds a linear map of each pixel's place to its features."""

    def __init__(self, channels: int, height: int, width: int):
        super().__init__()
        self.map = nn.Linear(4, channels)
        self.register_buffer("places", _places(height, width), persistent=False)
        self.places: Tensor

    def forward(self, features: Batch) -> Batch:
        """Features of the same shape."""
        placed: Tensor = rearrange(self.map(self.places), "(y x) c -> c y x", y=features.shape[2])
        return features + placed


class ForAll(nn.Module):
    """One weight for all parents."""

    def __init__(self, parents: int):
        super().__init__()
        self.parents = parents

    def forward(self, weight: Float[Tensor, "child 1 _ _"]) -> Float[Tensor, "child parent _ _"]:
        """The same for each."""
        return weight.expand(-1, self.parents, -1, -1)


def _places(height: int, width: int) -> Float[Tensor, "pixel 4"]:
    """Distances of each pixel's centre from the four edges, as shares of the picture."""
    down, across = ((torch.arange(size) + 0.5) / size for size in (height, width))
    both = torch.stack(torch.meshgrid(down, across, indexing="ij"), dim=-1).flatten(0, 1)
    return torch.cat([both, 1 - both], dim=1)


@models.register("slot-autoencoder", version=1)
@facts(
    source="Locatello et al., NeurIPS 2020, section 3.1, small, with any routing method",
    shape=(3, 24, 24),
    classes=3,
    unsupervised=True,
    passes_on=(SlotAutoencoder,),
)
def slot_autoencoder(
    routing: MakeRouting,
    shape: tuple[int, int, int],
    classes: int,  # noqa: ARG001  # the signature is the interface
    **given: object,
) -> SlotAutoencoder:
    """Three convolutions - a grid of capsules - 5 slots that draw the picture, trained without labels.

    Args:
        routing, shape: as for `SlotAutoencoder`.
        classes: number of classes of the data; unused.
        given: further arguments of `SlotAutoencoder`.
    """
    return SlotAutoencoder(routing, shape, **given)  # type: ignore[arg-type]  # checked by name
