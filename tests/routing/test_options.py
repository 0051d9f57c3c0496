"""Every hyperparameter of every method does something, and wrong ones are refused in one line."""

import itertools

import pytest
import torch

from routebench.capsules import Sizes
from routebench.errors import UserError
from routebench.models import build
from routebench.registry import routing
from routebench.routing import hyperparameters_of, make
from tests.references.problem import disturb, gradients, on_grid, routed_by
from tests.references.transcription import SHIPPED, Transcription

CHOICES = {
    "competition": ("types", "types+positions", "positions", "children"),
    "first_coupling": ("competition", "types"),
    "lambda_schedule": ("iteration", "training", "constant"),
    "start": ("random", "learned", "zeros"),
    "output": ("relative", "squash", "unit"),
    "presence": ("learned", "activations"),
    "weight": ("gate", "plan"),
}
HYPERPARAMETERS = [(name, key) for name in routing for key in hyperparameters_of(name) if key != "schedule"]
SCHEDULED = [name for name in routing if "schedule" in hyperparameters_of(name)]


def traces(name, **params):
    """Outputs and input gradients of a method on a fixed grid problem, half way through training."""
    torch.manual_seed(3)
    problem = on_grid()
    method = disturb(make(name, problem.sizes, **params).double())
    method.progress = 0.5
    routed = routed_by(method, problem)
    outputs = [routed.poses, routed.activations]
    return [*(output for output in outputs if output is not None), *gradients(outputs, problem.leaves())]


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def settings_with(name, key):
    """Hyperparameters among which this one is not as it is by default."""
    now = hyperparameters_of(name)[key]
    if key == "iterations":
        return {key: now + 1}
    if key == "competition":
        return {key: "positions" if now == "types" else "types"}
    transcription = Transcription(name)
    given = [options for options in [*transcription.options, *transcription.departures] if key in options]
    assert given, f"give {name}'s hyperparameter {key} another value in OPTIONS or DEPARTURES of its reference"
    return min(given, key=len)


@pytest.mark.parametrize(("name", "key"), HYPERPARAMETERS)
def test_hyperparameter_changes_outputs_or_gradients(name, key):
    given = settings_with(name, key)
    others = {other: value for other, value in given.items() if other != key}
    assert given[key] != hyperparameters_of(name)[key]
    assert not equal(traces(name, **others), traces(name, **given))


@pytest.mark.parametrize("name", SCHEDULED)
def test_schedule_changes_a_network_of_several_layers(name):
    """One layer is the same with every schedule."""
    found = []
    for schedule in ("sequential", "concurrent", "equilibrium", "equilibrium-damped"):
        torch.manual_seed(3)
        params = {"iterations": 3, "schedule": schedule}
        network = build("capsnet-small-intermediate", shape=(1, 28, 28), classes=3, method=name, method_params=params)
        with torch.no_grad():
            found.append(disturb(network)(torch.rand(4, 1, 28, 28)).logits)
    pairs = itertools.combinations(found[:3], 2)  # the two ways to a fixed point may end in the same
    assert not any(torch.allclose(*pair, rtol=1e-4) for pair in pairs)


@pytest.mark.parametrize("name", SCHEDULED)
def test_unknown_schedule_is_refused(name):
    with pytest.raises(UserError, match="schedule must be one of sequential, concurrent"):
        make(name, Sizes(2, 2, 4), schedule="sometimes")


@pytest.mark.parametrize("name", routing)
def test_same_hyperparameters_give_the_same_bits(name):
    assert equal(traces(name), traces(name))


@pytest.mark.parametrize(("name", "key"), [pair for pair in HYPERPARAMETERS if pair[1] in CHOICES])
def test_no_two_choices_are_the_same(name, key):
    found = [traces(name, **{key: value}) for value in CHOICES[key]]
    assert not any(equal(found[a], found[b]) for a in range(len(found)) for b in range(a))


@pytest.mark.parametrize("name", [name for name in routing if "iterations" in hyperparameters_of(name)])
def test_iterations_are_really_run(name):
    problem = on_grid()
    sweeps = []
    for iterations in (1, 2, 5):
        method = make(name, problem.sizes, iterations=iterations).double()
        votes, activations = problem.given_to(method)
        couplings = []
        votes.watch = couplings.append
        method(votes, activations)
        sweeps.append(len(couplings))
    assert sweeps[1] - sweeps[0] == 1
    assert sweeps[2] - sweeps[0] == 4


