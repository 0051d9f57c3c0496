"""Inverted attention that starts at other parents than zeros, and its dropout."""

import pytest
import torch

from routebench.claims import Claim
from routebench.models import build
from routebench.routing import make
from tests.references import inverted_attention
from tests.references.problem import assert_close, dense, disturb, on_grid, routed_by


def method_for(problem, **params):
    return disturb(make("inverted-attention", problem.sizes, **params).double())


def transcribed(problem, method, first):
    learned = {**dict(method.named_parameters()), "first": first}
    return inverted_attention.inverted_attention(*problem.written_out(), learned, iterations=2, start="random")[0]


def test_random_start_is_drawn_for_every_parent_of_every_image_in_training():
    problem = dense()
    method = method_for(problem, start="random")
    torch.manual_seed(5)
    found = routed_by(method, problem).poses
    torch.manual_seed(5)
    assert_close(found, transcribed(problem, method, torch.randn(2, 3, 6, dtype=torch.float64)))


def test_random_start_is_another_one_in_each_pass_of_training():
    problem = dense()
    method = method_for(problem, start="random")
    one, other = (routed_by(method, problem).poses for _ in range(2))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("problem", [dense, on_grid], ids=["dense", "grid"])
def test_random_start_is_always_the_same_in_evaluation(problem):
    problem = problem()
    method = method_for(problem, start="random").eval()
    one, other = (routed_by(method, problem).poses for _ in range(2))
    assert torch.equal(one, other)
    assert_close(one, transcribed(problem, method, method.first))


def test_random_start_of_evaluation_is_kept_with_the_weights():
    problem = dense()
    one, other = (method_for(problem, start="random").eval() for _ in range(2))
    other.load_state_dict(one.state_dict())
    assert torch.equal(routed_by(one, problem).poses, routed_by(other, problem).poses)


def test_a_learned_start_is_one_pose_for_each_parent_whatever_its_position():
    problem = on_grid()
    method = make("inverted-attention", problem.sizes, start="learned")
    assert tuple(method.first.shape) == (3, 4)
    assert sum(parameter.numel() for parameter in method.parameters()) == 2 * 4 + 3 * 4


@pytest.mark.parametrize("start", ["zeros", "learned", "random"])
def test_both_schedules_start_alike(start):
    """One iteration is the same, whichever parents it starts from, and whether or not they are drawn."""
    found = []
    for schedule in ("sequential", "concurrent"):
        torch.manual_seed(3)
        params = {"iterations": 1, "schedule": schedule, "start": start}
        network = build("tsai-small", shape=(1, 14, 14), classes=3, method="inverted-attention", method_params=params)
        found.append(network(torch.rand(2, 1, 14, 14)).logits)
    assert torch.equal(*found)


def test_first_coupling_is_uniform_from_zeros_alone():
    spreads = {}
    for start in ("zeros", "learned", "random"):
        problem, couplings = dense(), []
        method = method_for(problem, start=start, iterations=1)
        votes, activations = problem.given_to(method)
        votes.watch = couplings.append
        method(votes, activations)
        spreads[start] = float(couplings[0].detach().std())
        assert (Claim.UNIFORM_FIRST in method.claims) == (start == "zeros")
    assert spreads["zeros"] < 1e-12 < 1e-2 < min(spreads["learned"], spreads["random"])


def test_what_is_drawn_by_place_claims_no_order_of_parents_and_no_independence_in_training():
    claims = method_for(dense(), start="random").claims
    assert Claim.PARENT_ORDER not in claims and Claim.BATCH_INDEPENDENCE not in claims
    assert Claim.BATCH_INDEPENDENCE not in method_for(dense(), dropout=0.1).claims
    assert Claim.PARENT_ORDER in method_for(dense(), start="learned").claims


def test_dropout_sets_that_share_of_pose_elements_to_zero_in_training_alone():
    problem = dense(images=50, parents=4, pose=8)
    method = make("inverted-attention", problem.sizes, dropout=0.25, layer_norm=False, iterations=1).double()
    poses = routed_by(method, problem).poses
    zeros = poses == 0
    assert float(zeros.double().mean()) == pytest.approx(0.25, abs=0.04)
    kept = method.eval()(*problem.given_to(method)).poses
    assert not bool((kept == 0).any())
    assert_close(poses[~zeros], kept[~zeros] / 0.75)
