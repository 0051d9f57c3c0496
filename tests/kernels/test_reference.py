"""The plain sweep in tiles against all votes stored; those, against loops, are in tests/capsules/test_votes.py."""

from dataclasses import replace

import pytest
import torch

from routebench.kernels import fused, reference
from routebench.kernels.trust import differences, evaluate
from tests.kernels.sweeps import KINDS, SMALL_GRID, leaves, random_sweep


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Two images of the smaller problems, one of the larger."""
    monkeypatch.setattr(reference, "TILE", 300)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("windows", [None, SMALL_GRID], ids=["dense", "grid"])
@pytest.mark.parametrize("axis", ["types", "types+positions", "positions", "children", "none"])
@pytest.mark.parametrize("option", ["", "offset", "constant"])
def test_tiles_add_up(kind, windows, axis, option):
    options = {option: True} if option else {}
    given = leaves(random_sweep(kind, windows=windows, axis=axis, **options), torch.float64)
    assert max(differences(evaluate(reference.sweep, given), evaluate(reference.dense, given))) < 1e-10


def test_votes_of_one_tile_are_stored_at_a_time(monkeypatch):
    tiles = []
    original = reference.votes
    monkeypatch.setattr(reference, "votes", lambda given: tiles.append(given.lanes) or original(given))
    torch.autograd.backward(reference.sweep(leaves(random_sweep(images=5))).first.sum())
    assert tiles == [2, 2, 1] * 2  # forward, and again in backward


def test_gradient_of_the_gradient():
    def second(sweep, given):
        (gradient,) = torch.autograd.grad(sweep(given).first.sin().sum(), given.weight, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), [given.children, given.weight])

    given = leaves(random_sweep(), torch.float64)
    found, expected = (second(way, given) for way in (reference.sweep, reference.dense))
    torch.testing.assert_close(found, expected)


def test_gradient_of_the_gradient_where_one_input_comes_from_another():
    def second(sweep, given):
        query = given.children.mean(dim=1, keepdim=True).mean(dim=2, keepdim=True) * given.query
        first = sweep(type(given)(given.children, given.weight, given.competition, query=query)).first.sin().sum()
        (gradient,) = torch.autograd.grad(first, given.children, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), [given.children, given.weight])

    given = leaves(random_sweep(), torch.float64)
    found, expected = (second(way, given) for way in (reference.sweep, reference.dense))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("way", [reference.sweep, fused.sweep], ids=["reference", "fused"])
def test_mixed_precision_in_forward_is_that_of_backward(way):
    given = leaves(random_sweep(images=5))
    with torch.autocast("cpu", torch.bfloat16):
        first = way(replace(given, query=given.query.bfloat16())).first
    torch.autograd.backward(first.float().sum())
    exact = evaluate_first(leaves(given, torch.float64))
    torch.testing.assert_close(given.weight.grad.double(), exact, rtol=0.05, atol=0.05)
    assert given.weight.grad.dtype == torch.float32


def evaluate_first(given):
    torch.autograd.backward(reference.dense(given).first.sum())
    return given.weight.grad


def test_memory_does_not_grow_with_iterations(monkeypatch):
    """What autograd keeps of one more sweep is no larger than what belongs to parents."""
    given = leaves(random_sweep(images=5))
    kept = []

    def pack(tensor):
        kept.append(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        one = reference.sweep(given).first
        before = set(kept)
        reference.sweep(replace(given, query=one))
    shared = {getattr(given, name).untyped_storage().data_ptr() for name in ("children", "weight")}
    assert shared <= before
    assert len(set(kept) - before) == 1  # the query
