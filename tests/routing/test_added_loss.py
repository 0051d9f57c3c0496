"""What a method can say besides its parents: a loss of its own, the place of its layer, and the grid below."""

from functools import partial

import pytest
import torch
from torch import nn

import routebench
from routebench.capsules.layers import ConvCapsules, DenseCapsules, PrimaryCapsules
from routebench.conformance import check
from routebench.models.network import CapsuleNetwork
from routebench.ops import length, squash
from routebench.recipe import Moment, Recipe
from routebench.registry import losses
from routebench.routing import Routed, RoutingError, RoutingMethod
from routebench.training import training_step

PLUGIN = """
import torch
from routebench import routing
from routebench.ops import length, squash

@routing.register("balanced")
class Balanced(routing.RoutingMethod):
    def __init__(self, sizes, *, balance: float = 0.5):
        super().__init__(sizes)
        self.balance = balance

    def route(self, votes, activations):
        parents = squash(votes.sweep().first)
        lengths = length(parents)
        return routing.Routed(parents, lengths, loss=self.balance * lengths.var(dim=1) if self.training else None)
"""


class Balanced(RoutingMethod):
    """Adds the variance of its parents' lengths, in training alone."""

    def __init__(self, sizes, *, balance: float = 0.5):
        super().__init__(sizes)
        self.balance = balance

    def route(self, votes, activations):
        parents = squash(votes.sweep().first)
        lengths = length(parents)
        return Routed(parents, lengths, loss=self.balance * lengths.var(dim=1) if self.training else None)


class Unfit(RoutingMethod):
    """Adds a loss that no method may add."""

    def __init__(self, sizes, *, value: float = 1.0):
        super().__init__(sizes)
        self.value = value

    def route(self, votes, activations):
        parents = squash(votes.sweep().first)
        loss = torch.full((votes.lanes,), self.value, dtype=parents.dtype) / (2 - self.value)
        routed = Routed(parents, length(parents), loss=loss)
        if self.value == 1.0:
            object.__setattr__(routed, "loss", routed.loss.sum())  # tests look at shapes when it is made
        return routed


def network(method=Balanced):
    """Two capsule layers on a grid of 8 x 8 pixels."""
    torch.manual_seed(0)
    primary = PrimaryCapsules(1, 2, 4, kernel=3, stride=1)  # 6 x 6 x 2
    middle = ConvCapsules((6, 6, 2), 3, 4, 4, method, kernel=3, stride=2)
    return CapsuleNetwork(nn.Identity(), primary, [middle, DenseCapsules(middle.grid, 5, 4, 4, method)])


def test_the_mean_over_lanes_of_each_layer_is_added_to_the_loss_and_to_its_gradient():
    images, labels = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 3])
    recipe, moment = Recipe(loss="margin"), Moment()
    plain = network().train()
    output = plain(images)
    middle, last = (layer.poses.flatten(1, -2).norm(dim=-1) for layer in output.layers[1:])
    expected = 0.5 * (middle.view(-1, 3).var(dim=1).mean() + last.var(dim=1).mean())
    whole = losses["margin"](output, labels, moment) + expected
    gradients = torch.autograd.grad(whole, [*plain.parameters()])

    trained = network().train()
    descent = torch.optim.SGD(trained.parameters(), lr=1.0)
    before = [value.detach().clone() for value in trained.parameters()]
    loss, _, added = training_step(trained, descent, (images,), labels, recipe=recipe, moment=moment)
    assert torch.allclose(added, expected) and torch.allclose(loss, whole) and added > 0
    for then, now, gradient in zip(before, trained.parameters(), gradients, strict=True):
        assert torch.allclose(then - now, gradient, atol=1e-6)


def test_nothing_is_added_where_no_method_adds_anything():
    found = network(Balanced).eval()(torch.rand(4, 1, 8, 8))
    assert found.added_loss is None


def test_a_method_knows_its_layer_and_the_grid_below():
    middle, last = (layer.routing for layer in network().layers)
    assert (middle.layer, last.layer, middle.layers, last.layers) == (0, 1, 2, 2)
    assert middle.sizes.grid == (3, 3, 2), "the window that one lane sees"
    assert last.sizes.grid == (2, 2, 3)
    assert DenseCapsules(7, 5, 4, 4, Balanced).routing.sizes.grid is None


class Layered(RoutingMethod):
    """Scales the votes of each layer by a number of its own."""

    def __init__(self, sizes, *, scale: tuple[float, ...] = (1.0, 1.0)):
        super().__init__(sizes)
        self.scale = scale

    def route(self, votes, activations):
        parents = self.scale[self.layer] * votes.sweep().first
        return Routed(parents, length(parents))


def test_a_hyperparameter_can_have_a_value_for_each_layer():
    images = torch.rand(2, 1, 8, 8)
    plain, scaled = (network(partial(Layered, scale=scale))(images).layers for scale in ((1.0, 1.0), [2.0, 3.0]))
    assert torch.allclose(scaled[1].poses, 2 * plain[1].poses)
    assert torch.allclose(scaled[2].poses, 6 * plain[2].poses, rtol=1e-4)


def test_a_loss_of_another_shape_or_that_is_not_finite_is_refused():
    with pytest.raises(RoutingError, match=r"expected loss of shape \(36,\), got \(\)"):
        network(Unfit)(torch.rand(9, 1, 8, 8))
    with pytest.raises(RoutingError, match="returned loss that are not finite"):
        network(lambda sizes: Unfit(sizes, value=2.0))(torch.rand(9, 1, 8, 8))


def test_check_sees_a_loss_and_that_its_weight_has_an_effect():
    found = check(Balanced)
    assert found.conforms, found.faults
    assert next(one for one in found.findings if one.name == "option balance").outcome.name == "OK"
    assert not check(Unfit).conforms


def test_a_suite_logs_the_loss_and_its_report_names_the_method(tmp_path):
    (tmp_path / "balanced.py").write_text(PLUGIN)
    run = routebench.run_suite(
        "accuracy",
        preset="smoke",
        methods="balanced",
        plugins=tmp_path / "balanced.py",
        results=tmp_path / "results",
        jobs=1,
    )
    found = run.results
    added = found[found["metric"] == "added_loss"]
    assert set(added["label"]) == {"balanced"} and (added["value"] > 0).all()
    total = found[(found["metric"] == "train_loss") & (found["label"] == "balanced")]
    assert (total["value"].to_numpy() > added["value"].to_numpy()).all()
    assert "Methods with a loss of their own, added to that of the suite: ★ Balanced" in run.report.read_text()
