"""Augmentation, against moving one image at a time."""

from collections import Counter

import pytest
import torch

from routebench.augmentations import PadCropFlip, Shift
from routebench.data.rotation import rotate_up_to
from routebench.data.torchvision_import import import_torchvision
from routebench.errors import UserError
from routebench.papers.hinton.augmentations.jitter import ColourJitter, Jitter
from routebench.registry import augmentations

FUNCTIONAL = import_torchvision().transforms.functional


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def moved(image: torch.Tensor, down: int, right: int) -> torch.Tensor:
    """One image (channel, height, width), moved; zeros move in."""
    _, height, width = image.shape
    result = torch.zeros_like(image)
    for row in range(max(0, down), min(height, height + down)):
        if right >= 0:
            result[:, row, right:] = image[:, row - down, : width - right]
        else:
            result[:, row, :right] = image[:, row - down, -right:]
    return result


def moves(before: torch.Tensor, after: torch.Tensor, reach: int, *, mirror: bool) -> Counter:
    """How often each (down, right, mirrored) explains what happened to an image, which exactly one has to."""
    seen = Counter()
    for image, result in zip(before, after, strict=True):
        fits = [
            (down, right, flip)
            for down in range(-reach, reach + 1)
            for right in range(-reach, reach + 1)
            for flip in ([False, True] if mirror else [False])
            if (moved(image, down, right).flip(-1) if flip else moved(image, down, right)).equal(result)
        ]
        assert len(fits) == 1
        seen.update(fits)
    return seen


def test_shift_moves_each_image_by_its_own_whole_pixels():
    images = torch.rand(500, 2, 6, 5)  # not square: the axes are told apart
    seen = moves(images, augmentations["shift2"](images, generator()), 2, mirror=False)
    assert len(seen) == 25
    assert max(seen.values()) < 45  # 20 of each are expected, with a standard deviation of 4.4


def test_pad_crop_flip_moves_and_mirrors_each_image_by_itself():
    images = torch.rand(500, 3, 7, 6)
    seen = moves(images, PadCropFlip(2)(images, generator()), 2, mirror=True)
    assert len(seen) == 50
    mirrored = sum(count for (_, _, flip), count in seen.items() if flip)
    assert 200 < mirrored < 300  # half, with a standard deviation of 11


def test_the_named_one_pads_by_four():
    images = torch.ones(600, 1, 32, 32)
    after = augmentations["pad-crop-flip"](images, generator())
    assert after.sum(dim=(1, 2, 3)).unique().tolist() == sorted(
        {float(h * w) for h in range(28, 33) for w in range(28, 33)}
    )


@pytest.mark.parametrize("name", sorted(augmentations))
def test_shape_type_and_layout_stay_and_the_generator_decides(name):
    images = torch.rand(64, 3, 9, 8).to(memory_format=torch.channels_last)
    before = images.clone()
    augment = augmentations[name]
    first, again, other = (augment(images, generator(seed)) for seed in (0, 0, 1))
    assert first.shape == images.shape
    assert first.dtype == images.dtype
    assert first.is_contiguous(memory_format=torch.channels_last)
    assert first.equal(again)
    assert first.equal(other) == (name == "none")
    assert images.equal(before)


@pytest.mark.parametrize("name", sorted(set(augmentations) - {"none"}))
def test_the_global_generator_is_left_alone(name):
    state = torch.get_rng_state()
    augmentations[name](torch.rand(2, 1, 4, 4, generator=generator()), generator())
    assert torch.get_rng_state().equal(state)


@pytest.mark.parametrize("degrees", [45, 90, 135, 180])
def test_turning_is_by_angles_up_to_the_one_in_the_name(degrees):
    images = torch.rand(5, 1, 8, 8)
    expected = rotate_up_to(images, degrees, generator())
    assert augmentations[f"rotate{degrees}"](images, generator()).equal(expected)


def test_its_size_changes_something():
    images = torch.rand(16, 1, 8, 8)
    for kind in (Shift, PadCropFlip):
        assert not kind(1)(images, generator()).equal(kind(3)(images, generator()))
    assert Shift(0)(images, generator()).equal(images)
    for kind in (Shift, PadCropFlip):
        with pytest.raises(UserError, match="at least 0, got -1"):
            kind(-1)


