"""Every hyperparameter of every method does something, and wrong ones are refused in one line."""

import itertools

import numpy as np
import pytest
import torch

from routebench.capsules import Sizes
from routebench.errors import UserError
from routebench.models import build
from routebench.registry import routing
from routebench.routing import hyperparameters_of, make
from routebench.routing.base import at_least
from tests.references.problem import disturb, gradients, on_grid

OTHER_VALUES = {
    "random": {"spread": 2.0, "draw": 1},
    "dynamic": {"iterations": 2, "detach": True, "bias": True, "leaky": True, "competition": "types+positions"},
    "em": {
        "iterations": 2,
        "final_lambda": 0.5,
        "lambda_schedule": "training",
        "competition": "types",
        "mass_normalisation": "ratio",
        "variance_floor": 0.1,
        "mass_floor": 0.3,
        "mean_damping": 0.1,
        "start_beta_a": -50.0,
        "beta_a_unit": 2500.0,
        "first_coupling": "types",
        "misfit": "children",
        "activation": "mixing",
    },
    "inverted-attention": {
        "iterations": 3,
        "scale": False,
        "layer_norm": False,
        "activations": True,
        "start": "learned",
        "dropout": 0.5,
        "competition": "types+positions",
    },
    "self-attention": {"prior": False, "scale": False},
    "slot-attention": {
        "iterations": 2,
        "aggregation": "sum",
        "update": "replace",
        "start": "learned",
        "projection": False,
        "hidden": 16,
        "temperature": 0.5,
        "sinkhorn": 2,
        "competition": "types+positions",
    },
    "wang-liu": {"iterations": 2, "alpha": 0.5, "output": "squash", "competition": "types+positions"},
    "variational-bayes": {
        "iterations": 2,
        "alpha0": 0.1,
        "kappa0": 5.0,
        "extra_freedom": 4.0,
        "psi0": 3.0,
        "covariance": "full",
        "competition": "types",
        "pose_norm": False,
        "activation_norm": False,
    },
    "self-routing": {"competition": "types+positions", "pose_norm": False},
    "heinsen": {"iterations": 3, "presence": "activations", "competition": "types+positions"},
}
"""For each hyperparameter a value that is not its default."""

CHOICES = {
    "competition": ("types", "types+positions", "positions", "children"),
    "first_coupling": ("competition", "types"),
    "lambda_schedule": ("iteration", "training", "constant"),
    "start": ("random", "learned", "zeros"),
    "output": ("relative", "squash", "unit"),
    "presence": ("learned", "activations"),
}
HYPERPARAMETERS = [(name, key) for name in routing for key in hyperparameters_of(name) if key != "schedule"]
SCHEDULED = [name for name in routing if "schedule" in hyperparameters_of(name)]
SHIPPED = [name for name in routing if routing[name].__module__.startswith("routebench.")]


def traces(name, **params):
    """Outputs and input gradients of a method on a fixed grid problem, half way through training."""
    torch.manual_seed(3)
    problem = on_grid()
    method = disturb(make(name, problem.sizes, **params).double())
    method.progress = 0.5
    routed = method(*problem.given_to(method))
    outputs = [routed.poses, routed.activations]
    return [*(output for output in outputs if output is not None), *gradients(outputs, problem.leaves())]


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("name", "key"), HYPERPARAMETERS)
def test_hyperparameter_changes_outputs_or_gradients(name, key):
    assert key in OTHER_VALUES.get(name, {}), f"give {name}'s hyperparameter {key} a value in OTHER_VALUES"
    assert OTHER_VALUES[name][key] != hyperparameters_of(name)[key]
    assert not equal(traces(name), traces(name, **{key: OTHER_VALUES[name][key]}))


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


@pytest.mark.parametrize(("least", "given", "kind"), [(1, np.int64(3), int), (0.0, np.float32(0.5), float)])
def test_numbers_of_numpy_become_pythons_own(least, given, kind):
    value = at_least(least, some=given)
    assert value == given
    assert type(value) is kind


@pytest.mark.parametrize("given", [np.float64(3.0), np.bool_(True), "3"])
def test_what_is_no_whole_number_is_refused(given):
    with pytest.raises(ValueError, match="some must be an integer of at least 1, got"):
        at_least(1, some=given)
