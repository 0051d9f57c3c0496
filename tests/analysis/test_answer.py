"""The first sentence of a suite says its decisions: who is better or worse than uniform routing on the same network."""

from dataclasses import replace

import pytest

from routebench.analysis import Estimate, Main, Method, answer_of
from tests.analysis.made_up_runs import made_up_runs

GOOD = Estimate(5.0, 4.0, 6.0, 3, p=0.001, p_holm=0.01)
OPEN = Estimate(1.0, -1.0, 3.0, 3, p=0.3, p_holm=0.6)
UNTESTED = Estimate(5.0)
DYNAMIC, EM, CNN = (
    Method.of("dynamic", 3, "capsnet-small"),
    Method.of("em", 3, "capsnet-small"),
    Method.of("cnn", None, "cnn-small", "control"),
)


def answer(gains, *, higher=True, both=None):
    main = Main("x", "X", "%", higher_is_better=higher, gains=gains, both=both or {})
    return answer_of(main, made_up_runs(failures=False))


@pytest.mark.parametrize(
    ("gains", "higher", "told"),
    [
        ({DYNAMIC: GOOD, EM: OPEN}, True, "Better than uniform routing (X): Dynamic, T = 3."),
        ({DYNAMIC: GOOD, EM: -GOOD}, True, "Better than uniform routing (X): Dynamic, T = 3. Worse: EM, T = 3."),
        ({DYNAMIC: GOOD, EM: OPEN}, False,
         "No method is shown to be better than uniform routing (X). Worse: Dynamic, T = 3."),
        ({DYNAMIC: OPEN}, True, "No method is shown to be better than uniform routing (X)."),
        ({DYNAMIC: UNTESTED}, True, "No method could be tested against uniform routing (X)."),
        ({DYNAMIC: UNTESTED, EM: OPEN}, True, "No method is shown to be better than uniform routing (X)."),
        ({DYNAMIC: GOOD}, None, ""),
        ({}, True, ""),
    ],
)  # fmt: skip
def test_it_is_the_decisions_in_the_direction_of_the_measure(gains, higher, told):
    assert answer(gains, higher=higher) == told


def test_baselines_and_methods_on_another_network_are_no_answer():
    elsewhere = replace(EM, model="another")
    assert answer({CNN: GOOD, elsewhere: GOOD}) == ""
    assert answer({CNN: GOOD, elsewhere: GOOD, DYNAMIC: OPEN}) == (
        "No method is shown to be better than uniform routing (X)."
    )


@pytest.mark.parametrize(
    ("both", "told"),
    [
        ({DYNAMIC: GOOD, EM: -GOOD}, "all of these"),
        ({DYNAMIC: GOOD, EM: OPEN}, "Dynamic, T = 3"),
        ({DYNAMIC: OPEN, EM: OPEN}, "none of these"),
    ],
)
def test_it_says_what_stands_with_other_images_too(both, told):
    assert answer({DYNAMIC: GOOD, EM: -GOOD}, both=both).endswith(f" With other test images too: {told}.")
