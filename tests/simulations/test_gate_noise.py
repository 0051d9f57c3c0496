"""Unchanged code fails in at most one comparison of twenty, however unequal the methods' spreads are."""

import pytest

from tests.simulations.gate_noise import LOSS, MIXES, regressions

COUNT = 60


@pytest.mark.parametrize("mix", ["one ten times the others", "two five times"])
def test_a_noisier_method_is_no_regression(mix):
    """At most 5 % are: of 60 comparisons more than 8 would be so once in 500 times; pooled noise has 12 or more."""
    before, after = regressions(MIXES[mix], 3, (1, 2), COUNT)
    assert after <= 8 / COUNT < before or after < before / 2


def test_equal_spreads_cost_at_most_a_tenth_of_the_power():
    before, after = regressions(MIXES["equal"], 3, (3,), COUNT, LOSS)
    assert before > 0.6
    assert after >= before - 0.1 - 0.1  # the second tenth is three standard errors of a difference of paired shares
