"""Mistakes that public code for these methods makes, each of which has changed published numbers."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from routebench import registry
from routebench.registry import routing
from routebench.routing import hyperparameters_of, make
from tests.references.problem import Problem, assert_close, dense, gradients, on_grid, routed_by
from tests.references.transcription import SHIPPED, Transcription

ITERATIVE = [name for name in SHIPPED if "iterations" in hyperparameters_of(name)]
ROOT = Path(registry.__file__).parents[1]


@pytest.mark.parametrize("name", ["dynamic", "em", "inverted-attention", "uniform", "random"])
def test_softmax_is_over_parents_and_not_over_children(name):
    problem = dense(children=7, parents=3)
    method = make(name, problem.sizes).double()
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    method(votes, activations)
    for coupling in seen:
        assert_close(coupling.sum(dim=2), torch.ones(2, 7, dtype=torch.float64), rtol=1e-6)
        assert float((coupling.detach().sum(dim=1) - 1).abs().max()) > 0.1


def test_activation_of_a_child_does_not_cancel_in_the_m_step():
    problem = dense()
    method = make("em", problem.sizes).double()
    before = routed_by(method, problem).poses
    problem.activations.data[:, 0] *= 0.5
    assert float((routed_by(method, problem).poses - before).detach().abs().max()) > 1e-3


def test_absent_child_has_no_say_in_em_routing():
    problem = dense()
    problem.activations.data[:, 0] = 0.0
    method = make("em", problem.sizes).double()
    before = routed_by(method, problem)
    problem.children.data[:, 0] += 5.0
    after = routed_by(method, problem)
    assert_close(after.poses, before.poses)
    assert_close(after.activations, before.activations)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", routing)
def test_one_child_per_parent_gives_finite_parents_and_gradients(name, dtype):
    problem = dense(children=1, parents=1)
    for leaf in problem.leaves():
        leaf.data = leaf.data.to(dtype)
    method = make(name, problem.sizes).to(dtype)
    routed = routed_by(method, problem)
    found = [routed.poses, *gradients([routed.poses, routed.activations], problem.leaves())]
    assert all(bool(torch.isfinite(value).all()) for value in found)


def activations_with_copies(problem, copies, normalisation):
    """Of EM routing's parents, when every child is there so many times."""
    copied = Problem(
        problem.children.detach().repeat(1, copies, 1),
        problem.activations.detach().repeat(1, copies),
        problem.weight.detach().repeat(copies, 1, 1, 1),
    )
    method = make("em", copied.sizes, mass_normalisation=normalisation).double()
    return routed_by(method, copied).activations.detach()


@pytest.mark.parametrize(("normalisation", "suits_all_layers"), [("ratio", True), ("none", False)])
def test_only_normalised_mass_makes_activations_independent_of_the_number_of_children(normalisation, suits_all_layers):
    problem = dense(children=4)
    few, many = (activations_with_copies(problem, copies, normalisation) for copies in (1, 100))
    assert bool((few - many).abs().max() < 1e-6) == suits_all_layers


def test_full_gradient_and_the_one_with_constant_coupling_differ_but_outputs_do_not():
    problem = dense()
    full, detached = (make("dynamic", problem.sizes, detach=detach) for detach in (False, True))
    assert torch.equal(routed_by(full, problem).poses, routed_by(detached, problem).poses)
    one, other = (gradients([routed_by(method, problem).poses], [problem.weight])[0] for method in (full, detached))
    assert float((one - other).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ITERATIVE)
def test_number_of_iterations_is_not_ignored(name):
    problem = dense()
    found = [routed_by(make(name, problem.sizes, iterations=count).double(), problem).poses for count in (1, 2, 3, 4)]
    for fewer, more in pairwise(found):
        assert float((fewer - more).detach().abs().max()) > 1e-4


@pytest.mark.parametrize("name", ITERATIVE)
def test_default_number_of_iterations_is_the_papers(name):
    assert hyperparameters_of(name)["iterations"] == Transcription(name).takes["iterations"].default


@pytest.mark.parametrize("make_problem", [dense, on_grid], ids=["dense", "grid"])
@pytest.mark.parametrize("name", routing)
def test_one_image_is_a_batch(name, make_problem):
    problem = make_problem(images=1)
    routed = routed_by(make(name, problem.sizes).double(), problem)
    lanes = 1 if problem.windows is None else problem.windows.positions
    assert routed.poses.shape == (lanes, problem.sizes.parents, problem.sizes.pose)


@pytest.mark.parametrize("call", [".cuda(", ".squeeze()", 'device="cuda"'])
def test_no_code_asks_for_one_device_or_drops_axes_it_does_not_name(call):
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 20
    assert [file.name for file in files if call in file.read_text()] == []


def test_gaussian_density_has_its_factor_of_two_pi():
    problem = dense(images=1, children=2, parents=2, pose=1)
    method = make("em", problem.sizes, final_lambda=0.0, iterations=1).double()
    votes, activations = problem.given_to(method)
    first = method(votes, activations)
    mean, variance, log_activation = first.memory
    from_density = torch.distributions.Normal(mean[:, None], variance.sqrt()[:, None]).log_prob(votes.dense())
    seen = []
    votes.watch = seen.append
    method.iterate(votes, activations, first)
    assert_close(seen[0], (from_density.sum(dim=-1) + log_activation[:, None]).softmax(dim=2))
    assert float(log_activation.exp()[0, 0].detach()) == pytest.approx(0.5)
    assert math.isfinite(float(from_density.detach().sum()))
