"""Images as poor cameras and channels leave them: noise, blur, contrast, brightness, coarse pixels."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.random import RandomState
from PIL import Image
from torch import Tensor
from torch.nn import functional

from routebench.errors import UserError, unknown

Pixels = Float[Tensor, "image channel height width"]
SEVERITIES = 5
BOX = Image.Resampling.BOX


def gaussian_noise(pixels: Pixels, level: float, random: RandomState) -> Pixels:
    """Noise of this standard deviation.

    Args:
        pixels: from 0 to 1.
        level: the standard deviation.
        random: draws the noise.
    """
    return pixels + level * torch.from_numpy(random.standard_normal(pixels.shape))


def shot_noise(pixels: Pixels, level: float, random: RandomState) -> Pixels:
    """Poisson noise: draws the number of photons at each pixel, whose mean is in proportion to its brightness.

    Args:
        pixels: from 0 to 1.
        level: mean number of photons at a pixel of 1.
        random: draws the photons.
    """
    return torch.from_numpy(random.poisson((level * pixels).numpy()) / level)


def impulse_noise(pixels: Pixels, level: float, random: RandomState) -> Pixels:
    """Turns this share of all values black or white.

    Args:
        pixels: from 0 to 1.
        level: the share, 0 to 1.
        random: chooses the values.
    """
    drawn = torch.from_numpy(random.random_sample(pixels.shape))
    return torch.where(drawn < level / 2, 0.0, torch.where(drawn < level, 1.0, pixels))


def gaussian_blur(pixels: Pixels, level: float, _: RandomState) -> Pixels:
    """Blurs by this width in pixels, with black around the image.

    Args:
        pixels: from 0 to 1.
        level: standard deviation of the blur, in pixels.
    """
    reach = int(np.ceil(3 * level))
    taps = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=pixels.dtype) / level) ** 2)
    taps = taps / taps.sum()
    planes = pixels.flatten(0, 1)[:, None]
    down = functional.conv2d(planes, taps.view(1, 1, -1, 1), padding=(reach, 0))
    return functional.conv2d(down, taps.view(1, 1, 1, -1), padding=(0, reach)).reshape(pixels.shape)


def contrast(pixels: Pixels, level: float, _: RandomState) -> Pixels:
    """Leaves this share of the distance to the image's mean.

    Args:
        pixels: from 0 to 1.
        level: the share, 0 to 1.
    """
    mean = pixels.mean(dim=(2, 3), keepdim=True)
    return mean + level * (pixels - mean)


def brightness(pixels: Pixels, level: float, _: RandomState) -> Pixels:
    """Brighter by this.

    Args:
        pixels: from 0 to 1.
        level: what is added.
    """
    return pixels + level


def pixelate(pixels: Pixels, level: float, _: RandomState) -> Pixels:
    """Makes the image smaller to this share, rounded down, by Pillow's box filter, and large again.

    Args:
        pixels: from 0 to 1.
        level: the share of height and width, 0 to 1.
    """
    height, width = pixels.shape[2:]
    small = max(1, int(level * width)), max(1, int(level * height))
    planes = pixels.flatten(0, 1).mul(255).round().to(torch.uint8).numpy()
    for place, one in enumerate(planes):
        planes[place] = Image.fromarray(one).resize(small, BOX).resize((width, height), BOX)
    return torch.from_numpy(planes).reshape(pixels.shape).double().div(255)


Corruption = Callable[[Pixels, float, RandomState], Pixels]
CORRUPTIONS: dict[str, tuple[Corruption, tuple[float, ...]]] = {
    "gaussian-noise": (gaussian_noise, (0.08, 0.12, 0.18, 0.26, 0.38)),
    "shot-noise": (shot_noise, (60, 25, 12, 5, 3)),
    "impulse-noise": (impulse_noise, (0.03, 0.06, 0.09, 0.17, 0.27)),
    "gaussian-blur": (gaussian_blur, (0.5, 1.0, 1.5, 2.0, 2.5)),
    "contrast": (contrast, (0.4, 0.3, 0.2, 0.1, 0.05)),
    "brightness": (brightness, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "pixelate": (pixelate, (0.6, 0.5, 0.4, 0.3, 0.25)),
}
"""Corruptions by name, each with its level at severities 1 to 5, for pixels from 0 to 1.

Levels of noise, contrast, brightness and coarse pixels are those of Hendrycks and Dietterich, ICLR 2019, for 224 x 224
images. Those of blur are ours, since theirs (1 to 6 pixels) leave nothing of 28 x 28. Not theirs either: brightness is
added to every channel, blur sees black beyond the edge, and grey levels are rounded at the end, where their code cuts.
"""


def corrupted(
    pixels: UInt8[Tensor, "image channel height width"], name: str, severity: int
) -> UInt8[Tensor, "image channel height width"]:
    """The images after a corruption, the same on every machine.

    Args:
        pixels: uint8, grey levels from 0 to 255.
        name: a corruption of `CORRUPTIONS`.
        severity: 1, the weakest, to 5.

    Raises:
        UserError: there is no such corruption or severity.
    """
    if name not in CORRUPTIONS:
        raise unknown("corruption", name, CORRUPTIONS)
    if severity not in range(1, SEVERITIES + 1):
        raise UserError(f"corruption {name}: expected a severity from 1 to {SEVERITIES}, got {severity!r}")
    corrupt, levels = CORRUPTIONS[name]
    # The legacy generator: NumPy promises that its stream never changes (NEP 19).
    random = RandomState(100 * list(CORRUPTIONS).index(name) + severity)
    found = corrupt(pixels.double().div(255), levels[severity - 1], random)
    return found.clamp(0, 1).mul(255).round().to(torch.uint8)
