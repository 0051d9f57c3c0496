"""Statistics of activity against plain sums, and at the ends of their scales."""

import math

import pytest
import torch
from scipy import stats

from routebench import measures

EVEN, ALONE, SILENT = torch.full((3, 10), 0.4), torch.eye(10)[:3] * 0.7, torch.zeros(3, 10)


@pytest.fixture
def some():
    return torch.rand(50, 12, dtype=torch.float64)


@pytest.mark.parametrize(
    ("measure", "even", "alone"),
    [
        (measures.norm_entropy, 1.0, 0.0),
        (measures.hoyer, 0.0, 1.0),
        (measures.gini, 0.0, 0.9),
        (measures.top_share, 0.1, 1.0),
        (measures.population_sparsity, 0.0, 1.0),
    ],
)
def test_ends_of_the_scale(measure, even, alone):
    for activity, expected in ((EVEN, even), (ALONE, alone), (SILENT, even)):
        assert measure(activity).tolist() == pytest.approx([expected] * 3, abs=1e-6)
    assert measure(torch.rand(4, 1)).isfinite().all()  # one capsule


@pytest.mark.parametrize("measure", [measures.norm_entropy, measures.hoyer, measures.gini, measures.top_share])
def test_scale_and_order_change_nothing(measure, some):
    expected = measure(some)
    assert torch.allclose(measure(7 * some), expected)
    assert torch.allclose(measure(some[:, torch.randperm(12)]), expected)


def test_against_plain_sums(some):
    for row, activity in enumerate(some):
        values = activity.tolist()
        shares = [value / sum(values) for value in values]
        assert measures.norm_entropy(some)[row] == pytest.approx(stats.entropy(shares) / math.log(12))
        norm = math.sqrt(sum(value**2 for value in values))
        expected = (math.sqrt(12) - sum(values) / norm) / (math.sqrt(12) - 1)
        assert measures.hoyer(some)[row] == pytest.approx(expected)
        apart = sum(abs(one - other) for one in values for other in values)
        assert measures.gini(some)[row] == pytest.approx(apart / (2 * 12 * sum(values)))
        mean, square = sum(values) / 12, sum(value**2 for value in values) / 12
        assert measures.population_sparsity(some)[row] == pytest.approx((1 - mean**2 / square) / (1 - 1 / 12))


def test_lifetime_is_population_the_other_way_round(some):
    assert torch.equal(measures.lifetime_sparsity(some), measures.population_sparsity(some.T))


def test_counts_above_a_threshold():
    activity = torch.tensor([[0.05, 0.2, 0.6], [0.1, 0.0, 0.51]])
    assert measures.active(activity, 0.1).tolist() == [2, 1]
    assert measures.dead_share(activity, 0.1) == pytest.approx(1 / 3)
    assert measures.dead_share(activity, 0.9) == 1


def test_the_d_score_is_the_capsule_that_varies_most(some):
    assert measures.spread_over_images(some) == pytest.approx(max(some.numpy().std(axis=0)))
    assert measures.spread_over_images(EVEN) == 0
