"""Squashing and lengths, also where the printed formulas have no gradient."""

import pytest
import torch

from routebench.ops import length, length_logit, squash
from tests.references.problem import assert_close


@pytest.mark.parametrize("n", [0.01, 0.5, 1.0, 3.0, 100.0])
def test_length_n_becomes_n2_over_1_plus_n2(n):
    vector = torch.nn.functional.normalize(torch.randn(5, dtype=torch.float64), dim=0) * n
    squashed = squash(vector)
    assert float(length(squashed)) == pytest.approx(n**2 / (1 + n**2), rel=1e-3 if n < 0.1 else 1e-7)
    assert_close(squashed / length(squashed), vector / n)


@pytest.mark.parametrize("n", [1e-5, 1e-4, 0.01, 0.1, 1.0])
def test_the_departure_from_the_printed_form_is_as_small_as_is_said(n):
    vector = torch.nn.functional.normalize(torch.randn(5, dtype=torch.float64), dim=0) * n
    missing = n**2 / (1 + n**2) - float(length(squash(vector)))
    assert 0 <= missing <= 5e-9
    if n >= 0.01:
        assert missing / n**2 == pytest.approx(5e-9 / n**2, rel=0.01 + n**2)


def test_zero_vector_stays_zero_and_has_a_finite_gradient():
    vector = torch.zeros(5, requires_grad=True)
    (squash(vector).sum() + length(vector)).backward()
    assert not squash(vector).any()
    assert bool(torch.isfinite(vector.grad).all())


def test_gradient_of_squashing_is_that_of_finite_differences():
    vectors = torch.randn(3, 4, dtype=torch.float64)
    vectors[0] = 0.0
    assert torch.autograd.gradcheck(squash, vectors.requires_grad_())


def test_log_odds_of_a_length_invert_the_sigmoid():
    lengths = torch.rand(7, dtype=torch.float64) * 0.99 + 0.005
    assert_close(length_logit(lengths).sigmoid(), lengths)
