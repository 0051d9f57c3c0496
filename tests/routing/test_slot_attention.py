"""Slot attention between inverted attention and the paper: switches, random starts, means and sums."""

import pytest
import torch

from routebench.routing import make
from tests.references.problem import (
    Problem,
    assert_close,
    dense,
    dense_matrices,
    disturb,
    gradients,
    on_grid,
    routed_by,
)
from tests.references.slot_attention import slot_attention

AS_INVERTED_ATTENTION = {"aggregation": "sum", "update": "replace", "start": "zeros", "projection": False}
PROBLEMS = {"dense": dense, "matrices": dense_matrices, "windows": on_grid, "one image": lambda: dense(images=1)}


@pytest.mark.parametrize("iterations", [1, 2, 4])
@pytest.mark.parametrize("make_problem", PROBLEMS.values(), ids=PROBLEMS)
def test_with_four_switches_it_is_inverted_attention(make_problem, iterations):
    problem = make_problem()
    slots = disturb(make("slot-attention", problem.sizes, iterations=iterations, **AS_INVERTED_ATTENTION).double())
    inverted = make("inverted-attention", problem.sizes, iterations=iterations).double()
    inverted.load_state_dict(slots.state_dict())
    found, expected = (routed_by(method, problem).poses for method in (slots, inverted))
    assert_close(found, expected)
    assert_close(gradients([found], problem.leaves()), gradients([expected], problem.leaves()))


@pytest.mark.parametrize("switch", ["update", "start", "projection"])
def test_each_of_the_switches_leads_away_from_inverted_attention(switch):
    problem = dense()
    params = {key: value for key, value in AS_INVERTED_ATTENTION.items() if key != switch}
    slots = make("slot-attention", problem.sizes, iterations=2, **params).double().eval()
    inverted = make("inverted-attention", problem.sizes).double()
    found, expected = (routed_by(method, problem).poses for method in (slots, inverted))
    assert float((found - expected).detach().abs().max()) > 0.01


@pytest.mark.parametrize(("update", "least", "most"), [("gru", 0.01, 1e6), ("replace", 0.0, 1e-3)])
def test_means_are_not_sums_unless_a_normalisation_takes_the_scale_out(update, least, most):
    problem = dense(children=20)
    mean = disturb(make("slot-attention", problem.sizes, update=update).double()).eval()
    total = make("slot-attention", problem.sizes, update=update, aggregation="sum").double().eval()
    total.load_state_dict(mean.state_dict())
    apart = routed_by(mean, problem).poses - routed_by(total, problem).poses
    assert least <= float(apart.detach().abs().max()) < most


@pytest.mark.parametrize("make_problem", PROBLEMS.values(), ids=PROBLEMS)
def test_in_training_slots_start_where_the_transcription_starts_with_the_same_numbers(make_problem):
    problem = make_problem()
    method = disturb(make("slot-attention", problem.sizes).double())
    votes, activations = problem.given_to(method)
    torch.manual_seed(11)
    found = method(votes, activations).poses
    torch.manual_seed(11)
    noise = torch.randn(found.shape, dtype=torch.float64)
    learned = dict(method.named_parameters())
    expected, _ = slot_attention(*problem.written_out(), learned, noise=noise)
    leaves = [*problem.leaves(), *learned.values()]
    assert_close(found, expected)
    assert_close(gradients([found], leaves), gradients([expected], leaves))


def test_training_draws_and_evaluation_does_not():
    problem = dense()
    method = make("slot-attention", problem.sizes).double()
    twice = [routed_by(method, problem).poses for _ in range(2)]
    assert float((twice[0] - twice[1]).detach().abs().max()) > 1e-3
    method.eval()
    before = torch.random.get_rng_state()
    once = routed_by(method, problem).poses
    assert torch.equal(once, routed_by(method, problem).poses)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("start", ["learned", "zeros"])
def test_other_starts_draw_nothing_in_training(start):
    problem = dense()
    method = make("slot-attention", problem.sizes, start=start).double()
    assert torch.equal(*(routed_by(method, problem).poses for _ in range(2)))


def test_a_start_without_spread_is_the_mean():
    problem = dense()
    method = make("slot-attention", problem.sizes).double()
    method.log_std.data.fill_(-50.0)
    assert_close(routed_by(method, problem).poses, method.eval()(*problem.given_to(method)).poses)


@pytest.mark.parametrize(("aggregation", "the_same"), [("mean", True), ("sum", False)])
def test_only_means_do_not_depend_on_how_often_a_child_is_there(aggregation, the_same):
    problem = dense()
    copied = Problem(
        problem.children.detach().repeat(1, 3, 1),
        problem.activations.detach().repeat(1, 3),
        problem.weight.detach().repeat(3, 1, 1, 1),
    )
    method = make("slot-attention", problem.sizes, aggregation=aggregation).double().eval()
    more = make("slot-attention", copied.sizes, aggregation=aggregation).double().eval()
    more.load_state_dict(method.state_dict())
    few, many = routed_by(method, problem).poses, routed_by(more, copied).poses
    assert bool((few - many).detach().abs().max() < 1e-6) == the_same


def test_slots_with_the_same_votes_stay_the_same_in_evaluation_and_part_in_training():
    problem = dense(parents=4)
    problem.weight.data[:] = problem.weight.data[:, :1]
    method = make("slot-attention", problem.sizes).double()
    apart = routed_by(method, problem).poses
    assert float((apart[:, 0] - apart[:, 1]).detach().abs().max()) > 1e-3
    together = method.eval()(*problem.given_to(method)).poses
    assert_close(together, together[:, :1].expand_as(together))


@pytest.mark.parametrize("axis", ["types", "types+positions", "positions"])
def test_sinkhorn_leaves_every_child_its_mass_and_makes_that_of_parents_equal(axis):
    problem = on_grid(images=1)
    method = make("slot-attention", problem.sizes, sinkhorn=100, competition=axis).double().eval()
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    method(votes, activations)
    assert len(seen) == 3
    for coupling in seen:
        masses = coupling.detach().sum(dim=1)
        assert_close(masses, masses.mean(dim=1, keepdim=True).expand_as(masses), rtol=1e-4)
        assert_close(
            masses.sum(), masses.new_tensor({"types": 108.0, "types+positions": 40.0, "positions": 120.0}[axis])
        )
