"""The von Mises-Fisher distribution against arithmetic of 40 digits, over dimensions 2 to 1024 and twelve decades."""

import math

import mpmath
import numpy as np
import pytest
import torch

from routebench.ops import von_mises_fisher as vmf

DIMENSIONS = (2, 3, 4, 7, 8, 17, 18, 20, 32, 65, 66, 67, 68, 128, 333, 1023, 1024)  # 66 is where recurrence ends
KAPPAS = np.concatenate([10.0 ** np.arange(-6, 7), [0.3, 3.0, 30.0, 500.0, 3e4]])
TOLERANCES = {torch.float64: (1e-12, 1e-14, 1e-8), torch.float32: (1.2e-7, 1.2e-7, 1e-6)}


def exact(kappa, dimension):
    """log C, A and its derivative, with 40 digits."""
    with mpmath.workdps(40):
        x, order = mpmath.mpf(kappa), mpmath.mpf(dimension) / 2 - 1
        first, second, third = (mpmath.besseli(order + k, x) for k in range(3))
        constant = order * mpmath.log(x) - (order + 1) * mpmath.log(2 * mpmath.pi) - mpmath.log(first)
        ratio = second / first
        slope = (third + (order + 1) / x * second) / first - ratio * (ratio + order / x)
        return constant, ratio, slope


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_constant_and_two_derivatives_over_the_grid(dtype):
    of_value, of_slope, of_second = TOLERANCES[dtype]
    kappa = torch.tensor(KAPPAS, dtype=dtype, requires_grad=True)
    for dimension in DIMENSIONS:
        value = vmf.log_constant(kappa, dimension)
        (slope,) = torch.autograd.grad(value.sum(), kappa, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), kappa)
        assert value.dtype == slope.dtype == dtype
        found = (values.detach().tolist() for values in (kappa, value, slope, second))
        for k, v, s, t in zip(*found, strict=True):
            constant, ratio, curvature = exact(k, dimension)
            assert abs(v - constant) <= of_value * max(1, abs(constant)), (dimension, k)  # absolute where it is small
            assert abs(s + ratio) <= of_slope * ratio, (dimension, k)
            assert abs(t + curvature) <= of_second * curvature, (dimension, k)


@pytest.mark.parametrize("dimension", [2, 3, 20, 1024])
def test_density_at_the_mean_keeps_its_digits_and_gradient(dimension):
    kappa = torch.tensor([1e-6, 1.0, 1e3, 1e6], dtype=torch.float64, requires_grad=True)
    value = vmf.log_peak(kappa, dimension)
    (slope,) = torch.autograd.grad(value.sum(), kappa)
    for k, v, s in zip(*(values.detach().tolist() for values in (kappa, value, slope)), strict=True):
        constant, ratio, _ = exact(k, dimension)
        with mpmath.workdps(40):
            assert abs(v - (constant + mpmath.mpf(k))) <= 1e-12 * max(1, abs(constant + k))
            assert abs(s - (1 - ratio)) <= 1e-14


def test_gradients_are_those_of_finite_differences():
    kappa = torch.tensor([0.0, 0.7, 40.0], dtype=torch.float64)[1:].requires_grad_()
    for function in (vmf.log_constant, vmf.log_peak, vmf.resultant_length):
        assert torch.autograd.gradcheck(lambda k, f=function: f(k, 5), kappa)
        assert torch.autograd.gradgradcheck(lambda k, f=function: f(k, 5), kappa)
    points = torch.nn.functional.normalize(torch.randn(2, 5, dtype=torch.float64), dim=1).requires_grad_()
    mean = torch.nn.functional.normalize(torch.randn(2, 5, dtype=torch.float64), dim=1).requires_grad_()
    assert torch.autograd.gradcheck(vmf.log_density, (points, mean, kappa))


def test_three_dimensions_have_a_closed_form():
    kappa = torch.tensor([[1e-3, 0.5], [2.0, 50.0]], dtype=torch.float64)
    closed = (kappa / (4 * math.pi * kappa.sinh())).log()
    assert vmf.log_constant(kappa, 3).shape == (2, 2)
    torch.testing.assert_close(vmf.log_constant(kappa, 3), closed, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(vmf.resultant_length(kappa, 3), 1 / kappa.tanh() - 1 / kappa, rtol=1e-9, atol=0)


@pytest.mark.parametrize("kappa", [0.0, 1e-6, 0.8, 30.0, 1e4])
def test_density_integrates_to_one_on_the_circle(kappa):
    angles = torch.arange(20_000, dtype=torch.float64) * (2 * math.pi / 20_000)
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    mean = torch.tensor([0.6, 0.8], dtype=torch.float64).expand_as(points)
    density = vmf.log_density(points, mean, torch.full((20_000,), kappa, dtype=torch.float64)).exp()
    assert float(density.sum()) * 2 * math.pi / 20_000 == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("dimension", [2, 3, 10, 400])
def test_without_concentration_it_is_uniform(dimension):
    kappa = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    value = vmf.log_constant(kappa, dimension)
    area = math.log(2) + dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2)  # of the unit sphere
    assert value.item() == pytest.approx(-area, rel=1e-13)
    (slope,) = torch.autograd.grad(value, kappa)
    assert float(slope) == 0


