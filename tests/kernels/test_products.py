"""Votes times a coupling and times vectors, in tiles, against the same with all votes stored."""

import pytest
import torch

from routebench.capsules import Votes
from routebench.kernels import reference
from routebench.ops import Competition, Windows
from tests.kernels.saved import largest_tensor, saved_elements
from tests.references.problem import assert_close, gradients

IMAGES, CHILDREN, PARENTS = 3, 6, 4
GRIDS = {"dense": None, "overlapping": Windows(5, 4, 3, 1, 2), "apart": Windows(5, 4, 2, 2, 2)}
POSES = {"vectors": ((3, 5), 3, 5), "matrices": ((3, 3), 9, 9)}
"""Block of the weights, elements of a child's pose and of a vote."""


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """A few images of the smaller problems, one of the larger."""
    monkeypatch.setattr(reference, "TILE", 300)


@pytest.fixture(params=GRIDS)
def windows(request):
    return GRIDS[request.param]


@pytest.fixture(params=POSES)
def poses(request):
    return request.param


def votes_and_leaves(windows=None, poses="vectors", *, images=IMAGES, offset=True, children=CHILDREN, parents=PARENTS):
    """Votes in double precision, and the tensors that they are made of. Children are not contiguous."""
    block, child_pose, pose = POSES[poses]
    cells, seen = (children, children) if windows is None else (windows.cells, windows.seen)
    leaves = [
        torch.randn(cells, images, child_pose, dtype=torch.float64, requires_grad=True),
        torch.randn(*block, seen, parents, dtype=torch.float64, requires_grad=True),
        torch.randn(seen, pose, dtype=torch.float64, requires_grad=True),
    ][: 3 if offset else 2]
    children, weight = leaves[0].transpose(0, 1), leaves[1].permute(2, 3, 0, 1)
    return Votes(children, weight, Competition(windows=windows), offset=leaves[2] if offset else None), leaves


def coupling_for(votes, lanes=None):
    """Not contiguous."""
    shape = (votes.parents, votes.children, lanes or votes.lanes)
    return torch.randn(shape, dtype=torch.float64).permute(2, 1, 0).requires_grad_()


def vectors_for(votes):
    shape = (votes.pose, votes.lanes, votes.parents)
    return torch.randn(shape, dtype=torch.float64).permute(1, 2, 0).requires_grad_()


def stored_aggregate(votes, coupling):
    return torch.einsum("lij,lijp->ljp", coupling.expand(votes.lanes, -1, -1), votes.dense())


def stored_agreement(votes, vectors):
    return torch.einsum("lijp,ljp->lij", votes.dense(), vectors)


def compare(way, stored, votes, leaves, factor):
    found, expected = way(factor), stored(votes, factor)
    assert_close(found, expected)
    assert_close(gradients([found], [*leaves, factor]), gradients([expected], [*leaves, factor]))


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("images", [1, IMAGES])
class TestAgainstStoredVotes:
    def test_a_coupling_for_each_lane(self, windows, poses, images, offset):
        votes, leaves = votes_and_leaves(windows, poses, images=images, offset=offset)
        compare(votes.aggregate, stored_aggregate, votes, leaves, coupling_for(votes))

    def test_one_coupling_for_all_lanes(self, windows, poses, images, offset):
        votes, leaves = votes_and_leaves(windows, poses, images=images, offset=offset)
        compare(votes.aggregate, stored_aggregate, votes, leaves, coupling_for(votes, lanes=1))

    def test_agreement(self, windows, poses, images, offset):
        votes, leaves = votes_and_leaves(windows, poses, images=images, offset=offset)
        compare(votes.agreement, stored_agreement, votes, leaves, vectors_for(votes))


def test_votes_that_are_stored_are_used(monkeypatch):
    votes, leaves = votes_and_leaves(Windows(5, 4, 3, 1, 2))
    coupling, vectors = coupling_for(votes), vectors_for(votes)
    found = votes.aggregate(coupling), votes.agreement(vectors)
    expected = gradients(found, leaves)
    votes.dense()
    monkeypatch.setattr(reference, "votes", None)
    again = votes.aggregate(coupling), votes.agreement(vectors)
    assert_close(found, again)
    assert_close(gradients(again, leaves), expected)


