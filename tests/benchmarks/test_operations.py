"""Micro-benchmarks: `make microbench` times them, `make test` runs each once and looks at what it returns."""

import pytest
import torch

from routebench.capsules import Capsules, Competition, Votes
from routebench.capsules.layers import ConvCapsules, PrimaryCapsules
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import factory

LANES, CHILDREN, PARENTS = 8, 288, 10  # a quarter of CapsNet's children: milliseconds


@pytest.fixture
def parts():
    """What votes are made of: poses of 8 below, of 16 above."""
    return squash(torch.randn(LANES, CHILDREN, 8)), 0.1 * torch.randn(CHILDREN, PARENTS, 8, 16), Competition()


@pytest.fixture
def votes(parts):
    return Votes(*parts)


def test_squash(benchmark):
    squashed = benchmark(squash, torch.randn(LANES, CHILDREN, 16))
    assert length(squashed).max() < 1


def test_dense_votes(benchmark, parts):
    def anew():
        return Votes(*parts).dense()

    assert benchmark(anew).shape == (LANES, CHILDREN, PARENTS, 16)


@pytest.mark.parametrize("moments", [1, 2])
def test_sweep(benchmark, votes, moments):
    sums = benchmark(votes.sweep, torch.randn(LANES, PARENTS, 16), moments=moments)
    torch.testing.assert_close(sums.mass.sum(dim=1), torch.full((LANES,), float(CHILDREN)))


def test_uniform_sweep(benchmark, votes):
    sums = benchmark(votes.sweep)
    torch.testing.assert_close(sums.mass, torch.full((LANES, PARENTS), CHILDREN / PARENTS))


def test_primary_capsules(benchmark):
    layer = PrimaryCapsules(32, 8, 8, kernel=5, stride=2).eval()
    capsules = benchmark(layer, torch.randn(LANES, 32, 12, 12))
    assert capsules.poses.shape == (LANES, 4, 4, 8, 8)


@pytest.mark.parametrize("method", sorted(routing))
def test_convolutional_capsules(benchmark, method):
    layer = ConvCapsules((6, 6, 4), 8, 16, 16, factory(method), matrix=True).eval()
    poses = torch.randn(LANES, 6, 6, 4, 16)
    with torch.no_grad():
        capsules = benchmark(layer, Capsules(poses, torch.rand(poses.shape[:-1])))
    assert capsules.poses.shape == (LANES, 4, 4, 8, 16)


@pytest.mark.parametrize("way", ["stored votes", "aggregate"])
def test_sum_by_a_coupling_of_ones_own(benchmark, way):
    """Forward and backward in the class capsules of `capsnet-small`; `make microbench` shows the ratio."""
    random = torch.Generator().manual_seed(0)
    below, weight, coupling = (
        torch.randn(shape, generator=random).requires_grad_()
        for shape in ((128, 128, 8), (128, 10, 8, 16), (128, 128, 10))
    )

    def step():
        votes = Votes(below, weight, Competition())
        found = (
            torch.einsum("lij,lijp->ljp", coupling, votes.dense())
            if way == "stored votes"
            else votes.aggregate(coupling)
        )
        return found, torch.autograd.grad(found.square().sum(), (below, weight, coupling))

    found, gradients = benchmark(step)
    plain = torch.einsum("lij,lik,ijkp->ljp", coupling, below, weight)
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-4)
    expected = torch.autograd.grad(plain.square().sum(), (below, weight, coupling))
    torch.testing.assert_close(gradients, expected, rtol=1e-3, atol=1e-1)