def test_equal_concentrations_give_cosine_attention():
    points = torch.nn.functional.normalize(torch.randn(4, 1, 6, dtype=torch.float64), dim=-1)
    means = torch.nn.functional.normalize(torch.randn(4, 9, 6, dtype=torch.float64), dim=-1)
    cosine = (points * means).sum(dim=-1)
    found = vmf.log_density(points.expand_as(means), means, torch.full((4, 9), 3.0, dtype=torch.float64)).softmax(dim=1)
    torch.testing.assert_close(found, (3 * cosine).softmax(dim=1))


@pytest.mark.parametrize(
    ("dimension", "kappa"),
    [(2, 0.0), (2, 1e-6), (2, 1.5), (2, 1e6), (3, 10.0), (8, 1e-6), (16, 5.0), (16, 1e4), (300, 80.0), (1024, 1e6)],
)
def test_samples_have_the_mean_and_spread_of_the_distribution(dimension, kappa):
    count = 20_000 if dimension < 100 else 1000
    mean = torch.nn.functional.normalize(torch.randn(dimension, dtype=torch.float64), dim=0)
    concentration = torch.full((count,), kappa, dtype=torch.float64)
    drawn = vmf.sample(mean.expand(count, -1), concentration, torch.Generator().manual_seed(3))
    torch.testing.assert_close(torch.linalg.vector_norm(drawn, dim=1), torch.ones(count, dtype=torch.float64))
    cosine = drawn @ mean
    expected = float(vmf.resultant_length(concentration[0], dimension))
    deviation = float(cosine.std()) / count**0.5
    assert float(cosine.mean()) == pytest.approx(expected, abs=4.5 * deviation)
    one_minus = 0.5 * (drawn - mean).square().sum(dim=1)  # the digits that the cosine loses
    assert float(one_minus.mean()) == pytest.approx(1 - expected, abs=4.5 * float(one_minus.std()) / count**0.5)
    across = drawn.mean(dim=0) - cosine.mean() * mean  # all that is not along the mean direction is symmetric
    spread = float((1 - cosine.square()).mean()) / count  # variance of `across`, all elements together
    assert float(across.square().sum()) <= spread * (1 + 6 * (2 / (dimension - 1)) ** 0.5)


def test_cosines_on_the_circle_follow_the_density():
    count, kappa = 40_000, 2.0
    mean = torch.tensor([1.0, 0.0], dtype=torch.float64)
    drawn = vmf.sample(mean.expand(count, 2), torch.full((count,), kappa), torch.Generator().manual_seed(0))
    angles = torch.atan2(drawn[:, 1], drawn[:, 0])
    found = torch.histc(angles, 12, -math.pi, math.pi) / count
    grid = (torch.arange(12_000, dtype=torch.float64) + 0.5) / 12_000 * 2 * math.pi - math.pi
    density = (kappa * grid.cos()).exp() / (2 * math.pi * torch.special.i0(torch.tensor(kappa, dtype=torch.float64)))
    expected = density.reshape(12, 1000).mean(dim=1) * 2 * math.pi / 12
    chi_squared = float((count * (found - expected).square() / expected).sum())
    assert chi_squared < 33  # 11 degrees of freedom: 0.05 %


def test_the_generator_decides_the_samples_of_any_batch_shape():
    mean = torch.nn.functional.normalize(torch.randn(2, 3, 5), dim=-1)
    kappa = torch.tensor([[0.1, 1.0, 10.0], [1e2, 1e4, 1e6]])
    one, same, other = (vmf.sample(mean, kappa, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert one.shape == (2, 3, 5) and one.dtype == torch.float32
    assert one.equal(same) and not one.equal(other)
    assert float((one[1, 2] - mean[1, 2]).norm()) < 0.01 < float((one[0, 0] - mean[0, 0]).norm())


def test_one_dimension_is_refused():
    with pytest.raises(ValueError, match="at least 2 elements, got 1"):
        vmf.log_constant(torch.ones(1), 1)


def test_samples_of_concentrations_without_a_distribution():
    mean = torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.6, 0.8]], dtype=torch.float64)
    found = vmf.sample(mean, torch.tensor([math.inf, math.nan, 1.0]))
    torch.testing.assert_close(found[0], mean[0])
    assert found[1].isnan().all() and found[2].isfinite().all()
    with pytest.raises(ValueError, match="expected concentrations of 0 or more, got -1"):
        vmf.sample(mean, torch.tensor([1.0, -1.0, 1.0]))