def test_leaky_routing_hands_out_less_than_everything():
    problem = on_grid()
    method = make("dynamic", problem.sizes, leaky=True).double()
    votes, activations = problem.given_to(method)
    couplings = []
    votes.watch = couplings.append
    method(votes, activations)
    assert len(couplings) == 3
    assert all(bool((coupling.sum(dim=2) < 1).all()) for coupling in couplings)


def test_an_orphan_that_nothing_would_compete_with_is_refused():
    with pytest.raises(UserError, match="leaky"):
        make("dynamic", Sizes(2, 2, 4), leaky=True, competition="children")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("dynamic", {"iterations": 0}),
        ("dynamic", {"iterations": 1.5}),
        ("dynamic", {"iterations": True}),
        ("dynamic", {"competition": "none"}),
        ("em", {"final_lambda": -1.0}),
        ("em", {"final_lambda": float("nan")}),
        ("em", {"variance_floor": -1e-3}),
        ("em", {"mean_damping": -0.1}),
        ("em", {"mean_damping": 1.0}),
        ("em", {"start_beta_a": float("inf")}),
        ("em", {"beta_a_unit": 0.0}),
        ("em", {"beta_a_unit": -1.0}),
        ("em", {"first_coupling": "positions"}),
        ("em", {"misfit": "parents"}),
        ("em", {"lambda_schedule": "epoch"}),
        ("em", {"mass_normalisation": "IBM"}),
        ("em", {"activation": "sigmoid"}),
        ("dynamic", {"detach": "no"}),
        ("dynamic", {"leaky": 1}),
        ("dynamic", {"bias": "false"}),
        ("inverted-attention", {"scale": "no"}),
        ("inverted-attention", {"layer_norm": None}),
        ("inverted-attention", {"activations": "off"}),
        ("inverted-attention", {"start": "ones"}),
        ("inverted-attention", {"dropout": 1.0}),
        ("inverted-attention", {"dropout": -0.1}),
        ("random", {"spread": -1.0}),
        ("random", {"draw": 0.5}),
        ("self-attention", {"prior": "no"}),
        ("self-attention", {"scale": 1}),
        ("slot-attention", {"aggregation": "median"}),
        ("slot-attention", {"update": "lstm"}),
        ("slot-attention", {"start": "ones"}),
        ("slot-attention", {"projection": "no"}),
        ("slot-attention", {"hidden": 0}),
        ("slot-attention", {"temperature": 0.0}),
        ("slot-attention", {"sinkhorn": -1}),
        ("slot-attention", {"sinkhorn": 1, "competition": "children"}),
        ("mesh", {"steps": -1}),
        ("mesh", {"rate": 0.0}),
        ("mesh", {"rounds": 0}),
        ("mesh", {"noise": -0.1}),
        ("mesh", {"detach": "no"}),
        ("wang-liu", {"alpha": 0}),
        ("wang-liu", {"output": "length"}),
        ("variational-bayes", {"alpha0": 0.0}),
        ("variational-bayes", {"kappa0": -1.0}),
        ("variational-bayes", {"extra_freedom": -0.5}),
        ("variational-bayes", {"psi0": float("inf")}),
        ("variational-bayes", {"covariance": "spherical"}),
        ("variational-bayes", {"pose_norm": 1}),
        ("variational-bayes", {"activation_norm": "no"}),
        ("self-routing", {"competition": "none"}),
        ("self-routing", {"pose_norm": "yes"}),
        ("heinsen", {"presence": "length"}),
        ("soft-moe", {"scale": 0.0}),
        ("expert-choice", {"capacity": 0.0}),
        ("sinkhorn-token-choice", {"rounds": -1}),
        ("sinkhorn-token-choice", {"parents_per_child": 0}),
        ("sinkhorn-token-choice", {"weight": "softmax"}),
    ],
    ids=str,
)
def test_value_that_makes_no_sense_is_refused(name, params):
    with pytest.raises(UserError, match=next(iter(params))):
        make(name, Sizes(2, 2, 4), **params)


def test_unknown_hyperparameter_suggests_the_right_one():
    with pytest.raises(UserError, match="did you mean 'iterations'"):
        make("dynamic", Sizes(2, 2, 4), iteratons=3)


def test_unknown_method_suggests_the_right_one():
    with pytest.raises(UserError, match="did you mean 'dynamic'"):
        make("dynamik", Sizes(2, 2, 4))


@pytest.mark.parametrize("name", SHIPPED)
def test_method_names_its_source(name):
    assert routing[name].source
