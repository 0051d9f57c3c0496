"""Corrupted images are what the formulas say, the same every time, and worse with severity."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from routebench.data import CORRUPTIONS, corrupted, load
from routebench.errors import UserError

PIXELS = load("mnist5k").test.pixels[:20]


def shares(pixels):
    return pixels.numpy() / 255


@pytest.mark.parametrize("name", [*CORRUPTIONS])
def test_each_is_repeatable_and_grows_with_severity(name):
    found = [corrupted(PIXELS, name, severity) for severity in range(1, 6)]
    assert all(one.dtype == torch.uint8 and one.shape == PIXELS.shape for one in found)
    assert torch.equal(found[2], corrupted(PIXELS, name, 3))
    away = [np.abs(shares(one) - shares(PIXELS)).mean() for one in found]
    assert away[4] > away[1] > 0
    assert away == sorted(away) or name == "pixelate"  # 17 of 28 pixels fit worse than 14


def test_levels_are_in_units_of_pixels_from_0_to_1():
    grey = torch.full((8, 1, 40, 40), 128, dtype=torch.uint8)
    assert shares(corrupted(grey, "gaussian-noise", 1)).std() == pytest.approx(0.08, rel=0.03)
    assert shares(corrupted(grey, "shot-noise", 1)).std() == pytest.approx((0.5 / 60) ** 0.5, rel=0.03)
    changed = corrupted(grey, "impulse-noise", 5)
    assert ((changed == 0) | (changed == 255)).double().mean() == pytest.approx(0.27, abs=0.02)
    assert shares(corrupted(grey, "brightness", 3)) == pytest.approx(128 / 255 + 0.3, abs=1 / 255)


def test_blur_contrast_and_coarse_pixels_are_those_of_plain_code():
    blurred = np.stack([ndimage.gaussian_filter(image[0], 1.5, mode="constant", radius=5) for image in shares(PIXELS)])
    assert shares(corrupted(PIXELS, "gaussian-blur", 3))[:, 0] == pytest.approx(blurred, abs=0.51 / 255)
    mean = shares(PIXELS).mean(axis=(2, 3), keepdims=True)
    assert shares(corrupted(PIXELS, "contrast", 2)) == pytest.approx(
        mean + 0.3 * (shares(PIXELS) - mean), abs=0.51 / 255
    )


@pytest.mark.parametrize(("severity", "small"), [(1, 16), (2, 14), (3, 11), (4, 8), (5, 7)])
def test_coarse_pixels_are_those_of_a_box_filter(severity, small):
    """Pixels whose middle lies under an output pixel count alike, by columns and then rows, each rounded."""
    span = np.arange(small + 1) * 28 / small
    under = (np.arange(28) + 0.5 > span[:-1, None]) & (np.arange(28) + 0.5 <= span[1:, None])
    down = under / under.sum(axis=1, keepdims=True)
    up = np.floor((np.arange(28) + 0.5) * small / 28).astype(int)
    columns = np.round(255 * shares(PIXELS)[:, 0]) @ down.T
    rows = down @ np.floor(columns + 0.5)
    expected = np.floor(rows + 0.5)[:, up][:, :, up] / 255
    assert shares(corrupted(PIXELS, "pixelate", severity))[:, 0] == pytest.approx(expected, abs=1.01 / 255)


def test_colours_are_corrupted_alike_in_shape():
    colours = PIXELS.expand(-1, 3, -1, -1)
    assert torch.equal(corrupted(colours, "gaussian-blur", 2)[:, :1], corrupted(PIXELS, "gaussian-blur", 2))


def test_what_is_unknown_is_refused():
    with pytest.raises(UserError, match=r"unknown corruption .contrst.*contrast"):
        corrupted(PIXELS, "contrst", 1)
    with pytest.raises(UserError, match="expected a severity from 1 to 5, got 6"):
        corrupted(PIXELS, "contrast", 6)
