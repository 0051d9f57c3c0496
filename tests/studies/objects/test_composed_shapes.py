"""Pictures of several shapes, and whose each pixel is."""

import numpy as np
import pytest
import torch

from routebench.data import load
from routebench.studies.objects.data.composed_shapes import FEWEST, GROUND, KINDS, MOST, SIDE, TEST_SEED, compose


def test_a_pixel_has_the_colour_of_its_shape_and_the_ground_is_black():
    made = compose(50, 0)
    for pixels, owners in zip(made.pixels, made.owners, strict=True):
        assert not pixels[:, owners == GROUND].any()
        for owner in owners[owners != GROUND].unique():
            colours = pixels[:, owners == owner].T.unique(dim=0)
            assert len(colours) == 1
            assert sorted(colours[0].tolist()) == [0, 0, 255]


@pytest.mark.parametrize("exactly", [None, 2, 5])
def test_there_are_as_many_shapes_as_asked_and_others_may_hide_one(exactly):
    owners = compose(200, 0, exactly=exactly).owners.flatten(1)
    highest = owners.max(dim=1).values + 1  # the last shape is hidden by none
    assert set(highest.tolist()) == ({exactly} if exactly else {*range(FEWEST, MOST + 1)})
    seen = [len(row[row != GROUND].unique()) for row in owners]
    assert min(seen) < max(seen) <= (exactly or MOST)


def test_shapes_lie_where_and_are_what_a_plain_drawing_says():
    random = np.random.RandomState(7)
    random.random_sample(3)
    size, centres = 2.5 + 2 * random.random_sample((3, 2)), 3 + (SIDE - 6) * random.random_sample((2, 3, 2))
    kinds = (random.random_sample((3, 2)) * 3).astype(int)
    made = compose(3, 7, exactly=2)
    for image in range(3):
        for row in range(SIDE):
            for column in range(SIDE):
                owner = GROUND
                for number in range(2):
                    half = size[image, number]
                    y, x = row + 0.5 - centres[0, image, number], column + 0.5 - centres[1, image, number]
                    inside = (
                        max(abs(x), abs(y)) < 0.9 * half,
                        x * x + y * y < half * half,
                        y < 0.8 * half and abs(x) < 0.55 * (y + half),
                    )
                    owner = number if inside[kinds[image, number]] else owner
                assert made.owners[image, row, column] == owner
        assert made.shown[image].nonzero()[:, 0].tolist() == sorted(set(kinds[image]))


def test_the_data_set_is_made_of_such_pictures():
    data = load("composed-shapes")
    assert (data.test.shape, data.classes) == ((3, SIDE, SIDE), KINDS)
    made = compose(2000, TEST_SEED)
    assert torch.equal(data.test.pixels, made.pixels)
    assert torch.equal(data.test.labels, made.shown)
