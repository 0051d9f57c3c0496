"""Networks whose features turn with the image."""

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build
from routebench.studies.transfer.models.p4_cnn import TURNS, P4Conv


@pytest.mark.parametrize("side", [28, 32])
def test_a_quarter_turn_of_the_image_moves_features_by_one_turn(side):
    network = build("cnn-p4-small", shape=(2, side, side), classes=10, method=None).double()
    images = torch.rand(3, 2, side, side, dtype=torch.float64)
    features, turned = (network.body(shown).unflatten(1, (-1, TURNS)) for shown in (images, images.rot90(1, (-2, -1))))
    assert torch.allclose(features.roll(1, 2), turned, atol=1e-12)
    assert not torch.allclose(features, turned, atol=1e-3)
    logits = [network(shown).logits for shown in (images, images.rot90(1, (-2, -1)))]
    assert not torch.allclose(*logits, atol=1e-3)  # the classifier tells turns apart


def test_a_mean_over_turns_says_the_same_of_each_quarter_turn():
    network = build("cnn-p4-invariant-small", shape=(1, 28, 28), classes=10, method=None).double()
    images = torch.rand(3, 1, 28, 28, dtype=torch.float64)
    logits = [network(images.rot90(turn, (-2, -1))).logits for turn in range(TURNS)]
    assert all(torch.allclose(logits[0], other, atol=1e-12) for other in logits[1:])
    assert not torch.allclose(logits[0], network(images.flip(-1)).logits, atol=1e-3)  # a mirror is no turn


def test_a_convolution_is_the_sum_over_places_and_turns():
    """Cohen and Welling, equation 11, written out for one output at a time."""
    layer = P4Conv(2, 3, 3, 1).double()
    maps = torch.rand(1, 2, TURNS, 5, 5, dtype=torch.float64)
    found = layer(maps)
    for made in range(3):
        for turn in range(TURNS):
            for row in range(3):
                for column in range(3):
                    seen = maps[0, :, :, row : row + 3, column : column + 3]
                    total = layer.bias[made].clone()
                    for other in range(TURNS):  # the filter's turn `other - turn`, turned in the plane by `turn`
                        part = layer.weight[made, :, (other - turn) % TURNS].rot90(turn, (-2, -1))
                        total += (part * seen[:, other]).sum()
                    assert torch.allclose(found[0, made, turn, row, column], total)


@pytest.mark.parametrize("kind", ["cnn-p4", "cnn-p4-invariant"])
@pytest.mark.parametrize(("size", "beside"), [("", "capsnet"), ("-small", "capsnet-small")])
def test_sizes_match_within_a_hundredth(kind, size, beside):
    sizes = [
        sum(value.numel() for value in build(name, shape=(1, 28, 28), classes=10, method=method).parameters())
        for name, method in ((f"{kind}{size}", None), (beside, "dynamic"))
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_images_that_are_too_small_are_refused():
    with pytest.raises(UserError, match="too small"):
        build("cnn-p4-small", shape=(1, 6, 6), classes=10, method=None)


def test_images_that_are_not_square_get_a_border():
    network = build("cnn-p4-small", shape=(1, 20, 28), classes=10, method=None).eval()
    images = torch.rand(2, 1, 20, 28)
    bordered = torch.zeros(2, 1, 28, 28)
    bordered[:, :, 4:24] = images
    assert torch.equal(network.body(images), network.body[1:](bordered))
