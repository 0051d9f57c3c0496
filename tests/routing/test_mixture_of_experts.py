"""What must hold of the routers of mixtures of experts: what of them is exact, their choices, and hard cases."""

import math

import pytest
import torch
from torch import nn

from routebench.capsules import Competition, Votes
from routebench.errors import UserError
from routebench.routing import make
from tests.references.problem import assert_close, dense, disturb, gradients, on_grid, routed_by

ROUTERS = ["soft-moe", "expert-choice", "sinkhorn-token-choice"]


def coupling_of(method, problem, present=None):
    """The coupling that weighs votes, and the parents."""
    votes = Votes(problem.children, problem.weight, Competition(method.competition, present=present))
    seen = []
    votes.watch = seen.append
    routed = method(votes, problem.activations)
    (coupling,) = seen
    return coupling.detach(), routed.poses


def made(name, problem, **params):
    return disturb(make(name, problem.sizes, **params).double())


def loaded(method, name, problem, **params):
    """A method of the same weights for another number of children."""
    other = make(name, problem.sizes, **params).double()
    other.load_state_dict(method.state_dict())
    return other


def gates_of(method, problem):
    return (problem.children @ method.gate).softmax(dim=2).detach()


def of_children(problem, children):
    """The problem of some of the children."""
    parts = (problem.children[:, children], problem.activations[:, children], problem.weight[children])
    return type(problem)(*(part.detach().clone() for part in parts))


def test_a_slot_is_what_its_linear_expert_makes_of_the_mean_of_tokens():
    """The order of the paper: tokens are averaged, and the expert, one matrix for all tokens, sees the mean alone."""
    problem = dense(children=7)
    problem.weight.data[:] = problem.weight.data[:1]
    method = made("soft-moe", problem)
    method.norm = nn.Identity()
    tokens = nn.functional.normalize(problem.children, dim=2)
    slots = method.sharpness * nn.functional.normalize(method.slots, dim=0)
    inputs = (tokens @ slots).softmax(dim=1).transpose(1, 2) @ problem.children  # one for each slot
    expected = torch.einsum("ljd,jdp->ljp", inputs, problem.weight[0])
    assert_close(routed_by(method, problem).poses, expected, rtol=1e-5, atol=1e-6)  # 1e-6 beside squared lengths


def test_soft_dispatch_reads_neither_votes_nor_the_length_of_a_child():
    problem = dense()
    method = made("soft-moe", problem)
    before, _ = coupling_of(method, problem)
    problem.weight.data.mul_(-3)
    problem.children.data.mul_(torch.rand(2, 5, 1, dtype=torch.float64) + 1)
    after, _ = coupling_of(method, problem)
    assert_close(after, before, rtol=1e-4)


@pytest.mark.parametrize(("capacity", "taken"), [(0.5, 2), (1.0, 3), (1.5, 5), (2.0, 6), (100.0, 9), (1e30, 9)])
def test_each_expert_takes_the_tokens_with_the_highest_gates(capacity, taken):
    problem = dense(images=4, children=9)
    method = made("expert-choice", problem, capacity=capacity)
    coupling, _ = coupling_of(method, problem)
    assert taken == min(9, math.ceil(9 * capacity / 3))
    assert make("expert-choice", problem.sizes, capacity=3e38).taken[-1] == 9  # as many as there are
    assert bool(((coupling > 0).sum(dim=1) == taken).all())
    gates = gates_of(method, problem)
    assert_close(coupling.sort(dim=1, descending=True).values[:, :taken], gates.topk(taken, dim=1).values)
    assert_close(coupling[coupling > 0], gates[coupling > 0])


def test_a_token_has_several_experts_or_none():
    problem = dense(images=8, children=9)
    coupling, _ = coupling_of(made("expert-choice", problem, capacity=1.0), problem)
    experts = (coupling > 0).sum(dim=2)
    assert int(experts.min()) == 0 and int(experts.max()) > 1


def test_children_that_are_alike_are_taken_from_the_first_on():
    problem = dense(children=6)
    problem.children.data[:] = 0  # gates of other numbers may differ in the last digit with the place of their child
    coupling, _ = coupling_of(made("expert-choice", problem, capacity=1.0), problem)
    assert (coupling > 0).sum(dim=2).tolist() == [[3, 3, 0, 0, 0, 0]] * 2


def test_the_capacity_counts_the_children_that_are_there():
    problem = dense(images=3, children=9)
    present = torch.arange(9) < torch.tensor([[9], [4], [1]])
    coupling, _ = coupling_of(made("expert-choice", problem, capacity=1.0), problem, present)
    assert (coupling > 0).sum(dim=1).tolist() == [[3] * 3, [2] * 3, [1] * 3]
    assert bool((coupling[~present] == 0).all())


def test_a_child_that_is_not_there_is_not_chosen_before_one_whose_gate_is_zero():
    problem = dense(children=4)
    method = made("expert-choice", problem, capacity=1.5)  # two of four, and one of the two that are there
    with torch.no_grad():
        problem.children[:] = 1.0
        method.gate[:, 0], method.gate[:, 1:] = -500.0, 500.0  # a gate of exactly zero
    present = torch.tensor([[False, False, True, True]] * 2)
    _, with_mask = coupling_of(method, problem, present)
    alone = of_children(problem, [2, 3])
    assert_close(with_mask, coupling_of(loaded(method, "expert-choice", alone, capacity=1.5), alone)[1])


