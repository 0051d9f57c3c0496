"""MESH: steps that lower the entropy of a transport plan, what they do, and where they have nothing to do."""

import math

import pytest
import torch

from routebench.capsules import Competition, Votes
from routebench.ops import sinkhorn
from routebench.routing import make
from routebench.routing.mesh import entropy_slope, sinkhorn_rounds
from tests.references.mesh import entropy, mesh, plan
from tests.references.problem import assert_close, dense, disturb, gradients, on_grid, routed_by

EXTREMES = [0.0, 1.0, 1e2, 1e4, 1e8]


def problem_of_plans(lanes=2, parents=3, children=5):
    """Logits, logarithms of supply and demand, and a potential to begin with."""
    shapes = (lanes, parents, children), (lanes, 1, children), (lanes, parents, 1), (lanes, parents, 1)
    logits, supply, demand, potential = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    given = logits, supply.log_softmax(dim=2), demand.log_softmax(dim=1), potential
    return [one.requires_grad_() for one in given]


def plan_of(logits, supply, demand, potential, rounds=3):
    """(lane, parent, child)."""
    found, _ = sinkhorn_rounds(logits, supply, demand, potential, rounds)
    return demand.exp() * found[-1].of_parents


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_rounds_are_scalings_by_what_children_offer_and_parents_ask_for(rounds):
    logits, supply, demand, potential = problem_of_plans(lanes=1)
    found = plan_of(logits, supply, demand, potential, rounds)[0].T
    masses = supply.exp()[0, 0], demand.exp()[0, :, 0]
    expected, _ = plan(-logits[0].T, *masses, potential.exp()[0, :, 0], rounds)
    assert_close(found, expected)
    assert_close(found.sum(dim=0), masses[1])


def test_rounds_lead_to_both_masses():
    logits, supply, demand, potential = problem_of_plans()
    found = plan_of(logits, supply, demand, potential, 300)
    assert_close(found.sum(dim=1, keepdim=True), supply.exp())
    assert_close(found.sum(dim=2, keepdim=True), demand.exp())


def test_with_equal_masses_rounds_are_those_of_slot_attention():
    logits = torch.randn(2, 3, 5, dtype=torch.float64)
    supply, demand = logits.new_full((2, 1, 5), -math.log(5)), logits.new_full((2, 3, 1), -math.log(3))
    found, _ = sinkhorn_rounds(logits, supply, demand, torch.zeros_like(demand), 4)
    assert_close(found[-1].of_children.transpose(1, 2), sinkhorn(logits.transpose(1, 2), Competition(), 3))


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_the_slope_is_the_gradient_of_the_entropy(rounds):
    """By autograd, and by differences in all directions; what follows from it by autograd is its own gradient."""
    leaves = problem_of_plans(lanes=1)

    def entropy_of(logits):
        return entropy(plan_of(logits, *leaves[1:], rounds))

    def slope(*given):
        found, _ = sinkhorn_rounds(*given, rounds)
        return entropy_slope(found, given[2], given[0].shape[2])

    assert_close(slope(*leaves), torch.autograd.grad(entropy_of(leaves[0]), leaves[0])[0])
    with torch.no_grad():
        for pair in range(leaves[0].numel()):
            nudge = torch.zeros(leaves[0].numel(), dtype=torch.float64)
            nudge[pair] = 1e-6
            change = entropy_of(leaves[0] + nudge.view_as(leaves[0])) - entropy_of(leaves[0] - nudge.view_as(leaves[0]))
            assert_close(slope(*leaves).flatten()[pair], change / 2e-6, rtol=1e-5, atol=1e-9)
    assert torch.autograd.gradcheck(slope, leaves)


