"""The autoencoder of slots draws what its description says, and takes every routing method."""

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build
from routebench.registry import routing

SHAPE = (3, 24, 24)


def network_of(method="inverted-attention", seed=0, shape=SHAPE, **params):
    torch.manual_seed(seed)
    return build("slot-autoencoder", shape=shape, classes=3, method=method, **params).eval()


def images(count=2):
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("method", routing)
def test_every_method_runs_and_learns(method):
    network = network_of(method).train()
    network.objective(images()).backward()
    assert all(bool(torch.isfinite(one.grad).all()) for one in network.parameters() if one.grad is not None)
    assert network.encoder[0].weight.grad.any()


@pytest.mark.parametrize("method", ["inverted-attention", "em"])
def test_pictures_are_what_the_decoder_says_of_each_slot_and_place(method):
    network = network_of(method).double()
    given = images().double()
    drawn = network.draw(given)
    slots = network(given).layers[-1]
    total = torch.zeros(3, dtype=torch.float64)
    row, column, image = 5, 17, 1
    place = torch.tensor([(row + 0.5) / 24, (column + 0.5) / 24, 1 - (row + 0.5) / 24, 1 - (column + 0.5) / 24])
    told = [network.decoder(network.of_slot(pose) + network.of_place(place.double())) for pose in slots.poses[image]]
    logits = torch.stack([one[3] for one in told])
    if method == "em":
        logits = logits + (slots.activations[image] + 1e-6).log()
    shares = logits.softmax(dim=0)
    for slot, share in enumerate(shares):
        torch.testing.assert_close(drawn.masks[image, slot, row, column], share)
        torch.testing.assert_close(drawn.pictures[image, slot, :, row, column], told[slot][:3])
        total += share * told[slot][:3]
    torch.testing.assert_close(drawn.picture[image, :, row, column], total)


def test_the_objective_is_the_squared_error():
    network, given = network_of(), images()
    expected = ((network.draw(given).picture - given) ** 2).mean()
    torch.testing.assert_close(network.objective(given), expected)


def test_shared_votes_leave_slots_that_start_alike_the_same():
    own, shared = (
        network_of("inverted-attention", votes=votes)(images()).layers[-1].poses for votes in ("own", "shared")
    )
    assert not torch.allclose(own[:, :1], own, atol=1e-3)
    torch.testing.assert_close(shared[:, :1].expand_as(shared), shared)
    learned = (
        network_of("slot-attention", votes="shared", method_params={"start": "learned"})(images()).layers[-1].poses
    )
    assert not torch.allclose(learned[:, :1], learned, atol=1e-3)


@pytest.mark.parametrize("params", [{"slots": 3}, {"pose": 8}, {"hidden": 16}, {"weight_std": 0.9}])
def test_every_option_changes_what_is_drawn(params):
    given = images()
    one, other = (network_of(**options).draw(given).picture for options in ({}, params))
    assert not torch.allclose(one, other, atol=1e-5)


def test_it_knows_where_a_pixel_is():
    network = network_of()
    plain = torch.zeros(1, *SHAPE)
    grid = network.encoder(plain)[0]
    assert grid.flatten(1).std(dim=1).max() > 1e-3  # beyond what the border of convolutions makes


def test_odd_pictures_are_refused():
    with pytest.raises(UserError, match="expected images of even height and width, got 27 x 27"):
        build("slot-autoencoder", shape=(1, 27, 27), classes=10, method="dynamic")
