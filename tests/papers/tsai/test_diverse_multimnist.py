"""DiverseMultiMNIST: composition against a plain loop, and the shares, places and parts that its paper asks for."""

import os
from pathlib import Path

import pytest
import torch
from scipy import stats

from routebench.data import Images, load
from routebench.data.dataset import fingerprint
from routebench.papers.tsai.data.diverse_multimnist import (
    NUMBERS,
    SIDE,
    SINGLE,
    Overlays,
    draw,
    fixed_overlays,
    overlaid,
)

DRAWS = 40_000
UNLIKELY = 1e-6
"""Probability below which a count is no chance; a test makes at most a hundred of them."""
needs_mnist = pytest.mark.skipif(
    not (Path(os.environ.get("ROUTEBENCH_DATA", "nowhere")) / "MNIST" / "raw").is_dir(),
    reason="set ROUTEBENCH_DATA to a folder that holds MNIST/raw",
)


@pytest.fixture(scope="module")
def digits():
    return load("mnist5k").test


@pytest.fixture(scope="module")
def drawn(digits):
    return draw(digits.labels, torch.rand(DRAWS, NUMBERS, dtype=torch.float64), room=8)


def composed_one_by_one(digits, drawn):
    """The definition: put down the first digit, add the second, clip."""
    canvases, labels = [], []
    for number in range(len(drawn.two)):
        canvas, shown = torch.zeros(SIDE, SIDE, dtype=torch.int64), [False] * 10
        for which, index in enumerate((drawn.first, drawn.second)):
            if which == 0 or drawn.two[number]:
                row, column = drawn.corners[number, which].tolist()
                canvas[row : row + 28, column : column + 28] += digits.pixels[index[number], 0].long()
                shown[int(digits.labels[index[number]])] = True
        canvases.append(canvas.clamp(max=255).byte())
        labels.append(shown)
    return torch.stack(canvases)[:, None], torch.tensor(labels)


def test_composition_is_that_of_a_plain_loop(digits):
    uniform = torch.rand(200, NUMBERS, dtype=torch.float64)
    found = overlaid(digits, uniform)
    pixels, labels = composed_one_by_one(digits, draw(digits.labels, uniform, room=8))
    assert found.pixels.equal(pixels)
    assert found.labels.equal(labels)
    assert (found.pixels == 255).any()


def test_extreme_random_numbers_stay_within_the_canvas(digits):
    uniform = torch.tensor([[0.0] * NUMBERS, [1 - 2**-53] * NUMBERS], dtype=torch.float64)
    assert overlaid(digits, uniform).labels.sum(dim=1).tolist() == [1, 2]
    drawn = draw(digits.labels, uniform, room=8)
    assert drawn.corners.unique().tolist() == [0, 8]


def test_two_digits_are_of_different_classes(digits, drawn):
    assert (digits.labels[drawn.first] != digits.labels[drawn.second]).all()


def test_one_image_in_six_shows_one_digit(drawn):
    assert stats.binomtest(int((~drawn.two).sum()), DRAWS, SINGLE).pvalue > UNLIKELY


def test_shifts_are_uniform_from_minus_4_to_4_and_independent(drawn):
    shifts = drawn.corners.flatten(1) - 4
    assert shifts.unique().tolist() == list(range(-4, 5))
    for axis in range(4):
        assert stats.chisquare((shifts[:, axis] + 4).bincount(minlength=9)).pvalue > UNLIKELY
        for other in range(axis):
            pairs = ((shifts[:, axis] + 4) * 9 + shifts[:, other] + 4).bincount(minlength=81)
            assert stats.chisquare(pairs).pvalue > UNLIKELY


def test_every_digit_is_drawn_alike(drawn, digits):
    for which in (drawn.first, drawn.second):  # classes are equally large here
        assert stats.chisquare(which.bincount(minlength=len(digits))).pvalue > UNLIKELY


def test_the_second_digit_is_any_of_another_class_when_classes_differ_in_size():
    labels = torch.tensor([2, 0, 0, 1, 2, 2, 0, 2])
    drawn = draw(labels, torch.rand(DRAWS, NUMBERS, dtype=torch.float64), room=8)
    for first in range(len(labels)):
        second = drawn.second[drawn.first == first].bincount(minlength=len(labels))
        others = labels != labels[first]
        assert (second[~others] == 0).all()
        assert stats.chisquare(second[others]).pvalue > UNLIKELY


def test_the_generator_decides_what_is_composed(digits):
    compose = Overlays(digits, len(digits))
    one, again, other = (compose(torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert one.pixels.equal(again.pixels)
    assert one.labels.equal(again.labels)
    assert (one.pixels.flatten(1) != other.pixels.flatten(1)).any(dim=1).all()
    assert len(one) == len(digits)
    assert len(Overlays(digits, 7)(torch.Generator())) == 7
    assert not fixed_overlays(digits, 0, 5).pixels.equal(fixed_overlays(digits, 1, 5).pixels)


def test_no_digit_is_in_two_parts():
    """Canvases hold pixels of digits of their own part only: composing the parts of `mnist5k` gives them again."""
    digits, data = load("mnist5k"), load("diverse-multimnist5k")
    for seed, name in enumerate(("train", "held_out", "test")):
        own, part = getattr(digits, name), getattr(data, name)
        again = fixed_overlays(own, seed, len(own))
        assert part.pixels.equal(again.pixels)
        assert part.labels.equal(again.labels)
    assert data.compose.digits is digits.train
    rows = [{bytes(row) for row in part.pixels.numpy()} for part in (digits.train, digits.held_out, digits.test)]
    assert sum(map(len, rows)) == len(set.union(*rows)) == 5000


def test_the_fingerprint_of_the_small_set_never_changes():
    data = load("diverse-multimnist5k")
    assert data.fingerprint == "bb3153d0f80bc9c1" == fingerprint(data.train, data.held_out, data.test)
    assert fingerprint(data.test) == "1044df38a692f983"


@needs_mnist
def test_the_fingerprint_of_the_large_set_never_changes():
    data = load("diverse-multimnist")
    assert (len(data.train), len(data.held_out), len(data.test)) == (60_000, 6_000, 10_000)
    assert data.fingerprint == "7f1a288061f516f5"
    assert fingerprint(data.test) == "9b7eb8440af310ff"


def test_training_can_compose_and_cannot_see_test_images():
    data = load("diverse-multimnist5k")
    seen = data.for_training()
    composed = seen.compose(torch.Generator().manual_seed(0))
    assert isinstance(composed, Images)
    assert composed.shape == seen.train.shape == (1, 36, 36)
    assert len(composed) == len(seen.train) == 3600
    assert not hasattr(seen, "test")
