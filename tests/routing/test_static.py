"""The control whose coupling is learned: uniform at first, then fixed weights that no image changes."""

import pytest
import torch

from routebench.routing import make
from tests.references.problem import assert_close, dense, disturb, gradients, on_grid, routed_by


@pytest.mark.parametrize("make_problem", [dense, on_grid], ids=["dense", "windows"])
def test_it_starts_as_uniform_routing(make_problem):
    problem = make_problem()
    static, uniform = make("static", problem.sizes).double(), make("uniform", problem.sizes)
    found, expected = (routed_by(method, problem).poses for method in (static, uniform))
    assert_close(found, expected)


def test_coupling_is_learned_and_the_same_for_every_image():
    problem = dense(images=4)
    method = disturb(make("static", problem.sizes).double())
    votes, activations = problem.given_to(method)
    seen = []
    votes.watch = seen.append
    routed = method(votes, activations)
    assert_close(seen[0], method.log_prior.softmax(dim=1).expand(4, -1, -1))
    assert float((seen[0] - 1 / 3).detach().abs().max()) > 0.05
    (gradient,) = gradients([routed.poses], [method.log_prior])
    assert float(gradient.abs().min()) > 0
    assert_close(gradient.sum(dim=1), torch.zeros(5, dtype=torch.float64))  # raising all parents changes nothing
