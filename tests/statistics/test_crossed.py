"""Seeds and samples together: in closed form, and by simulation of trained networks, where pooling samples fails."""

import math

import numpy as np
import pytest
from scipy import stats

from routebench import statistics
from tests.statistics.simulation import equal_networks, seeds

RUNS = 300
SPREADS = [(0.3, 1.0), (0.5, 0.0), (0.0, 1.5), (0.0, 0.0)]  # of seeds, of samples; in log odds


def share(found: list[bool]) -> float:
    return float(np.mean(found))


def test_the_variance_is_the_two_way_tables() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.random((4, 50)) < 0.9, rng.random((4, 50)) < 0.6
    d = ours.astype(float) - theirs
    rows, columns = d.mean(axis=1, keepdims=True), d.mean(axis=0, keepdims=True)
    of_seed = 50 * ((rows - d.mean()) ** 2).sum() / 3
    of_sample = 4 * ((columns - d.mean()) ** 2).sum() / 49
    rest = ((d - rows - columns + d.mean()) ** 2).sum() / (3 * 49)
    found = statistics.crossed_difference(ours, theirs)
    error = math.sqrt((of_seed + max(of_sample - rest, 0)) / 200)
    assert found.mean == pytest.approx(d.mean())
    assert found.half_width == pytest.approx(3.182446 * error, rel=1e-6)  # t(0.975, 3)
    assert (found.n, found.kind) == (4, statistics.OVER_BOTH)


@pytest.mark.parametrize("answers", [[[math.nan, 1.0]], [[0.5, 0.1]], [[2, 0]]])
def test_what_is_neither_right_nor_wrong_is_refused(answers: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="expected 1 or 0 for each sample"):
        statistics.crossed_difference(answers, [[0, 1]])


def test_what_cannot_be_said_has_a_kind() -> None:
    right, wrong = np.ones((3, 5), bool), np.zeros((3, 5), bool)
    assert statistics.crossed_difference(right, right).p_value == 1.0
    untestable = statistics.crossed_difference(right, wrong)
    assert math.isnan(untestable.p_value)
    assert untestable.kind == statistics.BOTH_CONSTANT
    assert statistics.crossed_difference(right[:1], wrong[:1]).kind == statistics.OVER_SAMPLES
    assert statistics.crossed_difference(right[:, :0], right[:, :0]).kind == statistics.NO_VALUE
    with pytest.raises(ValueError, match="same samples"):
        statistics.crossed_difference(right, wrong[:2])


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_copies_of_a_sample_are_one_sample(n_seeds: int) -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.random((n_seeds, 60)) < 0.9, rng.random((n_seeds, 60)) < 0.8
    plain = statistics.crossed_difference(ours, theirs)
    copies = [np.repeat(right, 5, axis=1) for right in (ours, theirs)]
    found = statistics.crossed_difference(*copies, views=5)
    assert (found.mean, found.p_value) == (pytest.approx(plain.mean), pytest.approx(plain.p_value))
    assert statistics.crossed_difference(*copies).p_value < plain.p_value
    if n_seeds > 1:
        assert found.half_width == pytest.approx(plain.half_width)
        equal = statistics.crossed_equivalence_p(ours, theirs, 0.3)
        assert statistics.crossed_equivalence_p(*copies, 0.3, views=5) == pytest.approx(equal)
    with pytest.raises(ValueError, match="expected 7 views of each object, got 300 samples"):
        statistics.crossed_difference(*copies, views=7)


def test_views_that_stand_or_fall_together_keep_the_size_as_objects_and_not_as_samples() -> None:
    rng = np.random.default_rng(8)
    as_objects, as_samples = [], []
    for _ in range(RUNS):
        of_object = rng.normal(0, 1.5, (2, 25))  # what each method finds easy differs, and both are as good
        odds = 1.0 + np.repeat(of_object, 40, axis=1)[:, None] + rng.normal(0, 0.2, (2, 3, 1))
        ours, theirs = rng.random((2, 3, 1000)) < 1 / (1 + np.exp(-odds))
        as_objects.append(statistics.crossed_difference(ours, theirs, views=40).p_value < 0.05)
        as_samples.append(statistics.crossed_difference(ours, theirs).p_value < 0.05)
    assert share(as_objects) < 0.08
    assert share(as_samples) > 0.2


@pytest.mark.parametrize(("of_seed", "of_sample"), SPREADS)
def test_the_crossed_test_keeps_its_size_with_3_seeds_and_1000_samples(of_seed: float, of_sample: float) -> None:
    drawn = equal_networks(np.random.default_rng(5), RUNS, 3, 1000, of_seed, of_sample)
    p_values = np.array([statistics.crossed_difference(*pair).p_value for pair in drawn])
    assert np.mean(p_values < 0.05) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / RUNS)
    assert np.mean(p_values < 0.001) <= 0.004  # what Holm's correction asks of it


