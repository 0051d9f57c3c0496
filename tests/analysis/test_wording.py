import math

import pandas as pd
import pytest

from routebench.analysis import wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wording.name_of("em[bias=false]", 3), "em[bias=false] T=3"),
        (wording.name_of("none", None), "none"),
        (wording.name_of("none", pd.NA), "none"),
        (wording.name_of("none", 0), "none"),
        (wording.marked({"name": "uniform", "role": "control"}), "uniform (baseline)"),
        (wording.marked({"name": "em T=3", "label": "em", "role": "method"}, "label"), "em"),
        (
            wording.of_today("Entries and controls with equal and random shares."),
            "Configurations and baselines with uniform and random coupling.",
        ),
        (wording.of_today("An optimiser; uncontrolled."), "An optimizer; uncontrolled."),
        (wording.signed(0.424), "+0.42"),
        (wording.rounded(0.19, math.nan, sign=True), "+0.2"),
        (wording.rounded(0.0071, math.nan, sign=True), "+0.007"),
        (wording.rounded(-0.019, 0.0), "−0.02"),
        (wording.rounded(0.0, math.nan), "0.0"),
        (wording.rounded(1e-9, math.nan), "0.000"),
        (wording.rounded(math.inf, math.nan), "inf"),
        (wording.rounded(250.0, math.nan), "250.0"),
        (wording.rounded(0.0071, 2.0), "0.0"),
        (wording.signed(-0.1), "−0.10"),
        (wording.signed(-0.001), "0.00"),  # not minus nothing
        (wording.probability(0.0004), "< 0.001"),
        (wording.probability(0.031), "0.031"),
        (wording.probability(math.nan), "–"),
        (wording.count(6804224.0), "6,804,224"),
        (wording.seconds(8.26), "8.3"),
        (wording.seconds(1320.0), "1,320"),
        (wording.plural(1, "seed"), "1 seed"),
        (wording.plural(3, "seed"), "3 seeds"),
        (wording.significant(math.inf), "∞"),
        (wording.significant(-math.inf), "−∞"),
        (wording.significant(0.123), "0.12"),
        (wording.listed(["a"]), "a"),
        (wording.listed(["a", "b", "c"]), "a, b and c"),
        (wording.listed(list("abcdefgh")), "a, b, c and 5 more"),
    ],
)
def test_numbers_read_as_expected(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("EM (margin loss), T = 2", ["EM (margin loss), T = 2"]),
        ("Inverted attention (6x6 poses), T = 2", ["Inverted attention (6x6 poses), T = 2"]),
        (
            "EM (final lambda 0.02; types; mass floor 1e-07; mean damping 0.1), T = 1",
            ["EM (final lambda 0.02; types;", "mass floor 1e-07;", "mean damping 0.1), T = 1"],
        ),
        ("x" * 80, ["x" * 80]),
    ],
)
def test_long_names_are_broken_between_hyperparameters(name, lines):
    assert wording.in_lines(name).split("\n") == lines


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.76, 0.18, "0.8"),
        (132, 62, "100"),
        (1234, 20, "1230"),
        (0.0123, 0.001, "0.012"),
        (1.31, 0.2, "1.3"),
        (0.0, 0.1, "0.0"),
        (3.14159, math.nan, "3.1"),
        (-4.9, 2.4, "−5"),
    ],
)
def test_a_number_within_its_error_has_no_digit_that_is_noise(value, error, text):
    assert wording.within(value, error) == text
