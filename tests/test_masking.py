"""Verdicts say what fired, and why it matters."""

import pytest

from routebench.analysis.attacked import verdict_on
from routebench.masking import CHECKS, suspicions


def test_nothing_fired_is_believable():
    assert verdict_on([]) == "believable"
    assert verdict_on(["training-loss", "small-gradients"]) == "believable"


def test_reasons_stand_in_the_order_of_the_checks():
    assert verdict_on(["reach", "stochastic"]) == "suspect: the network is random; images survive an unlimited attack"
    assert suspicions(["reach", "training-loss", "stochastic"]) == ["stochastic", "reach"]


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_fires_on_one_side_of_its_limit(name):
    check = CHECKS[name]
    more, less = check.limit + 1e-6, check.limit - 1e-6
    assert check.fires(less if check.below else more)
    assert not check.fires(more if check.below else less)
    assert not check.fires(check.limit)
    assert check.question.count("?") == 1
