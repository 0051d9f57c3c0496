"""Several tasks in one number, and the best of several trials."""

import itertools

import numpy as np
import pytest
from scipy import stats

from routebench.statistics import (
    NO_VALUE,
    OVER_STRATA,
    TOO_FEW_RUNS,
    expected_best,
    interquartile_mean_over_tasks,
    performance_profile,
    probability_of_improvement,
    stable_from,
)

TASKS = [
    np.array([0.1, 0.4, 0.2, 0.9, 0.3]),
    np.array([-0.2, 0.0, 0.3, 0.1, 0.2]),
    np.array([1.0, 1.2, 0.8, 1.1, 0.7, 0.9]),
]
OTHERS = [np.array([0.0, 0.3, 0.5, 0.1, 0.4]), np.array([0.2, 0.1, 0.3, 0.0, 0.1]), np.array([0.5, 0.9, 0.6, 0.8, 0.7])]


def test_limits_are_those_of_scipy_where_runs_are_drawn_within_tasks():
    tasks = [task[:5] for task in TASKS]  # as many runs of each, as in the paper
    found = interquartile_mean_over_tasks(tasks)
    assert found.kind == OVER_STRATA
    assert found.mean == pytest.approx(stats.trim_mean(np.concatenate(tasks), 0.25))
    theirs = stats.bootstrap(
        tasks,
        lambda *drawn: stats.trim_mean(np.concatenate(drawn), 0.25),
        vectorized=False,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(5),
    )
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.03)


def test_a_task_with_more_runs_counts_no_more():
    often, seldom = np.repeat([0.1, 0.3], 20), np.array([5.0, 5.1, 5.2, 5.3, 5.4])
    found = interquartile_mean_over_tasks([often, seldom])
    assert found.mean == pytest.approx(stats.trim_mean([*often, *np.repeat(seldom, 8)], 0.25))
    assert found.mean > 1


def test_many_tasks_of_unequal_numbers_of_runs_need_no_memory_for_their_least_common_multiple():
    random = np.random.default_rng(0)
    tasks = [random.normal(size=runs) for runs in (7, 8, 9, 11, 97, 89, 83)]
    found = interquartile_mean_over_tasks(tasks)
    few = [task[:5] for task in tasks[:3]] + [tasks[3][:10]]
    repeated = np.concatenate([np.repeat(task, 10 // task.size) for task in few])
    assert interquartile_mean_over_tasks(few).mean == pytest.approx(stats.trim_mean(repeated, 0.25), abs=1e-12)
    assert found.low < found.mean < found.high


@pytest.mark.parametrize("runs", [1, 4])
def test_few_runs_of_a_task_have_no_limits(runs):
    few = [TASKS[0], TASKS[1][:runs]]
    for found in (interquartile_mean_over_tasks(few), probability_of_improvement(few, [OTHERS[0], OTHERS[1]])):
        assert found.kind == TOO_FEW_RUNS
        assert np.isfinite(found.mean) and np.isnan([found.low, found.high]).all()


def test_probability_of_improvement_is_mann_whitney_over_tasks():
    found = probability_of_improvement(TASKS, OTHERS)
    each = [
        stats.mannwhitneyu(ours, theirs).statistic / (len(ours) * len(theirs))
        for ours, theirs in zip(TASKS, OTHERS, strict=True)
    ]
    assert found.mean == pytest.approx(np.mean(each))

    def statistic(*drawn):
        pairs = zip(drawn[::2], drawn[1::2], strict=True)
        return np.mean([stats.mannwhitneyu(one, two).statistic / (len(one) * len(two)) for one, two in pairs])

    interleaved = list(itertools.chain.from_iterable(zip(TASKS, OTHERS, strict=True)))
    theirs = stats.bootstrap(
        interleaved, statistic, vectorized=False, method="percentile", n_resamples=600, rng=np.random.default_rng(5)
    )
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.04)


def test_profiles_fall_from_all_runs_to_none():
    found = performance_profile(TASKS, [-1.0, 0.25, 2.0])
    shares = [np.mean(task > 0.25) for task in TASKS]
    assert found.tolist() == pytest.approx([1.0, np.mean(shares), 0.0])
    with pytest.raises(ValueError, match="one task"):
        performance_profile([], [0.0])


def test_a_task_without_runs_has_no_summary():
    assert interquartile_mean_over_tasks([TASKS[0], []]).kind == NO_VALUE


def test_expected_best_is_the_mean_over_all_draws():
    scores = [0.3, 0.9, 0.5, 0.5]
    found = expected_best(scores)
    for budget in range(1, 5):
        every = [max(drawn) for drawn in itertools.product(scores, repeat=budget)]
        assert found[budget - 1] == pytest.approx(np.mean(every))
    assert (np.diff(found) >= 0).all() and found[0] == pytest.approx(np.mean(scores))


def test_the_order_is_stable_from_the_last_change_on():
    assert stable_from([[1, 2, 3], [2, 1, 1]]) == 2
    assert stable_from([[2, 2, 3], [1, 1, 1]]) == 1
    assert stable_from([[1, 3, 1], [2, 2, 2]]) == 3
