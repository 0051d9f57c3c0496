"""Coupling that both sides constrain: what half a round is, where rounds lead, and where they lead astray."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from routebench.ops import Competition, Windows, sinkhorn
from tests.references.problem import assert_close
from tests.references.slot_attention import scaled

DENSE = Competition()
WINDOWS = Windows(height=4, width=5, kernel=3, stride=1, types=2)


def random_logits(lanes=2, children=8, parents=4):
    return torch.randn(lanes, children, parents, dtype=torch.float64)


def test_half_a_round_is_the_softmax_over_parents():
    logits = random_logits()
    assert_close(sinkhorn(logits, DENSE, 0), logits.softmax(dim=2))


@pytest.mark.parametrize("rounds", [0, 1, 2, 7])
def test_rounds_are_scalings_in_turn(rounds):
    logits = random_logits()
    assert_close(sinkhorn(logits, DENSE, rounds), scaled(logits.exp(), rounds))


@pytest.mark.parametrize("children", [4, 8, 3])
def test_coupling_is_doubly_stochastic_in_the_end(children):
    coupling = sinkhorn(random_logits(children=children), DENSE, 200)
    assert_close(coupling.sum(dim=2), torch.ones(2, children, dtype=torch.float64))
    assert_close(coupling.sum(dim=1), torch.full((2, 4), children / 4, dtype=torch.float64))


def test_parents_come_closer_to_equal_mass_with_every_round_while_children_stay_exact():
    logits, off = random_logits(), []
    for rounds in range(6):
        coupling = sinkhorn(logits, DENSE, rounds)
        assert_close(coupling.sum(dim=2), torch.ones(2, 8, dtype=torch.float64))
        off.append(float((coupling.sum(dim=1) - 2).abs().max()))
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.01 * off[0]


def test_coupling_is_the_kernel_scaled_by_child_and_by_parent():
    """The form that makes a plan with given sums the one of entropic optimal transport."""
    logits = random_logits()
    scalings = sinkhorn(logits, DENSE, 50).log() - logits
    mixed = scalings - scalings[:, :1] - scalings[:, :, :1] + scalings[:, :1, :1]
    assert_close(mixed, torch.zeros_like(mixed))


def test_cold_coupling_is_the_best_assignment_of_one_child_to_one_parent():
    agreement = random_logits(lanes=1, children=6, parents=6)
    coupling = sinkhorn(agreement / 0.01, DENSE, 3000)[0]
    _, chosen = linear_sum_assignment(agreement[0].numpy(), maximize=True)
    assert coupling.argmax(dim=1).tolist() == chosen.tolist()
    assert float(coupling.max(dim=1).values.min()) > 0.9
    greedy = agreement[0].argmax(dim=1).tolist()
    assert len(set(greedy)) < 6  # where each child takes the parent that it likes best, some parent gets nothing


def test_equal_mass_is_wrong_where_objects_differ_in_size():
    agreement = torch.zeros(1, 10, 2, dtype=torch.float64)
    agreement[:, :9, 0], agreement[:, 9:, 1] = 4.0, 4.0  # nine parts of one object, one of the other
    own = sinkhorn(agreement, DENSE, 0)
    shared = sinkhorn(agreement, DENSE, 200)
    assert float(own[0, :9, 0].min()) > 0.98
    assert float(shared[0, :9, 0].max()) < 0.6


@pytest.mark.parametrize("axis", ["types", "types+positions", "positions"])
def test_on_a_grid_each_child_hands_out_one_and_rival_parents_get_the_same(axis):
    logits = random_logits(lanes=2 * WINDOWS.positions, children=WINDOWS.seen, parents=3)
    coupling = sinkhorn(logits, Competition(axis, windows=WINDOWS), 500)
    by_image = coupling.unflatten(0, (2, WINDOWS.positions))  # image position child parent
    masses = by_image.sum(dim=2)
    by_cell = torch.zeros(2, WINDOWS.cells, 3, dtype=torch.float64)
    by_cell.index_add_(1, WINDOWS.index.flatten(), by_image.flatten(1, 2))
    if axis == "types":
        assert_close(coupling.sum(dim=2), torch.ones_like(coupling[..., 0]))
        assert_close(masses, torch.full_like(masses, WINDOWS.seen / 3))
    elif axis == "types+positions":
        assert_close(by_cell.sum(dim=2), torch.ones(2, WINDOWS.cells, dtype=torch.float64))
        assert_close(masses, torch.full_like(masses, WINDOWS.cells / (3 * WINDOWS.positions)), rtol=1e-6)
    else:
        assert_close(by_cell, torch.ones_like(by_cell))
        assert_close(masses, torch.full_like(masses, WINDOWS.cells / WINDOWS.positions), rtol=1e-6)


def test_gradient_is_that_of_finite_differences():
    logits = random_logits(lanes=1, children=4, parents=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: sinkhorn(given, DENSE, 3), logits)


@pytest.mark.parametrize("size", [0.0, 1e2, 1e4, 1e8])
def test_parents_that_nobody_wants_leave_numbers_and_gradients_finite(size):
    logits = size * torch.randn(2, 8, 4)
    logits[:, :, 0] = -size
    logits.requires_grad_()
    coupling = sinkhorn(logits, DENSE, 5)
    (coupling * torch.randn(2, 8, 4)).sum().backward()
    assert bool(torch.isfinite(coupling).all()) and bool(torch.isfinite(logits.grad).all())
