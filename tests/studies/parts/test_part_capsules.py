"""Networks for constellations read parts rightly, and take every routing method."""

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build
from routebench.models.network import count_parameters
from routebench.protocols.traced import trace
from routebench.registry import routing
from routebench.studies.parts.constellations import (
    KINDS,
    PARTS,
    SLOTS,
    Constellation,
    Scenes,
    arrangements,
    draw,
    encoded,
    homogeneous,
)

SCENES = {"shape": (7, PARTS, SLOTS), "classes": KINDS}


def images_of(scenes):
    return encoded(scenes).float() / 255


def network_of(model, method, **params):
    torch.manual_seed(0)
    return build(model, **SCENES, method=method, method_params=params).eval()


@pytest.mark.parametrize("model", ["part-capsules", "part-capsules-true"])
@pytest.mark.parametrize("method", routing)
def test_every_method_runs_and_learns(model, method):
    network = network_of(model, method).train()
    output = network(images_of(draw(Constellation(), 4, 0)))
    assert tuple(output.scores.shape) == (4, KINDS)
    output.scores.sum().backward()
    assert all(bool(torch.isfinite(one.grad).all()) for one in network.parameters() if one.grad is not None)
    assert any(one.grad is not None and one.grad.any() for one in network.parameters())


def test_children_are_the_parts_types_fastest_and_empty_places_are_zero():
    scenes = draw(Constellation(clutter=1), 3, 0)
    children = network_of("part-capsules", "uniform")(images_of(scenes)).layers[0].flat()
    poses = homogeneous(scenes.poses).flatten(-2).transpose(1, 2).flatten(1, 2)
    present = scenes.present.transpose(1, 2).flatten(1)
    assert torch.equal(children.activations > 0, present)
    assert not children.poses[~present].any()
    torch.testing.assert_close(children.poses[present].double(), poses[present], rtol=0, atol=0.011)


def test_votes_of_the_true_network_for_an_object_agree():
    scenes = draw(Constellation(noise=0.0), 20, 0)
    votes = trace(network_of("part-capsules-true", "uniform"), images_of(scenes), None).layers[0].votes.dense()
    parents = scenes.parents.transpose(1, 2).flatten(1)
    for scene, child in (parents >= 0).nonzero().tolist():
        kind = int(parents[scene, child])
        vote = votes[scene, child, kind].view(3, 3)[:2].double()
        torch.testing.assert_close(vote, scenes.objects[scene, kind], rtol=0, atol=0.05)  # rounding of poses


def test_the_true_network_learns_a_factor_alone():
    network = network_of("part-capsules-true", "dynamic", iterations=2)
    assert count_parameters(network) == 1
    (factor,) = network.parameters()
    with torch.no_grad():
        factor.fill_(2.0)
    expected = 2 * torch.linalg.inv(arrangements()).transpose(0, 1).float()
    torch.testing.assert_close(network.layers[0].weight, expected)


def test_matrices_are_shared_by_the_parts_of_a_type():
    network = network_of("part-capsules", "uniform")
    assert tuple(network.layers[0].weight.shape) == (PARTS, KINDS, 3, 3)


@pytest.mark.parametrize(("model", "method"), [("part-capsules", "dynamic"), ("part-sets", None)])
def test_the_order_of_places_does_not_matter(model, method):
    scenes = draw(Constellation(), 5, 0)
    turned = Scenes(scenes.poses.flip(2), scenes.parents.flip(2), scenes.objects, scenes.shown)
    network = build(model, **SCENES, method=method).eval()
    with torch.no_grad():
        torch.testing.assert_close(network(images_of(scenes)).scores, network(images_of(turned)).scores)


def test_the_control_sees_which_type_a_part_is_of():
    scenes = draw(Constellation(), 5, 0)
    moved = Scenes(scenes.poses.roll(1, 1), scenes.parents.roll(1, 1), scenes.objects, scenes.shown)
    network = build("part-sets", **SCENES).eval()
    with torch.no_grad():
        assert not torch.allclose(network(images_of(scenes)).scores, network(images_of(moved)).scores, atol=1e-4)


def test_other_images_are_refused():
    with pytest.raises(UserError, match=r"expected constellations, which are \(7, 5, 8\) with 8 classes"):
        build("part-capsules", shape=(1, 28, 28), classes=10, method="dynamic")