def test_votes_of_one_tile_are_made_at_a_time_and_anew_in_backward(monkeypatch):
    made, original = [], reference.votes
    monkeypatch.setattr(reference, "votes", lambda given: made.append(given.lanes) or original(given))
    for grid in (None, Windows(5, 4, 4, 1, 1)):  # the second has two positions
        made.clear()
        votes, _ = votes_and_leaves(grid, images=5)
        torch.autograd.backward(votes.agreement(vectors_for(votes)).sum())
        assert made == ([2, 2, 1] * 2 if grid is None else [2] * 10)
        made.clear()
        torch.autograd.backward(votes.aggregate(coupling_for(votes)).sum())
        assert made == ([] if grid is None else [2] * 10)  # a dense sum needs none


def test_a_dense_sum_holds_no_more_than_what_goes_in(monkeypatch, poses):
    """Its largest tensor, forward and backward, is that of one parent's children."""
    votes, leaves = votes_and_leaves(poses=poses, images=7, children=11, parents=13, offset=True)
    monkeypatch.setattr(reference, "TILE", 1)
    coupling = coupling_for(votes)
    largest = max(leaf.numel() for leaf in [*leaves, coupling])
    with largest_tensor() as seen:
        torch.autograd.backward(votes.aggregate(coupling).square().sum())
    assert seen.elements <= largest < votes.lanes * votes.children * votes.parents * votes.pose / 2


def test_one_coupling_for_all_lanes_needs_no_votes(monkeypatch, windows, poses):
    monkeypatch.setattr(reference, "votes", None)
    votes, leaves = votes_and_leaves(windows, poses)
    gradients([votes.aggregate(coupling_for(votes, lanes=1))], leaves)


@pytest.mark.parametrize("product", ["aggregate", "agreement"])
def test_gradient_of_the_gradient_where_the_factor_comes_from_the_children(product):
    def second(way, votes, leaves):
        share = leaves[0].mean(dim=(0, 2))[:, None, None]
        factor = share * {"aggregate": coupling, "agreement": vectors}[product]
        first = torch.autograd.grad(way(factor).sin().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), leaves)

    votes, leaves = votes_and_leaves()
    coupling, vectors = coupling_for(votes).detach(), vectors_for(votes).detach()
    stored = {"aggregate": stored_aggregate, "agreement": stored_agreement}[product]
    found = second(getattr(votes, product), votes, leaves)
    assert_close(found, second(lambda factor: stored(votes, factor), votes, leaves))


def test_only_what_needs_a_gradient_gets_one():
    votes, leaves = votes_and_leaves()
    leaves[1].requires_grad_(False)
    votes = Votes(leaves[0].transpose(0, 1), leaves[1].permute(2, 3, 0, 1).detach(), Competition())
    torch.autograd.backward(votes.aggregate(coupling_for(votes).detach()).sum())
    assert leaves[0].grad is not None
    assert leaves[1].grad is None


@pytest.mark.parametrize("way", ["aggregate", "agreement", "one coupling"])
def test_what_is_kept_for_backward_is_what_goes_in(windows, poses, way):
    votes, leaves = votes_and_leaves(windows, poses)
    factor = (
        vectors_for(votes) if way == "agreement" else coupling_for(votes, lanes=1 if way == "one coupling" else None)
    )
    with saved_elements() as kept:
        votes.agreement(factor) if way == "agreement" else votes.aggregate(factor)
    given = sum(leaf.numel() for leaf in leaves) + factor.numel()
    in_lanes = votes.lanes * votes.children * POSES[poses][1]
    allowed = given + in_lanes + leaves[1].numel() if way == "one coupling" else given  # scaled weights are new
    assert 0 < kept.elements <= allowed
