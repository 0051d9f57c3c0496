"""What is given for numbers and switches: what passes, and the line for what does not."""

import math

import pytest

from routebench.generative.expected import (
    expect_above,
    expect_at_least,
    expect_counts,
    expect_share,
    expect_switches,
)


def test_what_is_expected_passes():
    expect_counts(parts=1, objects=16)
    expect_at_least(0, iterations=0)
    expect_at_least(0.0, noise=0, floor=0.5)
    expect_above(0, gain=1, sigma=0.1)
    expect_share(warm_up=0, delta_until=1.0)
    expect_switches(bias=True, full=False)


@pytest.mark.parametrize(
    ("check", "wrong", "message"),
    [
        (expect_counts, [0, -1, 2.5, True, "3", None], "x must be an integer of at least 1, got "),
        (lambda x: expect_at_least(0.5, x=x), [0.4, math.nan, "1", None], "x must be a number of at least 0.5, got "),
        (
            lambda x: expect_above(0, x=x),
            [0, -1.0, math.nan, math.inf, True, "0.1"],
            "x must be a number above 0, got ",
        ),
        (expect_share, [-0.1, 2, math.nan, False, "0.1"], "x must be a share from 0 to 1, got "),
    ],
)
def test_what_is_not_expected_is_told_in_one_line(check, wrong, message):
    for value in wrong:
        with pytest.raises(ValueError, match=message) as caught:
            check(x=value)
        assert str(caught.value) == message + repr(value)


def test_a_word_is_no_switch():
    with pytest.raises(TypeError, match="accumulate must be true or false, got 'no'"):
        expect_switches(bias=True, accumulate="no")
