"""Random brightness, contrast and windows of images of smallNORB."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from routebench.augmentations import random_windows
from routebench.errors import UserError
from routebench.registry import augmentations


@dataclass(frozen=True)
class Jitter:
    """Random brightness, random contrast, and a random place of the window that a network looks at, for each image.

    A number uniform in [-brightness, brightness] is added; then each channel's distance from its mean is multiplied by
    a number uniform in [least, most]; then the image is shifted by whole pixels, uniform in [-m, m] on each axis. Here
    m is what images of 48 x 48 or more have around their middle 32 x 32 pixels, 8 for 48 x 48: a network that looks at
    the middle then sees a random window. Smaller images, which networks look at whole, are not shifted.

    Source: the code of Hinton, Sabour and Frosst, ICLR 2018, for smallNORB; the paper gives no ranges, and changes what
    is cut out, not what it is cut from. Values may leave [0, 1] there. A network that standardises what it sees, as
    theirs and ours do, then undoes brightness, and contrast too where there is one channel.

    Args:
        brightness: the largest change, where 1 is the range of a pixel.
        contrast: least and most.
        clipped: values outside of [0, 1] are set to the nearest limit, which no standardisation undoes.
    """

    brightness: float = 63 / 255
    contrast: tuple[float, float] = (0.2, 1.8)
    clipped: bool = False

    def __post_init__(self) -> None:
        for what, value in (
            ("brightness", self.brightness),
            ("the least contrast", self.contrast[0]),
            ("a difference of contrasts", self.contrast[1] - self.contrast[0]),
        ):
            if value < 0:
                raise UserError(f"Jitter: expected {what} of at least 0, got {value}")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns changed images, (b, channels, height, width)."""
        drawn = torch.rand(2, len(images), 1, 1, 1, generator=generator, device=generator.device).to(images.device)
        brighter = images + self.brightness * (2 * drawn[0] - 1)
        least, most = self.contrast
        mean = brighter.mean(dim=(2, 3), keepdim=True)
        changed = mean + (least + (most - least) * drawn[1]) * (brighter - mean)
        if self.clipped:
            changed = changed.clamp(0, 1)
        return random_windows(changed, around_window(images.shape[2], images.shape[3]), generator)


def around_window(height: int, width: int) -> int:
    """Pixels on each side of the middle 32 x 32 that networks for smallNORB look at; 0 for less than 48 x 48."""
    return (min(height, width) - 32) // 2 if min(height, width) >= 48 else 0


@dataclass(frozen=True)
class ColourJitter:
    """A random place of the window that a network looks at, then random brightness and contrast, for each image.

    The window is placed as by `Jitter`. Its values are then multiplied by a number uniform in 1 - brightness to
    1 + brightness, and their distance from the window's mean by one uniform in 1 - contrast to 1 + contrast; which of
    the two comes first is drawn too. Values outside of [0, 1] are set to the nearest limit after each.

    Source: the public code yl-1993/Matrix-Capsules-EM-PyTorch, which calls torchvision's `ColorJitter` on the window.
    Departures: means are of each channel, and values are not rounded to 256 grey levels.

    Args:
        brightness, contrast: the largest change of each factor, at most 1.
    """

    brightness: float = 32 / 255
    contrast: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("brightness", self.brightness), ("contrast", self.contrast)):
            if not 0 <= value <= 1:
                raise UserError(f"ColourJitter: expected {name} from 0 to 1, got {value}")

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Returns changed images, (b, channels, height, width)."""
        margin = around_window(images.shape[2], images.shape[3])
        moved = random_windows(images, margin, generator)
        drawn = torch.rand(3, len(images), 1, 1, 1, generator=generator, device=generator.device).to(images.device)
        light, spread = 1 + self.brightness * (2 * drawn[0] - 1), 1 + self.contrast * (2 * drawn[1] - 1)
        lit_first = _contrasted((light * moved).clamp(0, 1), spread, margin)
        lit_last = (light * _contrasted(moved, spread, margin)).clamp(0, 1)
        return torch.where(drawn[2] < 0.5, lit_first, lit_last)


def _contrasted(images: Tensor, spread: Tensor, margin: int) -> Tensor:
    """The distance from each channel's mean, without the margin on each side, times `spread`; clipped to [0, 1]."""
    inside = images[:, :, margin : images.shape[2] - margin, margin : images.shape[3] - margin]
    mean = inside.mean(dim=(2, 3), keepdim=True)
    return (mean + spread * (images - mean)).clamp(0, 1)


augmentations.register("smallnorb-jitter", version=1)(Jitter())
augmentations.register("smallnorb-jitter-clipped", version=1)(Jitter(clipped=True))
augmentations.register("smallnorb-jitter-yl1993", version=2)(ColourJitter())