class TestJitter:
    def explained(self, before: torch.Tensor, after: torch.Tensor) -> tuple[float, float, float]:
        """Brightness and contrast that lead from one image to the other, and what they miss."""
        mean = before.mean(dim=(1, 2), keepdim=True)
        brightness = float((after - before).mean())
        contrast = float((after - after.mean(dim=(1, 2), keepdim=True)).std() / (before - mean).std())
        rebuilt = mean + brightness + contrast * (before - mean)
        return brightness, contrast, float((rebuilt - after).abs().max())

    def test_brightness_and_contrast_are_uniform_in_their_ranges(self):
        brightness, least, most = 63 / 255, 0.2, 1.8
        images = torch.rand(400, 2, 32, 32)  # small enough to be looked at whole: no shift
        after = augmentations["smallnorb-jitter"](images, generator())
        found = torch.tensor([self.explained(*pair) for pair in zip(images, after, strict=True)])
        assert float(found[:, 2].max()) < 1e-5
        for values, low, high in ((found[:, 0], -brightness, brightness), (found[:, 1], least, most)):
            tenth = (high - low) / 10
            assert low - 1e-5 <= float(values.min()) < low + tenth < high - tenth < float(values.max()) <= high + 1e-5
            assert float(values.mean()) == pytest.approx((low + high) / 2, abs=tenth)

    def test_images_with_room_around_the_window_are_shifted_by_up_to_it(self):
        images = torch.rand(400, 1, 48, 48)
        after = Jitter(brightness=0.0, contrast=(1.0, 1.0))(images, generator())
        windows = images.unfold(2, 32, 1).unfold(3, 32, 1)[:, 0]  # image top left row column
        same = (windows - after[:, :, None, 8:40, 8:40]).abs().amax(dim=(3, 4)) < 1e-6
        assert same.sum(dim=(1, 2)).tolist() == [1] * 400  # each middle is exactly one window of the image
        places = same.nonzero()[:, 1:]
        assert places.amin(dim=0).tolist() == [0, 0] and places.amax(dim=0).tolist() == [16, 16]
        assert torch.allclose(places.double().mean(dim=0), torch.tensor([8.0, 8.0]).double(), atol=1.0)

    def test_clipping_changes_only_what_leaves_the_range_of_pixels(self):
        images = torch.rand(64, 2, 32, 32)
        free = augmentations["smallnorb-jitter"](images, generator())
        clipped = augmentations["smallnorb-jitter-clipped"](images, generator())
        assert float(free.min()) < 0 and float(free.max()) > 1
        assert clipped.equal(free.clamp(0, 1))

    @pytest.mark.parametrize("given", [{"brightness": -0.1}, {"contrast": (-0.5, 1.0)}, {"contrast": (1.0, 0.5)}])
    def test_ranges_that_make_no_sense_are_refused(self, given):
        with pytest.raises(UserError, match="of at least 0, got -"):
            Jitter(**given)


class TestColourJitter:
    """Against torchvision's `adjust_brightness` and `adjust_contrast` of the window, which the public code calls."""

    def test_an_image_is_one_of_torchvisions(self):
        images = torch.rand(60, 1, 48, 48)
        found = augmentations["smallnorb-jitter-yl1993"](images, generator())[:, :, 8:40, 8:40]
        drawn = generator()
        top, left = torch.randint(17, (2, 60), generator=drawn)
        light, contrast, order = torch.rand(3, 60, generator=drawn)
        for number, window in enumerate(found):
            cut = images[number, :, top[number] : top[number] + 32, left[number] : left[number] + 32]
            light_by, contrast_by = (
                1 + most * (2 * float(one[number]) - 1) for most, one in ((32 / 255, light), (0.5, contrast))
            )
            if order[number] < 0.5:
                expected = FUNCTIONAL.adjust_contrast(FUNCTIONAL.adjust_brightness(cut, light_by), contrast_by)
            else:
                expected = FUNCTIONAL.adjust_brightness(FUNCTIONAL.adjust_contrast(cut, contrast_by), light_by)
            assert torch.allclose(window, expected, atol=1e-6)
        assert 0 < int((order < 0.5).sum()) < 60
        assert float(found.max()) == 1.0  # some were clipped

    @pytest.mark.parametrize("given", [{"brightness": -0.1}, {"contrast": 1.5}])
    def test_ranges_beyond_one_are_refused(self, given):
        with pytest.raises(UserError, match="from 0 to 1, got"):
            ColourJitter(**given)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_generator_on_the_cpu_moves_images_on_a_gpu_alike():
    images = torch.rand(32, 1, 8, 8)
    for augment in augmentations.values():
        assert torch.allclose(augment(images.cuda(), generator()).cpu(), augment(images, generator()), atol=1e-5)
