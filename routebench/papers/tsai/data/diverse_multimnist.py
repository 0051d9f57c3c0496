"""DiverseMultiMNIST: one digit or two that overlap on a canvas, composed of MNIST digits as they are needed.

Source: Tsai et al., ICLR 2020, appendix B.2 (arXiv:2002.04764). The paper does not say how two digits are overlaid:
here pixels are added and clipped to 1. Nor does it say how likely each pair of classes is: here the first digit is any,
the second any of another class, so that pairs are about as frequent as their classes are.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor
from torch.nn import functional

from routebench.data import Dataset, Images, facts, fingerprint, load
from routebench.registry import datasets

SIDE = 36
"""Pixels of the canvas, each way."""
SINGLE = 1 / 6
"""Share of the images that show one digit only."""
CLASSES = 10
PRINTED = 60_000
"""Images of an epoch in the paper, which calls it a step: 350 of them are its 21 million."""
NUMBERS = 7
"""Random numbers per image: first digit, one or two, second digit, and row and column of both."""


@datasets.register("diverse-multimnist", version=1)
@facts(train=PRINTED, held_out=6_000, test=10_000, shape=(1, SIDE, SIDE), classes=10, several=True)
def diverse_multimnist() -> Dataset:
    """One or two overlapping MNIST digits, grey, 36x36, several labels; 60,000 images composed anew every epoch.

    That is as many as the paper has, of 54,000 digits: the others are held out. Held-out and test images are fixed, as
    many as `mnist` has digits there; no digit is in two parts.
    """
    return _from_digits("diverse-multimnist", "mnist", PRINTED)


@datasets.register("diverse-multimnist5k", version=1)
@facts(train=3600, held_out=400, test=1000, shape=(1, SIDE, SIDE), classes=10, several=True)
def diverse_multimnist5k() -> Dataset:
    """The same of the 5,000 digits of `mnist5k`: nothing to download; 3,600 images composed anew every epoch.

    As many images as `mnist5k` has digits in each part; no digit is in two parts. Held-out and test images are fixed.
    """
    return _from_digits("diverse-multimnist5k", "mnist5k")


def _from_digits(name: str, digits: str, count: int | None = None) -> Dataset:
    """Makes a set of one of digits; `count` images are composed for an epoch, as many as training digits if None."""
    known = load(digits)
    counts = (len(known.train) if count is None else count, len(known.held_out), len(known.test))
    parts = (known.train, known.held_out, known.test)
    train, held_out, test = (
        fixed_overlays(part, seed, size) for seed, (part, size) in enumerate(zip(parts, counts, strict=True))
    )
    return Dataset(
        name=name,
        classes=known.classes,
        train=train,
        held_out=held_out,
        test=test,
        fingerprint=fingerprint(train, held_out, test),
        source=f"composed as in Tsai et al., ICLR 2020, of {known.source}",
        compose=Overlays(known.train, len(train)),
    )


@dataclass(frozen=True)
class Overlays:
    """Composes images of digits, other ones with every state of the generator.

    Args:
        digits: digits with one label each.
        count: number of images.
    """

    digits: Images
    count: int

    def __call__(self, generator: Generator) -> Images:
        """Images of 36 x 36 on the generator's device; labels are bool, (n, classes)."""
        size = (self.count, NUMBERS)
        return overlaid(
            self.digits, torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64)
        )

    def example(self) -> Images:
        """Images that are always the same."""
        return fixed_overlays(self.digits, seed=0, count=self.count)

    def divided(self, kept: Tensor, tested: Tensor, seed: int) -> tuple["Overlays", Images]:
        """The same of some of the digits, and fixed images of others, as many as there are of these.

        Args:
            kept: places of the digits of the first, (n,).
            tested: places of those of the fixed images, (n,).
            seed: seed of the fixed images, at least 0.
        """
        own = len(kept) * self.count // len(self.digits)
        return Overlays(self.digits.at(kept), own), fixed_overlays(self.digits.at(tested), 100 + seed, len(tested))


def fixed_overlays(digits: Images, seed: int, count: int) -> Images:
    """`count` images, the same on every machine and version.

    Args:
        digits: digits with one label each.
        seed: seed of the choices of digits and places, at least 0.
        count: number of images.
    """
    # The legacy generator: NumPy promises that its stream never changes (NEP 19).
    return overlaid(digits, torch.from_numpy(np.random.RandomState(seed).random_sample((count, NUMBERS))))


def overlaid(digits: Images, uniform: Float[Tensor, "n 7"]) -> Images:
    """Composes one image per row of random numbers, on their device.

    Args:
        digits: digits with one label each.
        uniform: random numbers in [0, 1), float64.
    """
    drawn = draw(digits.labels, uniform, room=SIDE - digits.shape[1])
    pixels, labels = digits.pixels.to(uniform.device), digits.labels.to(uniform.device)
    first = _placed(pixels[drawn.first], drawn.corners[:, 0])
    second = _placed(pixels[drawn.second], drawn.corners[:, 1]) * drawn.two[:, None, None, None]
    shown = [functional.one_hot(labels[which], CLASSES) for which in (drawn.first, drawn.second)]
    several = shown[0] + shown[1] * drawn.two[:, None]
    return Images(first + torch.minimum(second, 255 - first), several.to(torch.bool))  # added, and clipped at 255


@dataclass(frozen=True)
class Drawn:
    """Choices that images are composed of.

    Args:
        first, second: which digit; they differ in class.
        two: whether the second is shown.
        corners: row and column of the upper left corner of each digit on the canvas.
    """

    first: Int[Tensor, " n"]
    second: Int[Tensor, " n"]
    two: Bool[Tensor, " n"]
    corners: Int[Tensor, "n 2 2"]


def draw(labels: Int[Tensor, " digits"], uniform: Float[Tensor, "n 7"], room: int) -> Drawn:
    """Turns random numbers into digits and places.

    Args:
        labels: class of each digit; at least two classes.
        uniform: random numbers in [0, 1).
        room: pixels that a digit can move on the canvas; 8 is up to 4 in each direction.
    """
    device, count = uniform.device, len(labels)
    by_class = labels.argsort(stable=True).to(device)
    sizes = labels.bincount()
    ends = sizes.cumsum(0).to(device)
    place = (uniform[:, 0] * count).long()
    own = labels.to(device)[by_class[place]]
    others = count - sizes.to(device)[own]
    # Going on from the end of the first digit's class and around, one meets all digits of other classes, once each.
    second = (ends[own] + (uniform[:, 2] * others).long()) % count
    corners = (uniform[:, 3:] * (room + 1)).long().reshape(-1, 2, 2)
    return Drawn(by_class[place], by_class[second], uniform[:, 1] >= SINGLE, corners)


def _placed(
    digits: UInt8[Tensor, "n channel height width"], corners: Int[Tensor, "n 2"]
) -> UInt8[Tensor, "n channel side side"]:
    """Digits on black canvases, each with its upper left corner at the given row and column."""
    room = SIDE - digits.shape[-1]
    canvas = functional.pad(digits, (room,) * 4)
    windows = canvas.unfold(2, SIDE, 1).unfold(3, SIDE, 1)  # a view: n channel top left height width
    top, left = (room - corners).unbind(dim=1)
    return windows[torch.arange(len(digits), device=digits.device), :, top, left]