def test_equivalence_over_both_keeps_its_size_at_the_margin_and_is_shown_where_there_is_no_difference() -> None:
    rng = np.random.default_rng(12)

    def rejected(gain: float) -> float:
        """How often 300 simulated pairs of networks are called equivalent; `gain` is their true difference."""
        found = []
        for _ in range(RUNS):
            hard = rng.normal(0, 0.1, 500)  # of a sample, the same for both
            apart = rng.normal(0, 0.01, (6, 1)) + rng.normal(0, 0.05, 500)  # of a seed, and of a sample
            theirs = rng.random((6, 500)) < 0.7 + hard
            ours = rng.random((6, 500)) < 0.7 + gain + hard + apart
            found.append(statistics.crossed_equivalence_p(ours, theirs, 0.05) < 0.05)
        return share(found)

    assert rejected(0.05) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / RUNS)
    assert rejected(0.0) > 0.5


def test_equivalence_over_both_is_two_one_sided_tests() -> None:
    rng = np.random.default_rng(13)
    ours, theirs = rng.random((4, 60)) < 0.8, rng.random((4, 60)) < 0.75
    found = statistics.crossed_difference(ours, theirs)
    error = found.half_width / stats.t.ppf(0.975, 3)
    plain = max(stats.t.sf((found.mean + 0.2) / error, 3), stats.t.cdf((found.mean - 0.2) / error, 3))
    assert statistics.crossed_equivalence_p(ours, theirs, 0.2) == pytest.approx(plain)
    assert math.isnan(statistics.crossed_equivalence_p(ours[:1], theirs[:1], 0.2))
    assert math.isnan(statistics.crossed_equivalence_p(ours, ours, 0.2))
    with pytest.raises(ValueError, match="above zero"):
        statistics.crossed_equivalence_p(ours, theirs, 0.0)


def test_pooling_samples_over_seeds_finds_differences_that_are_not_there() -> None:
    drawn = equal_networks(np.random.default_rng(6), RUNS, 3, 1000, 0.3, 1.0)
    pooled = [statistics.paired_samples(ours.ravel(), theirs.ravel()).p_value < 0.05 for ours, theirs in drawn]
    by_seed = [
        statistics.paired_difference(seeds(ours.mean(axis=1)), seeds(theirs.mean(axis=1))).p_value < 0.05
        for ours, theirs in drawn
    ]
    assert share(pooled) > 0.2
    assert share(by_seed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)


def test_the_same_networks_on_other_samples_are_what_the_stratified_test_speaks_of() -> None:
    drawn = equal_networks(np.random.default_rng(7), RUNS, 3, 1000, 0.0, 2.0)
    ours = [statistics.paired_samples_of_seeds(*pair).p_value < 0.05 for pair in drawn]
    pooled = [statistics.paired_samples(one.ravel(), other.ravel()).p_value < 0.05 for one, other in drawn]
    assert share(ours) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / RUNS)
    assert share(pooled) > share(ours) + 0.03


def test_power_rises_with_the_effect() -> None:
    rng = np.random.default_rng(8)

    def power(gain: float) -> float:
        drawn = equal_networks(rng, 80, 5, 300, 0.2, 0.3)
        better = drawn[:, 0] | (rng.random(drawn[:, 0].shape) < gain)
        pairs = zip(better, drawn[:, 1], strict=True)
        return share([statistics.crossed_difference(*pair).p_value < 0.05 for pair in pairs])

    small, medium, large = power(0.05), power(0.3), power(0.8)
    assert small < medium < large
    assert large > 0.9


def test_of_two_stages_the_first_gives_the_spread_over_seeds() -> None:
    rng = np.random.default_rng(5)
    ours, theirs = rng.random((2, 8, 300)) < 0.9
    staged, plain = statistics.crossed_difference(ours, theirs, first=3), statistics.crossed_difference(ours, theirs)
    early = 100 * (ours[:3].mean(axis=1) - theirs[:3].mean(axis=1))
    assert staged.mean == plain.mean and staged.half_width != pytest.approx(plain.half_width)
    error = 100 * staged.half_width / stats.t.ppf(0.975, 2)
    assert error**2 >= early.var(ddof=1) / 8 - 1e-12, "the rest is of images"
    assert (
        statistics.crossed_difference(ours, theirs, first=8)
        == plain
        == statistics.crossed_difference(ours, theirs, first=None)
    )
    margin = abs(staged.mean) + 0.01
    expected = stats.t.cdf(-0.01 / (error / 100), 2)
    assert statistics.crossed_equivalence_p(ours, theirs, margin, first=3) == pytest.approx(expected)


def test_a_first_stage_without_spread_says_nothing_of_seeds() -> None:
    rng = np.random.default_rng(5)
    right = rng.random((5, 60)) < 0.7
    ours, theirs = right.copy(), right.copy()
    for seed, wins in enumerate((4, 4, 1, 7, 9)):  # the first two seeds tie
        theirs[seed, np.flatnonzero(right[seed])[:wins]] = False
    staged, plain = statistics.crossed_difference(ours, theirs, first=2), statistics.crossed_difference(ours, theirs)
    assert staged == plain
    assert staged.low < staged.mean < staged.high
