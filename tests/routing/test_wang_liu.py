"""Routing that minimises an objective: it never grows, each step is the best one, and limits are known."""

import pytest
import torch

from routebench.routing import make
from tests.references.problem import assert_close, dense, dense_matrices, on_grid, routed_by
from tests.references.wang_liu import objective


def steps_of(problem, alpha, iterations):
    """Coupling and unit parents of each iteration, and all votes."""
    method = make("wang-liu", problem.sizes, alpha=alpha, output="unit").double()
    votes, activations = problem.given_to(method)
    seen, found, routed = [], [], None
    votes.watch = lambda coupling: seen.append(coupling.detach())
    for _ in range(iterations):
        routed = method.iterate(votes, activations, routed)
        found.append(routed.poses.detach())
    return seen, found, problem.written_out()[0].detach()


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("make_problem", [dense, dense_matrices, on_grid], ids=["dense", "matrices", "windows"])
def test_the_objective_never_grows_and_comes_to_rest(make_problem, alpha):
    couplings, parents, V = steps_of(make_problem(images=3), alpha, 40)
    s = torch.zeros_like(parents[0])
    values = []
    for c, after in zip(couplings, parents, strict=True):
        values.append(objective(c, s, V, alpha))  # after the step of the coupling
        values.append(objective(c, after, V, alpha))  # after that of the parents
        s = after
    changes = torch.stack(values).diff(dim=0)
    assert float(changes.max()) < 1e-6
    assert float(changes.sum(dim=0).max()) < -0.1
    assert float(changes[-2:].abs().max()) < 1e-3 * float(changes.abs().max())


def test_no_other_coupling_and_no_other_parents_are_better():
    alpha = 0.7
    couplings, parents, V = steps_of(dense(), alpha, 3)
    c, before, after = couplings[2], parents[1], parents[2]
    for _ in range(50):
        nearby = (c.log() + 0.2 * torch.randn_like(c)).softmax(dim=2)
        assert bool((objective(nearby, before, V, alpha) >= objective(c, before, V, alpha)).all())
        turned = after + 0.2 * torch.randn_like(after)
        turned = turned / turned.norm(dim=-1, keepdim=True).clamp(min=1)
        assert bool((objective(c, turned, V, alpha) >= objective(c, after, V, alpha) - 1e-6).all())


def test_a_high_weight_of_the_entropy_is_uniform_coupling_and_a_low_one_a_choice():
    for alpha, least, most in ((1e6, 1 / 3, 1 / 3), (1e-3, 0.99, 1.0)):
        strongest = steps_of(dense(parents=3), alpha, 4)[0][-1].max(dim=2).values
        assert float(strongest.median()) >= least - 1e-4 and float(strongest.max()) <= most + 1e-4


def test_parents_of_the_objective_have_length_one():
    _, parents, _ = steps_of(dense(), 1.0, 3)
    for poses in parents:
        assert_close(poses.norm(dim=-1), torch.ones(2, 3, dtype=torch.float64), rtol=1e-6)


def test_relative_lengths_are_those_of_the_sums_over_one_plus_the_longest():
    problem = dense()
    couplings, _, V = steps_of(problem, 1.0, 3)
    sizes = (couplings[-1][..., None] * V).sum(dim=1).norm(dim=-1)
    method = make("wang-liu", problem.sizes).double()
    routed = routed_by(method, problem)
    assert_close(routed.activations, sizes / (1 + sizes.max(dim=1, keepdim=True).values))
    assert float(routed.activations.detach().max()) < 1


def test_what_is_given_out_does_not_change_what_is_iterated():
    problem = dense()
    directions = []
    for output in ("relative", "squash", "unit"):
        method = make("wang-liu", problem.sizes, iterations=4, output=output).double()
        poses = routed_by(method, problem).poses
        directions.append(poses / poses.norm(dim=-1, keepdim=True))
    assert_close(directions[1], directions[0], rtol=1e-6)
    assert_close(directions[2], directions[0], rtol=1e-6)


def test_only_parents_without_a_length_of_their_own_leave_activations_to_the_network():
    problem = dense()
    for output, given in (("relative", True), ("squash", True), ("unit", False)):
        method = make("wang-liu", problem.sizes, output=output).double()
        assert method.gives_activations == given
        assert (routed_by(method, problem).activations is not None) == given