@pytest.mark.parametrize("make_problem", [dense, on_grid, lambda: dense(images=1)])
@pytest.mark.parametrize("detach", [True, False])
def test_in_training_starts_and_noise_are_those_of_the_transcription_with_the_same_numbers(make_problem, detach):
    problem = make_problem()
    if problem.windows:
        problem.children.data, problem.activations.data = problem.children.data[:1], problem.activations.data[:1]
    method = disturb(make("mesh", problem.sizes, noise=0.3, iterations=2, detach=detach).double())
    votes, activations = problem.given_to(method)
    torch.manual_seed(11)
    found = method(votes, activations).poses
    torch.manual_seed(11)
    first = torch.randn(found.shape, dtype=torch.float64)
    drawn = torch.randn(len(found), votes.parents, votes.children, dtype=torch.float64).transpose(1, 2)
    learned = dict(method.named_parameters())
    params = {"noise": 0.3, "iterations": 2, "detach": detach, "x": problem.in_lanes()[0]}
    expected, _ = mesh(*problem.written_out(), learned, first=first, drawn=drawn, **params)
    leaves = [*problem.leaves(), *learned.values()]
    assert_close(found, expected)
    assert_close(gradients([found], leaves), gradients([expected], leaves))


def couplings(method, problem):
    """How children divide themselves, in each iteration."""
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    method(votes, activations)
    return [coupling.detach() for coupling in seen]


def test_steps_bring_children_near_to_one_parent_and_leave_them_their_mass():
    problem = dense(images=4, children=12)
    spread = []
    for steps in (0, 2, 4, 8):
        torch.manual_seed(5)
        method = make("mesh", problem.sizes, steps=steps, iterations=1).double().eval()
        (coupling,) = couplings(method, problem)
        assert_close(coupling.sum(dim=2), torch.ones(4, 12, dtype=torch.float64))
        spread.append(float(torch.special.entr(coupling).sum(dim=2).mean()))
    assert spread == sorted(spread, reverse=True)
    assert spread[0] > 0.5 * math.log(3)
    assert spread[-1] < 0.2 * spread[0]


def test_noise_parts_slots_that_are_equal():
    problem = dense(parents=2)
    problem.weight.data[:] = problem.weight.data[:, :1]
    apart = {}
    for noise in (0.0, 1e-3):
        method = make("mesh", problem.sizes, noise=noise, steps=8).double()
        method.log_std.data.fill_(-80.0)  # one start for all slots
        poses = routed_by(method, problem).poses.detach()
        apart[noise] = float((poses[:, 0] - poses[:, 1]).abs().max())
    assert apart[0.0] < 1e-9 and apart[1e-3] > 1e-2


def test_noise_is_drawn_once_for_all_iterations(monkeypatch):
    problem, drawn, randn = dense(), [], torch.randn
    monkeypatch.setattr(torch, "randn", lambda shape, **given: drawn.append(shape) or randn(shape, **given))
    routed_by(make("mesh", problem.sizes, iterations=4).double(), problem)
    assert drawn == [(2, 3, 6), (2, 3, 5)]  # slots, noise


def test_constant_steps_change_gradients_and_nothing_else():
    problem = dense()
    constant, through = (make("mesh", problem.sizes, detach=detach).double().eval() for detach in (True, False))
    through.load_state_dict(constant.state_dict())
    ours, theirs = (routed_by(method, problem).poses for method in (constant, through))
    assert torch.equal(ours, theirs)
    slopes = zip(*(gradients([poses], [problem.children, problem.weight]) for poses in (ours, theirs)), strict=True)
    assert all(float((one - other).abs().max()) > 1e-3 for one, other in slopes)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("detach", [True, False])
