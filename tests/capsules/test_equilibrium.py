"""Layers that iterate until they rest: where they come to rest, what their gradients are, and what they cost."""

import pickle
from dataclasses import replace

import pytest
import torch

from routebench.capsules import Capsules, equilibrium
from routebench.capsules.equilibrium import LATE, Equilibrium, noting
from routebench.capsules.layers import ConvCapsules, DenseCapsules
from routebench.capsules.schedules import SCHEDULES, concurrent, sequential
from routebench.errors import UserError
from routebench.kernels import using
from routebench.models import build
from routebench.registry import routing
from routebench.routing import factory, make
from tests.references.problem import assert_close, disturb

EXACT = Equilibrium(tolerance=1e-12, gradient_limit=400)
IMPLICIT = replace(EXACT, gradient="implicit")
DAMPED = replace(EXACT, solver="damped")
NAMES = [name for name in SCHEDULES if name.startswith("equilibrium")]


def layers_of(name, iterations=400, depth=2, seed=0, **params):
    """`depth` layers on 7 primary capsules; all poses have 6 elements."""
    torch.manual_seed(seed)
    sizes = [(7, 4), (4, 3), (3, 3)][:depth]
    made = [DenseCapsules(*size, 6, 6, factory(name, iterations=iterations, **params)) for size in sizes]
    for layer in made:
        disturb(layer).double()
        layer.weight.data.mul_(0.2)  # votes agree little, so that there is one fixed point and the update contracts
    return made


def primary_of(images=3, seed=2):
    draw = torch.Generator().manual_seed(seed)
    poses = torch.randn(images, 7, 6, dtype=torch.float64, generator=draw)
    return Capsules(poses, torch.rand(images, 7, dtype=torch.float64, generator=draw))


def given(layers, iterations):
    for layer in layers:
        layer.routing.iterations = iterations
    return layers


def gradients(layers, schedule, primary=None):
    """Of a fixed weighting of all layers' poses, for the primary poses and every parameter."""
    primary = primary or primary_of()
    poses = primary.poses.clone().requires_grad_()
    found = schedule(layers, Capsules(poses, primary.activations))
    draw = torch.Generator().manual_seed(2)
    total = sum((c.poses * torch.randn(c.poses.shape, generator=draw, dtype=c.poses.dtype)).sum() for c in found[1:])
    leaves = [poses, *(parameter for layer in layers for parameter in layer.parameters())]
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def constant(name):
    """Hyperparameters with which the update is the same in every iteration, so that other schedules rest there too."""
    return {"lambda_schedule": "constant", "final_lambda": 0.01} if name == "em" else {}


