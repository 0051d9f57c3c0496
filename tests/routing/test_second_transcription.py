"""Wang and Liu's routing against a second transcription, written apart from the method and from its first reference."""

import numpy as np
import pytest
import torch

from routebench.ops.squash import EPSILON
from routebench.routing import make
from tests.references import second
from tests.references.problem import dense, gradients, routed_by

ITERATIONS = [1, 2, 3, 5]
ALPHAS = [0.3, 1.0]


def plain(problem):
    return problem.children.detach().numpy(), problem.weight.detach().numpy()


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("iterations", ITERATIONS)
def test_parents_are_those_of_the_second_transcription(iterations, alpha):
    problem = dense(images=2)
    found = routed_by(make("wang-liu", problem.sizes, iterations=iterations, alpha=alpha), problem)
    children, weights = plain(problem)
    for image in range(2):
        votes = second.votes_of(children[image], weights, normalised=False)
        expected = second.wang_liu(votes, alpha=alpha, iterations=iterations, guard=EPSILON)
        assert found.poses[image].detach().numpy() == pytest.approx(expected, rel=1e-9, abs=1e-12)
        lengths = [second.length(pose) for pose in expected]
        assert found.activations[image].detach().numpy() == pytest.approx(lengths, rel=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("iterations", ITERATIONS)
def test_gradients_are_those_of_the_second_transcription(iterations, alpha):
    problem = dense(images=1, children=4, parents=3, pose_in=3, pose=3)
    method = make("wang-liu", problem.sizes, iterations=iterations, alpha=alpha)
    found = gradients([routed_by(method, problem).poses], [problem.children, problem.weight])
    children, weights = plain(problem)
    weighing = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)[0].numpy()

    def total(u, W):
        votes = second.votes_of(u, W, normalised=False)
        return np.sum(weighing * second.wang_liu(votes, alpha=alpha, iterations=iterations, guard=EPSILON))

    of_children = second.gradient(lambda u: total(u, weights), children[0])
    of_weights = second.gradient(lambda W: total(children[0], W), weights)
    assert found[0][0].numpy() == pytest.approx(of_children, rel=1e-9, abs=1e-12)
    assert found[1].numpy() == pytest.approx(of_weights, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("iterations", ITERATIONS)
def test_the_guard_against_sums_of_length_zero_moves_parents_by_less_than_1e_7(iterations):
    problem = dense(images=1)
    found = routed_by(make("wang-liu", problem.sizes, iterations=iterations), problem).poses[0].detach().numpy()
    children, weights = plain(problem)
    votes = second.votes_of(children[0], weights, normalised=False)
    assert found == pytest.approx(second.wang_liu(votes, alpha=1.0, iterations=iterations), abs=1e-7)


def test_normalised_votes_are_those_of_normalised_weights():
    # As we remember the paper, it divides votes by the Frobenius norms of their weights. The method leaves that to
    # whoever makes the weights.
    problem = dense(images=1)
    children, weights = plain(problem)
    votes = second.votes_of(children[0], weights, normalised=True)
    expected = second.wang_liu(votes, alpha=1.0, iterations=3, guard=EPSILON)
    method = make("wang-liu", problem.sizes)
    assert np.abs(routed_by(method, problem).poses[0].detach().numpy() - expected).max() > 0.01
    problem.weight.data /= problem.weight.data.norm(dim=(2, 3), keepdim=True)
    assert routed_by(method, problem).poses[0].detach().numpy() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("iterations", ITERATIONS)
def test_with_the_divergence_from_the_last_coupling_the_same_objective_is_that_of_dynamic_routing(iterations):
    problem = dense(images=1)
    found = routed_by(make("dynamic", problem.sizes, iterations=iterations), problem).poses[0].detach().numpy()
    children, weights = plain(problem)
    votes = second.votes_of(children[0], weights, normalised=False)
    expected = second.dynamic_as_descent(votes, iterations=iterations, guard=EPSILON)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