def test_only_chosen_children_get_a_gradient():
    problem = dense(images=1, children=6)
    method = made("expert-choice", problem, capacity=0.5)
    coupling, poses = coupling_of(method, problem)
    (slope,) = gradients([poses], [problem.children])
    assert ((slope[0] != 0).any(dim=1) == (coupling[0] > 0).any(dim=1)).all()
    assert not bool((coupling[0] > 0).any(dim=1).all())


def test_balance_spreads_the_choices_of_tokens():
    problem = dense(images=6, children=60, parents=4)
    method = make("sinkhorn-token-choice", problem.sizes).double()
    method.gate.data[:, 0] = method.gate.data[:, 1] + 0.1  # one expert is a little better than another everywhere
    problem.children.data.abs_()
    chosen = {}
    for rounds in (0, 20):
        method.rounds = rounds
        coupling, _ = coupling_of(method, problem)
        assert bool(((coupling > 0).sum(dim=2) == 1).all())
        chosen[rounds] = (coupling > 0).sum(dim=1).double()
    assert float(chosen[20].std(dim=1).mean()) < 0.5 * float(chosen[0].std(dim=1).mean())


def test_without_rounds_a_token_takes_the_expert_of_its_highest_gate():
    problem = dense(children=20)
    method = made("sinkhorn-token-choice", problem, rounds=0)
    coupling, _ = coupling_of(method, problem)
    gates = gates_of(method, problem)
    assert coupling.argmax(dim=2).equal(gates.argmax(dim=2))
    assert_close(coupling.sum(dim=2), gates.max(dim=2).values)


def test_the_plan_decides_where_and_the_gate_how_much():
    problem = dense(children=20)
    method = made("sinkhorn-token-choice", problem)
    by_gate, _ = coupling_of(method, problem)
    method.weight = "plan"
    by_plan, _ = coupling_of(method, problem)
    assert (by_gate > 0).equal(by_plan > 0)
    assert_close(by_gate[by_gate > 0], gates_of(method, problem)[by_gate > 0])
    assert float((by_gate - by_plan).abs().max()) > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_only_child_to_which_all_parents_are_alike_goes_where_its_gate_is_highest(dtype):
    problem = dense(images=50, children=1, parents=10)
    for leaf in problem.leaves():
        leaf.data = leaf.data.to(dtype)
    method = make("sinkhorn-token-choice", problem.sizes).to(dtype)
    coupling, _ = coupling_of(method, problem)
    assert (coupling > 0).sum(dim=2).tolist() == [[1]] * 50
    assert_close(coupling.sum(dim=2), gates_of(method, problem).amax(dim=2), rtol=0.05, atol=0)


@pytest.mark.parametrize("name", ROUTERS)
def test_one_child_behind_a_mask_is_routed_as_if_it_were_alone(name):
    problem = dense(children=5)
    method = made(name, problem)
    present = torch.zeros(2, 5, dtype=torch.bool)
    present[:, 3] = True
    alone = of_children(problem, [3])
    assert_close(coupling_of(method, problem, present)[1], coupling_of(loaded(method, name, alone), alone)[1])


@pytest.mark.parametrize("hidden", [0.0, 1e30, math.nan])
@pytest.mark.parametrize("name", ROUTERS)
def test_no_child_at_all_leaves_finite_parents_and_gradients(name, hidden):
    problem = dense()
    problem.children.data[:] = hidden
    method = made(name, problem)
    coupling, poses = coupling_of(method, problem, torch.zeros(2, 5, dtype=torch.bool))
    found = gradients([poses], [problem.children, problem.weight, *method.parameters()])
    assert float(coupling.abs().max()) == 0
    assert all(bool(torch.isfinite(one).all()) for one in [poses, *found])


@pytest.mark.parametrize("size", [1e-20, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("name", ROUTERS)
def test_extreme_logits_leave_finite_parents_and_gradients(name, size):
    problem = dense(images=4, children=8)
    for leaf in problem.leaves():
        leaf.data = leaf.data.float()
    for params in ({}, {"weight": "plan"}) if name == "sinkhorn-token-choice" else ({},):
        method = make(name, problem.sizes, **params)
        with torch.no_grad():
            (method.sharpness if name == "soft-moe" else method.gate).mul_(size)
        routed = routed_by(method, problem)
        found = gradients([routed.poses], [problem.children, problem.weight, *method.parameters()])
        assert all(bool(torch.isfinite(one).all()) for one in [routed.poses, *found])


@pytest.mark.parametrize("name", ROUTERS)
def test_a_window_is_routed_as_a_problem_of_its_own(name):
    problem = on_grid(images=1)
    method = made(name, problem)
    poses, activations = problem.in_lanes()
    apart = type(problem)(poses.detach(), activations.detach(), problem.weight.detach())
    assert_close(routed_by(method, problem).poses, routed_by(method, apart).poses)


@pytest.mark.parametrize("name", ROUTERS)
def test_one_pass_has_no_number_of_iterations(name):
    with pytest.raises(UserError, match="has no hyperparameter 'iterations'"):
        make(name, dense().sizes, iterations=3)