@pytest.mark.parametrize("schedule", [EXACT, IMPLICIT, DAMPED], ids=["anderson", "implicit", "damped"])
def test_rest_is_where_plain_iteration_goes(schedule):
    """And where both of the other schedules go, for there is one fixed point."""
    layers, primary = layers_of("inverted-attention"), primary_of()
    found = schedule(layers, primary)
    for plain in (concurrent, sequential):
        expected = plain(given(layers, 120), primary)
        assert_close([c.poses for c in found], [c.poses for c in expected], rtol=1e-8, atol=1e-9)
        assert_close([c.activations for c in found], [c.activations for c in expected], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("schedule", [EXACT, DAMPED], ids=["anderson", "damped"])
def test_em_comes_to_rest(schedule):
    """At one of its fixed points: EM routing has several, and schedules and solvers may come to different ones."""
    layers = layers_of("em")
    for layer in layers:
        layer.weight.data.mul_(5)
    with noting() as solves:
        schedule(layers, primary_of())
    assert float(solves[0].residual.max()) < 1e-11


def test_anderson_needs_fewer_updates_than_damped_iteration():
    counts = []
    for schedule in (EXACT, DAMPED):
        with noting() as solves:
            schedule(layers_of("inverted-attention"), primary_of(6))
        counts.append(solves[0].updates.double().mean())
        assert float(solves[0].residual.max()) < 1e-12
    assert counts[0] < counts[1] / 2


@pytest.mark.parametrize("name", ["inverted-attention", "em", "dynamic"])
@pytest.mark.parametrize("schedule", [EXACT, DAMPED, SCHEDULES["equilibrium"]], ids=["exact", "damped", "default"])
def test_one_iteration_is_that_of_the_other_schedules(name, schedule):
    layers, primary = layers_of(name, iterations=1), primary_of()
    assert_close([c.poses for c in schedule(layers, primary)], [c.poses for c in sequential(layers, primary)], 0, 0)
    assert_close(gradients(layers, schedule), gradients(layers, sequential), 0, 0)


@pytest.mark.parametrize("iterations", [2, 3])
def test_few_iterations_of_one_layer_are_those_of_the_other_schedules(iterations):
    layers, primary = layers_of("inverted-attention", iterations, depth=1), primary_of()
    assert_close(EXACT(layers, primary)[1].poses, sequential(layers, primary)[1].poses, 0, 0)


@pytest.mark.parametrize("limit", [2, 3, 7])
def test_no_image_takes_more_updates_than_iterations(limit):
    with noting() as solves:
        EXACT(layers_of("inverted-attention", limit), primary_of())
    assert solves[0].updates.tolist() == [limit] * 3


@pytest.mark.parametrize("name", ["inverted-attention", "em", "dynamic"])
@pytest.mark.parametrize("schedule", [EXACT, IMPLICIT, DAMPED], ids=["anderson", "implicit", "damped"])
def test_an_image_rests_in_the_same_place_alone_and_in_a_batch(name, schedule):
    schedule = replace(schedule, tolerance=1e-6)  # images stop at different times
    if name == "dynamic":
        schedule = replace(schedule, gradient="one-step")
    layers, primary = layers_of(name, 60), primary_of(4)
    with noting() as solves:
        together = schedule(layers, primary)
        alone = [schedule(layers, Capsules(primary.poses[i : i + 1], primary.activations[i : i + 1])) for i in range(4)]
    updates = solves[0].updates.tolist()
    assert len(set(updates)) > 1 or name == "dynamic"
    assert [int(solve.updates) for solve in solves[1:]] == updates
    assert_close(torch.cat([one[-1].poses for one in alone]), together[-1].poses)


def test_implicit_gradient_is_that_of_iterations_without_end():
    layers = layers_of("inverted-attention", depth=3)
    found = gradients(layers, IMPLICIT)
    expected = gradients(given(layers, 120), concurrent)
    assert_close(found, expected, rtol=1e-6, atol=1e-8)
    assert float(found[0].norm()) > 0.1


def test_implicit_gradient_of_em_is_that_of_iterations_without_end_from_where_it_rests():
    """Plain passes with lambda at its limit, the last of which are differentiated."""
    layers, primary = layers_of("em"), primary_of()
    for layer in layers:
        layer.weight.data.mul_(5)
    found = gradients(layers, IMPLICIT, primary)

    def unrolled(layers, given):
        with torch.no_grad():
            states, _ = equilibrium._pass(layers, given, None)
            packing = equilibrium.Packing(states, len(given.poses))
            for _ in range(300):
                states, _ = equilibrium._pass(layers, given, packing.unpack(packing.pack(states)))
        for _ in range(80):
            states, capsules = equilibrium._pass(layers, given, packing.unpack(packing.pack(states)))
        return [given, *capsules]

    expected = gradients(layers, unrolled, primary)
    assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_implicit_gradient_is_the_slope_of_the_fixed_point():
    layers, step = layers_of("inverted-attention"), 1e-5
    primary = primary_of()
    direction = torch.randn(primary.poses.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    poses = primary.poses.clone().requires_grad_()
    (slope,) = torch.autograd.grad(IMPLICIT(layers, replace(primary, poses=poses))[-1].poses.sin().sum(), poses)

    def at(distance):
        return float(
            EXACT(layers, replace(primary, poses=primary.poses + distance * direction))[-1].poses.sin().sum().detach()
        )

    assert float((slope * direction).sum()) == pytest.approx((at(step) - at(-step)) / (2 * step), rel=1e-6)


def test_one_step_gradient_is_that_of_one_pass_from_constants():
    layers, primary = layers_of("inverted-attention", depth=1), primary_of()
    at_rest = EXACT(layers, primary)[1].poses.detach()

    def once(layers, primary):
        routing = layers[0].routing
        votes, activations = layers[0].votes(primary)
        state = routing.iterate(votes, activations, None)
        return [
            primary,
            layers[0].capsules(routing.iterate(votes, activations, replace(state, poses=at_rest)), primary),
        ]

    assert_close(gradients(layers, EXACT), gradients(layers, once), rtol=1e-8, atol=1e-10)
    differ = gradients(layers, IMPLICIT)[0] - gradients(layers, EXACT)[0]
    assert float(differ.norm()) > 1e-3  # an approximation


@pytest.mark.parametrize("schedule", NAMES)
def test_gradient_reaches_the_first_weights(schedule):
    params = {"schedule": schedule, "iterations": 8}
    network = build(
        "capsnet-small-intermediate", shape=(1, 28, 28), classes=3, method="inverted-attention", method_params=params
    )
    network(torch.rand(2, 1, 28, 28)).logits.square().sum().backward()
    assert all(float(parameter.grad.abs().sum()) > 0 for parameter in network.parameters())


@pytest.mark.parametrize("schedule", [EXACT, IMPLICIT], ids=["one-step", "implicit"])
def test_memory_does_not_grow_with_iterations(schedule):
    def stored(iterations, run):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            run(layers_of("inverted-attention", iterations), primary_of())
        return sum(sizes)

    tireless = replace(schedule, tolerance=0.0)
    assert stored(40, tireless) == stored(4, tireless) > 0
    assert stored(40, concurrent) > 5 * stored(4, concurrent)


@pytest.mark.parametrize("schedule", NAMES)
def test_nothing_is_kept_without_gradients(schedule):
    with torch.no_grad():
        found = SCHEDULES[schedule](layers_of("inverted-attention", 5), primary_of())
    assert not any(capsules.poses.requires_grad for capsules in found)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_kernels_and_plain_torch_rest_in_the_same_place(backend):
    method = factory("inverted-attention", iterations=100)
    torch.manual_seed(0)
    layers = [DenseCapsules(40, 12, 8, 16, method), DenseCapsules(12, 10, 16, 16, method)]
    poses = torch.randn(2, 40, 8, requires_grad=True)
    found = {}
    for one in ("reference", backend):
        with using(one):
            capsules = SCHEDULES["equilibrium-implicit"](layers, Capsules(poses, torch.ones(2, 40)))
            found[one] = [capsules[-1].poses, *torch.autograd.grad(capsules[-1].poses.sin().sum(), poses)]
    assert_close(found[backend], found["reference"], rtol=2e-2, atol=1e-2)


def test_convolutional_layers_rest_too():
    """Lanes are images x positions, and an image rests as a whole."""
    torch.manual_seed(0)
    method = factory("em", iterations=200, lambda_schedule="constant")
    first = ConvCapsules((5, 5, 2), 3, 4, 4, method, matrix=True)
    layers = [first.double(), DenseCapsules(first.grid, 3, 4, 4, method, matrix=True, share=True).double()]
    poses = torch.randn(2, 5, 5, 2, 4, dtype=torch.float64)
    primary = Capsules(poses, torch.rand(2, 5, 5, 2, dtype=torch.float64))
    with noting() as solves:
        EXACT(layers, primary)
    assert float(solves[0].residual.max()) < 1e-11


def test_em_rests_at_the_limit_of_its_inverse_temperature():
    routing = make("em", layers_of("em")[0].routing.sizes, final_lambda=0.3)
    assert routing.inverse_temperature(LATE) == routing.inverse_temperature(LATE + 1) == 0.3


def test_parents_of_dynamic_routing_slow_down_though_its_sums_grow():
    layers, primary = layers_of("dynamic"), primary_of()
    with noting() as solves:
        for iterations in (15, 150):
            EXACT(given(layers, iterations), primary)
    early, late = (float(solve.residual.max().detach()) for solve in solves)
    assert late < early / 2


def test_implicit_gradient_is_refused_where_sums_grow():
    with pytest.raises(UserError, match="needs a method whose state has a fixed point"):
        factory("dynamic", schedule="equilibrium-implicit")
    with pytest.raises(ValueError, match="needs a method whose state has a fixed point"):
        IMPLICIT(layers_of("dynamic"), primary_of())


def test_methods_without_single_iterations_are_refused():
    layers = [DenseCapsules(7, 4, 6, 6, factory("uniform"))]
    with pytest.raises(ValueError, match="the equilibrium schedule needs methods with single iterations, got Uniform"):
        EXACT(layers, primary_of())


def test_what_is_noted_is_the_last_updates_residual():
    layers, primary = layers_of("inverted-attention", 6), primary_of()
    with noting() as solves:
        five, six = (replace(DAMPED, tolerance=0.0)(given(layers, n), primary) for n in (2, 3))
    before, now = solves
    assert before.updates.tolist() == [2] * 3 and now.updates.tolist() == [3] * 3
    assert tuple(now.residual.shape) == (2, 3)
    once = sequential(given(layers, 1), primary)
    moved = (five[1].poses - once[1].poses).flatten(1).norm(dim=1) / once[1].poses.flatten(1).norm(dim=1)
    assert_close(before.residual[0], moved.detach())
    assert six is not five


def test_solves_are_noted_only_while_somebody_asks():
    layers, primary = layers_of("inverted-attention", 4), primary_of()
    with noting() as solves:
        gradients(layers, IMPLICIT)
    EXACT(layers, primary)
    assert [solve.of for solve in solves] == ["routing", "gradient"]
    with noting() as solves:
        EXACT(given(layers, 1), primary)
    assert bool(solves[0].residual.isnan().all()) and solves[0].updates.tolist() == [1] * 3


def test_a_network_with_the_schedule_can_be_pickled():
    params = {"schedule": "equilibrium", "iterations": 5}
    network = build("capsnet-small", shape=(1, 28, 28), classes=3, method="em", method_params=params).eval()
    images = torch.rand(2, 1, 28, 28)
    copy = pickle.loads(pickle.dumps(network))
    with torch.no_grad():
        assert torch.equal(copy(images).logits, network(images).logits)


@pytest.mark.parametrize("schedule", NAMES)
def test_what_a_method_counts_follows_the_last_update_alone(schedule):
    """A method of a user's own, that counts its updates in a buffer as batch normalisation does."""

    class Counts(routing["inverted-attention"]):
        def __init__(self, sizes, **given):
            super().__init__(sizes, **given)
            self.register_buffer("seen", torch.zeros(()))

        def iterate(self, *given, **named):
            self.seen.add_(1)
            return super().iterate(*given, **named)

    layer = DenseCapsules(5, 3, 4, 4, lambda sizes: Counts(sizes, iterations=6))
    below = Capsules(torch.randn(2, 5, 4), torch.rand(2, 5))
    outputs = [SCHEDULES[schedule]([layer], below)[1].poses.sum() for _ in range(2)]
    sum(outputs).backward()
    assert layer.routing.seen == 2
