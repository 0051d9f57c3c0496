"""Self-attention routing: its closed forms, its squash, and what its prior does."""

import math

import pytest
import torch
from torch.nn.functional import softplus

from routebench.routing import make
from routebench.routing.self_attention import log_odds
from tests.references.problem import assert_close, dense, disturb, on_grid, routed_by
from tests.references.votes import every_vote


def test_one_parent_gets_the_sum_of_all_votes():
    problem = dense(parents=1)
    routed = routed_by(make("self-attention", problem.sizes).double(), problem)
    total = every_vote(problem.children, problem.weight).sum(dim=1)
    size = total.norm(dim=-1)
    assert_close(routed.activations, 1 - torch.exp(-size))
    assert_close(routed.poses, total * ((1 - torch.exp(-size)) / size)[..., None])


@pytest.mark.parametrize("make_problem", [dense, on_grid], ids=["dense", "windows"])
def test_the_prior_adds_its_share_of_the_votes(make_problem):
    problem = make_problem()
    with_prior, without = (make("self-attention", problem.sizes, prior=prior).double() for prior in (True, False))
    assert_close(routed_by(with_prior, problem).poses, routed_by(without, problem).poses)  # it starts at zero
    with_prior = disturb(with_prior)
    added = torch.einsum("ij,lijd->ljd", with_prior.prior, problem.written_out()[0])
    assert_close(_before_squash(routed_by(with_prior, problem)), _before_squash(routed_by(without, problem)) + added)


def _before_squash(routed):
    lengths = softplus(routed.logits)  # log(1 + e^x) of x = log(e^n - 1)
    return routed.poses * (lengths / routed.activations)[..., None]


@pytest.mark.parametrize(("scale", "divisor"), [(True, math.sqrt(6)), (False, 1.0)])
def test_coupling_is_a_softmax_of_agreements_with_the_sum(scale, divisor):
    problem = dense(pose=6)
    method = disturb(make("self-attention", problem.sizes, scale=scale).double())
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    method(votes, activations)
    V, _ = problem.written_out()
    agreement = (V * V.sum(dim=1, keepdim=True)).sum(dim=-1) / divisor
    assert_close(seen[-1], agreement.softmax(dim=2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_at_zero_votes_a_parent_is_absent_and_has_the_gradient_of_the_plain_sum(dtype):
    problem = dense(parents=1)
    for leaf in problem.leaves():
        leaf.data = leaf.data.to(dtype)
    problem.children.data.zero_()
    routed = routed_by(make("self-attention", problem.sizes).to(dtype), problem)
    (routed.poses.sum() + routed.activations.sum() + routed.logits.sum()).backward()
    assert float(routed.activations.detach().max()) < 1e-6
    expected = problem.weight.detach().sum(dim=(1, 3)).expand_as(problem.children)
    assert_close(problem.children.grad, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 10.0, 100.0, 1e4])
def test_log_odds_stay_exact_where_presence_saturates(size):
    found = float(log_odds(torch.tensor(size)))
    expected = size if size > 50 else math.log(math.expm1(size))
    assert found == pytest.approx(expected, rel=1e-4)


def test_log_odds_are_those_of_the_activations_and_lengths_of_poses_are_the_activations():
    problem = dense()
    routed = routed_by(disturb(make("self-attention", problem.sizes).double()), problem)
    assert_close(routed.logits.sigmoid(), routed.activations)
    assert_close(routed.poses.norm(dim=-1), routed.activations)
