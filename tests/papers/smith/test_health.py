"""A collapse is seen, and a model that shares its work is not called one."""

import math

import pytest
import torch

from routebench.papers.smith.models.probabilistic.health import health


def presences(images=4, objects=3):
    return torch.rand(images, objects, generator=torch.Generator().manual_seed(0))


def test_even_shares_are_no_collapse():
    found = health(torch.ones(4, 5), presences())
    assert found.collapsed == "" and found.dead == 0
    assert found.effective == pytest.approx(5) and found.largest == pytest.approx(0.2)


def test_shares_are_of_all_that_is_drawn():
    found = health(torch.tensor([[3.0, 1.0], [0.0, 4.0]]), presences(2))
    assert found.shares.tolist() == pytest.approx([3 / 8, 5 / 8])
    entropy = -(3 / 8 * math.log(3 / 8) + 5 / 8 * math.log(5 / 8))
    assert found.effective == pytest.approx(math.exp(entropy))


def test_one_template_that_draws_everything_is_a_collapse():
    found = health(torch.tensor([[8.0, 0.5, 0.5, 0.5, 0.5]]).expand(4, 5), presences())
    assert found.collapsed == "one template draws 80 % of everything"
    assert found.dead == 0


def test_dead_templates_are_a_collapse_where_they_are_most():
    alive = torch.tensor([[1.0, 1.0, 1.0, 0.0]]).expand(4, 4)
    assert health(alive, presences()).dead == 1 and health(alive, presences()).collapsed == ""
    mostly = torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]]).expand(4, 5)
    assert health(mostly, presences()).collapsed == "3 of 5 templates are dead"


def test_a_black_canvas_is_all_dead():
    found = health(torch.zeros(4, 3), presences())
    assert found.dead == 3 and found.collapsed == "3 of 3 templates are dead"


def test_an_object_that_is_always_the_same_is_idle():
    varied = presences()
    varied[:, 1] = 0.4
    assert health(torch.ones(4, 2), varied).idle == 1
    assert health(torch.ones(4, 2), 1e-6 * varied).idle == 1  # a presence may be small and tell images apart
    assert health(torch.ones(1, 2), varied[:1]).idle == 3  # one image tells nothing apart
