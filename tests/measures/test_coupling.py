"""Where coupling goes, and how far an iteration moves the parents."""

import math

import pytest
import torch
from scipy import stats

from routebench import measures


def test_ends_of_the_scale():
    even, alone = torch.full((2, 3, 10), 0.1), torch.eye(10)[None, :3].repeat(2, 1, 1)
    for coupling, entropy, parents, score in (
        (even, math.log(10), 10, 0),
        (alone, 0, 1, 1),
        (0 * even, math.log(10), 10, 0),
    ):
        assert measures.coupling_entropy(coupling).flatten().tolist() == pytest.approx([entropy] * 6, abs=1e-5)
        assert measures.effective_parents(coupling).flatten().tolist() == pytest.approx([parents] * 6, rel=1e-5)
        assert measures.t_score(coupling).flatten().tolist() == pytest.approx([score] * 6, abs=1e-5)
    assert measures.t_score(torch.rand(2, 3, 1)).eq(1).all()  # a single parent


def test_shares_are_made_of_coupling_that_does_not_sum_to_one():
    coupling = 5 * torch.rand(4, 6, 7, dtype=torch.float64)
    expected = stats.entropy(coupling.numpy(), axis=2)  # which divides by the sum, too
    assert measures.coupling_entropy(coupling).numpy() == pytest.approx(expected)
    assert measures.t_score(coupling).numpy() == pytest.approx(1 - expected / math.log(7))


def test_a_residual_is_relative_and_per_image():
    before = torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]], [[1.0, 1.0]]])
    after = torch.tensor([[[3.0, 9.0]], [[0.0, 2.0]], [[1.0, 1.0]]])
    assert measures.residual(before, after).tolist() == pytest.approx([1.0, 2.0, 0.0])


def test_variance_between_images_and_between_pairs():
    coupling = torch.rand(5, 3, 4, dtype=torch.float64)
    between = coupling.numpy().var(axis=0).mean() / coupling.numpy().var()
    assert measures.share_between(coupling) == pytest.approx(between)
    assert measures.share_between(coupling[:1].expand(5, -1, -1)) == 0
    assert measures.share_between(torch.full((5, 3, 4), 0.25)) == 0
    alike = torch.rand(5, 1, 1).expand(-1, 3, 4)
    assert measures.share_between(alike) == pytest.approx(1)


def test_starved_parents_get_less_than_a_tenth_of_an_equal_share():
    mass = torch.tensor([[6.0, 3.9, 0.09, 0.01], [6.0, 3.6, 0.39, 0.01]])  # means 60, 37.5, 2.4 and 0.1 %
    assert measures.starved_share(mass[:, None]) == 0.5
    assert measures.starved_share(torch.zeros(2, 1, 4)) == 0
    assert measures.starved_share(torch.eye(4)[:, None]) == 0  # each gets all of one image in four
    assert measures.starved_share(torch.stack([mass, 1e-6 * mass.flip(1)], dim=1)) == 0.5  # each position by itself
