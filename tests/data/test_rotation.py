"""Turning images, against quarter turns and against scipy."""

import pytest
import torch
from scipy import ndimage, stats

from routebench.data import load
from routebench.data.rotation import draw_angles, rotate, rotate_up_to
from routebench.errors import UserError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def digits(count=6):
    return load("mnist5k").test.pixels[:: 1000 // count][:count].float() / 255


def test_no_turn_changes_nothing():
    images = digits()
    assert torch.allclose(rotate(images, torch.zeros(6)), images, atol=1e-5)


@pytest.mark.parametrize("quarters", [1, 2, 3, -1])
def test_quarter_turns_are_those_of_rot90(quarters):
    images = torch.rand(3, 2, 8, 8)
    turned = rotate(images, torch.full((3,), 90.0 * quarters))
    assert torch.allclose(turned, torch.rot90(images, quarters, (2, 3)), atol=1e-5)


def test_any_turn_is_that_of_scipy():
    images, degrees = digits(), torch.tensor([10.0, -35.0, 77.0, 123.0, -180.0, 45.0])
    for image, angle, turned in zip(images, degrees, rotate(images, degrees), strict=True):
        expected = ndimage.rotate(image[0].numpy(), float(angle), reshape=False, order=1, mode="grid-constant")
        assert torch.allclose(turned[0], torch.from_numpy(expected), atol=1e-4)


def test_images_need_not_be_square():
    images = torch.zeros(1, 1, 5, 9)
    images[0, 0, 2, 6] = 1  # two pixels right of the centre
    turned = rotate(images, torch.tensor([90.0]))
    assert turned[0, 0, 0, 4] == pytest.approx(1, abs=1e-5)  # two pixels above it
    assert turned.sum() == pytest.approx(1, abs=1e-5)


def test_each_image_is_turned_by_its_own_angle_whatever_is_beside_it():
    images, degrees = digits(), torch.tensor([0.0, 30.0, 60.0, 90.0, -90.0, 180.0])
    together = rotate(images, degrees)
    alone = [rotate(image[None], angle[None])[0] for image, angle in zip(images, degrees, strict=True)]
    assert torch.allclose(together, torch.stack(alone), atol=1e-6)


def test_angles_are_uniform_and_decided_by_the_generator():
    angles = draw_angles(4000, 60, generator())
    assert stats.kstest(angles.numpy(), stats.uniform(-60, 120).cdf).pvalue > 0.01
    assert angles.equal(draw_angles(4000, 60, generator()))
    assert not angles.equal(draw_angles(4000, 60, generator(1)))
    assert draw_angles(5, 0, generator()).abs().max() == 0


def test_turning_up_to_an_angle_uses_those_angles():
    images = digits()
    expected = rotate(images, draw_angles(6, 90, generator(3)))
    assert rotate_up_to(images, 90, generator(3)).equal(expected)


@pytest.mark.parametrize("degrees", [-1, 181])
def test_impossible_angles_are_refused(degrees):
    with pytest.raises(UserError, match="0 to 180"):
        draw_angles(1, degrees, generator())
