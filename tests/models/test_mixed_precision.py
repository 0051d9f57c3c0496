"""Networks in bfloat16 train like those in single precision, because routing stays in single precision."""

import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.layers import ConvCapsules, DenseCapsules
from routebench.capsules.schedules import SCHEDULES
from routebench.kernels import using
from routebench.optimizers import make_optimizer
from routebench.recipe import Moment, Recipe
from routebench.registry import routing
from routebench.routing import factory
from routebench.training import training_step
from tests.short_fits import network_of, sixty_digits

STEPS, BATCH = 20, 12
NETWORKS = {"capsnet-small": STEPS, "capsnet-small-intermediate": STEPS // 2}
"""With how many steps. How far training drifts apart shows in one routed layer; what a second one adds, in fewer."""
METHODS = [
    *((name, {}) for name in routing),
    ("em", {"iterations": 5}),
    ("inverted-attention", {"activations": True}),
]
ALLOWED = {"em": 0.15, "variational-bayes": 0.15, "expert-choice": 0.5, "sinkhorn-token-choice": 0.3}
"""Share of losses and of the first gradient that precision may change. The first two divide by variances, which
magnifies what rounding of the features changes. In the others rounding changes choices, and with each a whole vote: a
third of a loss was seen. All else may change by 5 %."""
IDS = ["-".join([name, *map(str, params.values())]) for name, params in METHODS]


@pytest.fixture(scope="module")
def digits():
    return sixty_digits().train


def losses_and_gradient(digits, model, method, params, precision, *, steps=STEPS, scale=1.0):
    """The loss of each step, and the gradient of the first. The weights of all capsule layers are times `scale`."""
    network = network_of(method, model=model, **params)
    with torch.no_grad():
        for layer in network.layers:
            layer.weight.mul_(scale)
    recipe = Recipe(precision=precision)
    optimiser, losses, gradients = make_optimizer(network, recipe), [], []
    for step in range(steps):
        batch = digits.at((BATCH * step + torch.arange(BATCH)) % len(digits))
        images, moment = batch.pixels.float() / 255, Moment(step, step / steps)
        loss, _, _ = training_step(network, optimiser, (images,), batch.labels, recipe=recipe, moment=moment)
        losses.append(loss)
        gradients.append(torch.cat([value.grad.flatten() for value in network.parameters() if value.grad is not None]))
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
    return torch.stack(losses), gradients[0]


@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize(("method", "params"), METHODS, ids=IDS)
def test_losses_and_first_gradient_are_those_of_single_precision(digits, model, method, params):
    allowed = ALLOWED.get(method, 0.05)
    (single, exact), (mixed, rounded) = (
        losses_and_gradient(digits, model, method, params, precision, steps=NETWORKS[model])
        for precision in ("float32", "bfloat16")
    )
    assert bool(torch.isfinite(mixed).all())
    assert not torch.equal(single, mixed)
    torch.testing.assert_close(mixed, single, rtol=allowed, atol=0)
    if not (
        params.get("iterations") == 5 and model == "capsnet-small-intermediate"
    ):  # five in each of two layers magnify it beyond 15 %
        assert float((rounded - exact).norm()) < allowed * float(exact.norm())


@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize(("method", "params"), METHODS, ids=IDS)
def test_weights_ten_times_as_large_stay_finite(digits, model, method, params):
    for precision in ("float32", "bfloat16"):
        losses, _ = losses_and_gradient(digits, model, method, params, precision, steps=2, scale=10.0)
        assert bool(torch.isfinite(losses).all()), precision


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("method", ["dynamic", "em", "inverted-attention"])
def test_layers_under_autocast_are_those_without_from_the_same_rounded_children(method, schedule, backend):
    if schedule == "equilibrium-implicit" and not routing[method].settles:
        pytest.skip("refused: its state has no fixed point")
    made = factory(method, iterations=3)
    first = ConvCapsules((4, 4, 2), 3, 8, 8, made)
    layers = [first, DenseCapsules(first.grid, 5, 8, 8, made)]
    poses, activations = torch.randn(2, 4, 4, 2, 8).bfloat16(), torch.rand(2, 4, 4, 2).bfloat16()
    with using(backend):
        expected = SCHEDULES[schedule](layers, Capsules(poses.float(), activations.float()))
        with torch.autocast("cpu", torch.bfloat16):
            found = SCHEDULES[schedule](layers, Capsules(poses, activations))
    for mine, right in zip(found[1:], expected[1:], strict=True):
        assert mine.poses.dtype == torch.float32
        assert torch.equal(mine.poses, right.poses)
        assert torch.equal(mine.activations, right.activations)


def test_a_layer_alone_routes_in_single_precision_too():
    layer = DenseCapsules(6, 3, 8, 8, factory("em"))
    children = Capsules(torch.randn(2, 6, 8), torch.rand(2, 6))
    expected = layer(children)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(children).poses, expected.poses)


def test_double_precision_is_left_alone_under_autocast():
    layer = DenseCapsules(6, 3, 8, 8, factory("em")).double()
    children = Capsules(torch.randn(2, 6, 8, dtype=torch.float64), torch.rand(2, 6, dtype=torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(children).poses.dtype == torch.float64
