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


@pytest.mark.parametrize("size", [0.0, 1e-4, 1.0, 300.0, 6e4])
def test_squashing_in_half_precision_is_finite_for_all_that_it_holds(size):
    vector = torch.tensor([size, 0.0], dtype=torch.float16, requires_grad=True)
    squashed = squash(vector)
    squashed.sum().backward()
    assert squashed.dtype == torch.float16 and vector.grad.isfinite().all()
    assert_close(squashed.double(), squash(vector.detach().double()), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_of_lengths_are_finite_in_every_type(dtype):
    lengths = torch.tensor([0.0, 1e-7, 0.5, 0.999, 1 - 1e-7, 1.0], dtype=dtype)
    found = length_logit(lengths)
    assert found.dtype == dtype and found.isfinite().all() and found[2] == 0
