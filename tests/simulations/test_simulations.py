"""Each simulation, reduced: what it shows with thousands of runs shows with hundreds."""

import math

import numpy as np
import pytest

from routebench.statistics import paired_difference, paired_differences, two_stage_difference
from tests.simulations import collapses, machines, two_stages

RUNS = 500


def error(share, runs):
    return 3 * math.sqrt(share * (1 - share) / runs)


def test_two_stages_cover_whatever_pair_it_is_and_student_does_not():
    found = two_stages.coverage(3, RUNS)
    assert all(staged > 0.95 - error(0.95, RUNS) for _, staged in found.values())
    plain, staged = found["named"]
    assert plain < staged - 0.015, "the fault"


def test_two_stages_in_the_explorer_are_those_of_a_pair():
    random = np.random.default_rng(0)
    values = random.normal(size=(3, 9))
    values[1, 7:] = values[2, 7:] = values[0, 2] = math.nan
    known = [{seed: value for seed, value in enumerate(own) if not math.isnan(value)} for own in values]
    staged, plain = paired_differences(values, first=np.array([4, 4, 0])), paired_differences(values)
    for one, other in ((0, 1), (1, 0), (1, 2)):
        for found, expected in (
            (staged, two_stage_difference(known[one], known[other], 4)),
            (plain, paired_difference(known[one], known[other])),
        ):
            assert [part[one, other] for part in found] == pytest.approx(
                [expected.mean, expected.half_width, expected.n]
            )


def test_runs_without_a_seed_in_common_have_no_difference():
    means, margins, n = paired_differences(np.array([[1.0, 2, math.nan], [math.nan, math.nan, 3]]))
    assert (n[0, 1], math.isnan(means[0, 1]), math.isnan(margins[0, 1])) == (0, True, True)


def test_collapses_elsewhere_take_most_false_verdicts_away():
    plain, judged = collapses.shares_better(collapses.collapsing, collapses.collapsing, 5, 3, RUNS)
    assert plain > 0.3, "the fault"
    assert judged < 0.25


def test_one_t_alone_shows_no_collapse_that_it_did_not_have():
    plain, judged = collapses.shares_better(collapses.collapsing, collapses.collapsing, 5, 1, 200)
    assert judged > 0.8 * plain, "nothing can be known, which docs/uncertainty.md says"


@pytest.mark.parametrize("draw", [collapses.normal, collapses.uneven])
def test_methods_that_do_not_collapse_lose_no_power(draw):
    plain, judged = collapses.shares_better(draw, collapses.normal, 5, 3, RUNS)
    assert judged > 0.98 * plain > 0.7


def test_gains_over_the_baseline_compare_machines_and_accuracies_do_not():
    runs = 400
    found = {way: machines.row("0.3 points", 10, way, runs) for way in machines.WAYS}
    assert found["gains"]["covers"] > 100 * (0.95 - error(0.95, 2 * runs))
    assert found["gains"]["false alarms"] < 100 * (0.05 + error(0.05, runs))
    assert min(found[way]["false alarms"] for way in ("paired", "Welch")) > 20, "the fault"


def test_machines_that_are_alike_are_refused_once_in_a_hundred():
    found = machines.row("rounding", 10, "gains", RUNS)
    assert found["refused"] < 100 * (0.01 + error(0.01, 2 * RUNS))
    assert found[f"finds {machines.BETTER}"] > 80


def test_a_clone_of_uniform_routing_is_called_better_no_more_often_than_it_may():
    better, worse = machines.clones(RUNS)
    assert better < 100 * (0.025 + error(0.025, RUNS)) and worse < 100 * (0.025 + error(0.025, RUNS))
