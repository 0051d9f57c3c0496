"""Variances drawn towards each other: as limma's squeezeVar has them, and where nothing can be drawn."""

import numpy as np
import pytest
from scipy import special

from routebench.statistics import moderated_variances


def test_equal_variances_are_pooled():
    found, degrees = moderated_variances([1.0, 1.1, 0.9, 1.0], [2, 2, 2, 2])
    assert found == pytest.approx([1.0] * 4)
    assert degrees == pytest.approx([8] * 4)


def test_one_far_from_the_others_keeps_nearly_its_own():
    found, degrees = moderated_variances([100.0, 1.0, 1.2, 0.8, 1.1, 0.9, 1.0], [6] * 7)
    assert 60 < found[0] < 100
    assert (found[1:] < 5).all()
    assert (degrees < 6 + 6).all()


def test_prior_and_posterior_are_smyths():
    own, free = np.array([0.2, 1.5, 9.0, 0.7, 3.0]), np.full(5, 4.0)
    found, degrees = moderated_variances(own, free)
    prior = degrees[0] - 4
    logs = np.log(own) - special.digamma(2) + np.log(2)
    assert special.polygamma(1, prior / 2) == pytest.approx(logs.var(ddof=1) - special.polygamma(1, 2))
    place = np.exp(logs.mean() + special.digamma(prior / 2) - np.log(prior / 2))
    assert found == pytest.approx((prior * place + 4 * own) / (prior + 4))


def test_variances_of_one_prior_are_estimated_better_than_alone():
    rng = np.random.default_rng(0)
    truth = 2.0 / rng.chisquare(6, (200, 8)) * 6
    own = truth * rng.chisquare(2, truth.shape) / 2
    moderated = np.array([moderated_variances(row, [2] * 8)[0] for row in own])
    assert np.square(np.log(moderated / truth)).mean() < 0.4 * np.square(np.log(own / truth)).mean()


def test_values_that_agree_by_chance_and_rows_without_seeds_take_part_in_no_fit():
    found, degrees = moderated_variances([1.0, 1.1, 0.9, 0.0, 0.0], [2, 2, 2, 2, 0])
    assert found == pytest.approx([1.0] * 5)
    assert degrees == pytest.approx([6] * 5)


@pytest.mark.parametrize("own", [[], [4.0], [1.0, 9.0], [0.0, 0.0, 0.0]])
def test_too_few_are_left_as_they_are(own):
    found, degrees = moderated_variances(own, [3] * len(own))
    assert found.tolist() == own
    assert degrees.tolist() == [3] * len(own)
