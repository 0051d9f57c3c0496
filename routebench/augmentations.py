"""Augmentations of training images, which recipes name. `register` is the decorator of the registry.

A function takes a batch on its device and a generator. What it takes after a `*` are its hyperparameters:

>>> from routebench import augmentations
>>> @augmentations.register("noise")  # doctest: +SKIP
... def noise(images, generator, *, deviation: float = 0.1):
...     drawn = torch.randn(images.shape, generator=generator, device=generator.device)
...     return images + deviation * drawn.to(images.device)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from routebench.data import rotate_up_to
from routebench.errors import UserError
from routebench.notation import parse, registered
from routebench.registry import SHIPPED
from routebench.registry import augmentations as registry

register = registry.register

Augmentation = Callable[[Tensor, Generator], Tensor]
"""Takes float images (b, channels, height, width) and a generator; returns as many images of the same shape.

The generator may live on another device than the images: one on the CPU draws the same numbers for every device.
"""


def augmented(name: str, images: Tensor, generator: Generator) -> Tensor:
    """A batch as the augmentation of this name makes it.

    Args:
        name: an augmentation, with its options.
        images: pixels from 0 to 1, (batch, channels, height, width).
        generator: what it draws with.

    Raises:
        UserError: it gives something else than as many images of the same shape and type, or one that does not ship
            gives numbers that are not finite, for which a method would be blamed.
    """
    found = registered(registry, name)(images, generator)
    if not isinstance(found, Tensor) or (found.shape, found.dtype) != (images.shape, images.dtype):
        told = f"{found.dtype} of {tuple(found.shape)}" if isinstance(found, Tensor) else f"{found!r:.80}"
        expected = f"{images.dtype} of {tuple(images.shape)}"
        raise UserError(f"augmentation {name!r}: expected images as they came, {expected}, got {told}")
    if registry.origin(parse(name, registry.kind).name) != SHIPPED and not bool(found.isfinite().all()):
        raise UserError(f"augmentation {name!r}: expected finite numbers, got NaN or infinity")
    return found


@dataclass(frozen=True)
class Unchanged:
    """No augmentation; draws no random number."""

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns the images themselves."""
        return images


@dataclass(frozen=True)
class Shift:
    """Shifts each image by whole pixels, uniform in [-pixels, pixels] on each axis; zeros move in.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, section 5 (arXiv:1710.09829): up to 2 pixels, zero padding.
    """

    pixels: int = 2

    def __post_init__(self) -> None:
        _at_least_zero("Shift", "pixels", self.pixels)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns shifted images, (b, channels, height, width)."""
        return random_windows(images, self.pixels, generator)


@dataclass(frozen=True)
class PadCropFlip:
    """Pads with zeros, crops at random to the old size, and mirrors half of the images left to right.

    Source: Tsai et al., ICLR 2020, CIFAR-10 and CIFAR-100 (arXiv:2002.04764): 4 pixels of padding.
    """

    padding: int = 4

    def __post_init__(self) -> None:
        _at_least_zero("PadCropFlip", "padding", self.padding)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns cropped and mirrored images, (b, channels, height, width)."""
        cropped = random_windows(images, self.padding, generator)
        mirrored = torch.rand(len(images), 1, 1, 1, generator=generator, device=generator.device) < 0.5
        return torch.where(mirrored.to(images.device), cropped.flip(-1), cropped)


@dataclass(frozen=True)
class Rotate:
    """Turns each image by an angle of its own, uniform in [-degrees, degrees], bilinearly; zeros move in.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", figure 4, which does not say how angles are
    distributed.
    """

    degrees: int

    def __post_init__(self) -> None:
        _at_least_zero("Rotate", "degrees", self.degrees)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns turned images, (b, channels, height, width)."""
        return rotate_up_to(images, self.degrees, generator)


def random_windows(images: Tensor, padding: int, generator: Generator) -> Tensor:
    """A window of the old size at a random place of each zero-padded image; the middle place changes nothing.

    Args:
        images: (batch, channels, height, width).
        padding: zeros on each side, in pixels.
        generator: what places are drawn with.
    """
    batch, _, height, width = images.shape
    places = torch.randint(2 * padding + 1, (2, batch), generator=generator, device=generator.device)
    top, left = places.to(images.device)
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view: b channel top left height width
    return windows[torch.arange(batch, device=images.device), :, top, left]


def _at_least_zero(owner: str, name: str, value: float) -> None:
    if value < 0:
        raise UserError(f"{owner}: expected {name} of at least 0, got {value}")


register("none")(Unchanged())
register("shift2")(Shift(2))
register("pad-crop-flip")(PadCropFlip(4))
for _degrees in (45, 90, 135, 180):
    register(f"rotate{_degrees}")(Rotate(_degrees))
