"""What must hold of Heinsen routing: what it accounts for, what it needs, and what it never stores."""

import pytest
import torch

from routebench.kernels import reference
from routebench.routing import make
from tests.kernels.saved import largest_tensor
from tests.references.problem import assert_close, dense, disturb, on_grid, routed_by


@pytest.mark.parametrize("iterations", [1, 3])
def test_parents_have_mean_zero_and_variance_one(iterations):
    problem = dense(pose=16)
    poses = routed_by(disturb(make("heinsen", problem.sizes, iterations=iterations).double()), problem).poses
    assert_close(poses.mean(dim=-1), torch.zeros(2, 3, dtype=torch.float64))
    assert_close(poses.var(dim=-1, correction=0), torch.ones(2, 3, dtype=torch.float64), rtol=1e-3)


def test_without_benefit_and_cost_there_is_nothing():
    problem = dense()
    method = make("heinsen", problem.sizes).double()
    method.beta_use.data.zero_()
    method.beta_ignore.data.zero_()
    assert float(routed_by(method, problem).poses.detach().abs().max()) == 0


def test_equal_benefit_and_negative_cost_make_coupling_not_count():
    """beta (D_use + D_ign) = beta f(a): whatever is withheld counts as what is given."""
    problem = dense()
    method = disturb(make("heinsen", problem.sizes).double())
    method.beta_ignore.data = -method.beta_use.data
    few = routed_by(method, problem).poses
    method.iterations = 4
    assert_close(routed_by(method, problem).poses, few)


def test_children_that_nothing_predicts_are_shared_equally():
    problem = dense(parents=4)
    method = make("heinsen", problem.sizes).double()
    method.match_gain.data.zero_()
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    method(votes, activations)
    assert_close(torch.stack(seen), torch.full((2, 2, 5, 4), 0.25, dtype=torch.float64))


def test_a_child_goes_to_the_parent_that_predicts_it():
    problem = dense(images=1, children=2, parents=2)
    method = make("heinsen", problem.sizes).double()
    below = problem.children.detach()[0]
    method.predict_gain.data.zero_()
    method.predict_bias.data = 100 * below  # parent j says child j
    method.match_gain.data.fill_(1.0)
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    method(votes, activations)
    own = seen[1][0].diagonal()
    assert float(own.detach().min()) > 0.5


def test_presence_below_is_used_only_where_asked():
    for presence, differs in (("learned", False), ("activations", True)):
        problem = dense()
        method = make("heinsen", problem.sizes, presence=presence).double()
        before = routed_by(method, problem).poses
        problem.activations.data[:, 0] = 0.0
        assert torch.equal(before, routed_by(method, problem).poses) != differs


@pytest.mark.parametrize("make_problem", [dense, on_grid])
def test_no_votes_are_asked_for(make_problem, monkeypatch):
    problem = make_problem()
    method = make("heinsen", problem.sizes, iterations=3).double()
    votes, activations = problem.given_to(method)
    for stored in ("dense", "agreement"):
        monkeypatch.setattr(votes, stored, None)
    assert bool(torch.isfinite(method(votes, activations).poses).all())


def test_with_many_capsules_nothing_is_larger_than_the_weights_and_the_coupling(monkeypatch):
    monkeypatch.setattr(reference, "TILE", 1)  # what is worked on at a time, beside what there is anyway
    problem = dense(images=24, children=40, parents=30, pose_in=4, pose=16)
    method = make("heinsen", problem.sizes, iterations=3).double()
    with largest_tensor() as seen:
        torch.autograd.backward(routed_by(method, problem).poses.square().sum())
    assert problem.weight.numel() <= seen.elements <= max(problem.weight.numel(), 24 * 40 * 30)
    assert seen.elements < 24 * 40 * 30 * 16 / 5