def test_steps_are_taken_without_autograd_too(mode, detach):
    problem = dense()
    method = make("mesh", problem.sizes, detach=detach).double().eval()
    expected = routed_by(method, problem).poses.detach()
    with mode():
        assert torch.equal(routed_by(method, problem).poses, expected)


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("size", EXTREMES)
def test_numbers_and_gradients_are_finite_whatever_the_costs_are(size, detach):
    problem = dense(children=8)
    for leaf in problem.leaves():
        leaf.data = leaf.data.float()
    problem.children.data *= size
    method = make("mesh", problem.sizes, detach=detach)
    poses = routed_by(method, problem).poses
    found = [poses, *gradients([poses], [*problem.leaves(), *method.parameters()])]
    assert all(bool(torch.isfinite(one).all()) for one in found)
    for coupling in couplings(method, problem):
        assert_close(coupling.sum(dim=2), torch.ones(2, 8), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", EXTREMES)
def test_slopes_are_finite_where_a_parent_is_wanted_by_nobody(size):
    logits = size * torch.randn(2, 4, 8)
    logits[:, 0] = -size
    masses = torch.zeros(2, 1, 8) - math.log(8), torch.zeros(2, 4, 1)
    found, potential = sinkhorn_rounds(logits, *masses, torch.zeros(2, 4, 1), 5)
    slope = entropy_slope(found, masses[1], 8)
    assert bool(torch.isfinite(slope).all()) and bool(torch.isfinite(potential).all())
    assert_close(found[-1].of_parents.sum(dim=2), torch.ones(2, 4), rtol=1e-5, atol=1e-5)


def test_an_entropy_of_zero_has_no_slope():
    """An assignment has no slope, nor has the plan between one child and one parent, which is 1 whatever the cost."""
    logits = 1e3 * torch.eye(4, dtype=torch.float64)[None]
    for given in (logits, logits[:, :1, :1]):
        masses = torch.zeros_like(given[:, :1]), torch.zeros_like(given[:, :, :1])
        found, _ = sinkhorn_rounds(given, *masses, torch.zeros_like(masses[1]), 5)
        assert_close(found[-1].of_parents, torch.eye(given.shape[1], dtype=torch.float64)[None])
        assert float(entropy(found[-1].of_parents)) == pytest.approx(0, abs=1e-15)
        assert float(entropy_slope(found, masses[1], given.shape[2]).abs().max()) < 1e-15


@pytest.mark.parametrize("sizes", [{"children": 1}, {"parents": 1}, {"children": 1, "parents": 1}])
def test_steps_change_nothing_where_masses_leave_no_choice(sizes):
    problem = dense(**sizes)
    method = disturb(make("mesh", problem.sizes).double()).eval()
    plain = make("mesh", problem.sizes, steps=0).double().eval()
    plain.load_state_dict(method.state_dict())
    assert_close(routed_by(method, problem).poses, routed_by(plain, problem).poses)


@pytest.mark.parametrize("training", [True, False])
def test_a_child_that_is_alone_behind_its_mask_is_an_only_child(training):
    problem = dense(children=6)
    method = disturb(make("mesh", problem.sizes).double()).train(training)
    present = torch.zeros(2, 6, dtype=torch.bool)
    present[:, 4] = True
    votes = Votes(problem.children, problem.weight, Competition(present=present))
    seen = []
    votes.watch = seen.append
    torch.manual_seed(0)
    found = method(votes, problem.activations).poses
    assert all(bool((coupling[:, ~present[0]] == 0).all()) for coupling in seen)
    alone = make("mesh", dense(children=1).sizes).double().train(training)
    alone.load_state_dict(method.state_dict())
    torch.manual_seed(0)
    expected = alone(Votes(problem.children[:, 4:5], problem.weight[4:5], Competition()), problem.activations[:, 4:5])
    assert_close(found, expected.poses)
    leaves = [problem.children, problem.weight, *method.parameters()]
    assert all(bool(torch.isfinite(one).all()) for one in gradients([found], leaves))


@pytest.mark.parametrize("detach", [True, False])
def test_an_image_without_children_has_slots_that_saw_nothing(detach):
    problem = dense()
    method = disturb(make("mesh", problem.sizes, detach=detach, iterations=1).double()).eval()
    present = torch.tensor([[False] * 5, [True] * 5])
    poses = method(Votes(problem.children, problem.weight, Competition(present=present)), problem.activations).poses
    problem.children.data[0] = 0.0
    assert_close(poses[0], routed_by(method, problem).poses[0])
    leaves = [problem.children, problem.weight, *method.parameters()]
    assert all(bool(torch.isfinite(one).all()) for one in gradients([poses], leaves))
