"""Holm's correction and intervals for ranks: by hand, against statsmodels, and by simulation."""

import math
from itertools import combinations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from routebench import statistics
from routebench.statistics import holm
from tests.statistics.simulation import MONTE_CARLO, RUNS, seeds


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_holm_on_the_worked_example() -> None:
    # m = 4, sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 -> made monotone
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_untestable_comparisons_out_of_the_family() -> None:
    adjusted = statistics.holm([0.02, math.nan, 0.5])
    assert adjusted[0] == pytest.approx(0.04)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == 0.5
    assert statistics.holm([]).size == 0
    with pytest.raises(ValueError, match="p-values"):
        statistics.holm([1.2])


def test_holm_counts_tests_that_could_not_be_made_where_it_is_told() -> None:
    raw = [0.01, math.nan, 0.04]
    assert holm(raw, 3) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)
    assert holm(raw) == pytest.approx([0.02, math.nan, 0.04], nan_ok=True)
    with pytest.raises(ValueError, match="a family of 2 tests or more, got 1"):
        holm(raw, 1)


def test_holm_keeps_the_family_wise_error(rng: np.random.Generator) -> None:
    families = rng.uniform(size=(RUNS, 8))
    wrong = np.mean([(statistics.holm(family) < 0.05).any() for family in families])
    assert wrong <= 0.05 + MONTE_CARLO
    assert np.mean((families < 0.05).any(axis=1)) > 0.3  # what no correction would do


def ranks_of(values: dict[str, np.ndarray]) -> dict[str, tuple[int, int]]:
    best_first = sorted(values, key=lambda name: -values[name].mean())
    pairs = [*combinations(best_first, 2)]
    p_values = [statistics.paired_difference(seeds(values[one]), seeds(values[other])).p_value for one, other in pairs]
    return statistics.rank_intervals(best_first, dict(zip(pairs, statistics.holm(p_values), strict=True)))


def test_ranks_split_what_differs_and_keep_together_what_does_not() -> None:
    p_values = {
        ("a", "b"): 0.9,
        ("a", "c"): 1e-6,
        ("a", "d"): 1e-6,
        ("b", "c"): 0.2,
        ("b", "d"): 1e-6,
        ("c", "d"): 0.4,
    }
    ranks = statistics.rank_intervals(["a", "b", "c", "d"], p_values)
    assert ranks == {"a": (1, 2), "b": (1, 3), "c": (2, 4), "d": (3, 4)}


def test_a_pair_without_a_test_separates_nothing_and_no_names_have_no_ranks() -> None:
    assert statistics.rank_intervals(["a", "b"], {("a", "b"): math.nan}) == {"a": (1, 2), "b": (1, 2)}
    assert statistics.rank_intervals(["a", "b"], {}) == {"a": (1, 2), "b": (1, 2)}
    assert statistics.rank_intervals(["a"], {}) == {"a": (1, 1)}
    assert statistics.rank_intervals([], {}) == {}


@pytest.mark.parametrize(
    "true", [(0, 0, 0, 0, 0), (0, 1, 2, 3, 4), (0, 0, 0, 2, 2)], ids=["equal", "a line", "two sets"]
)
def test_all_true_ranks_lie_in_their_intervals(rng: np.random.Generator, true: tuple[int, ...]) -> None:
    wrong = 0
    for sample in rng.normal(size=(300, 5, 4)):
        values = {str(name): row + mean for name, (row, mean) in enumerate(zip(sample, true, strict=True))}
        wrong += any(
            low > 1 + sum(other > own for other in true) or high < sum(other >= own for other in true)
            for own, (low, high) in ((true[int(name)], ends) for name, ends in ranks_of(values).items())
        )
    assert wrong / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_a_clearly_worse_method_is_second(rng: np.random.Generator) -> None:
    values = {"good": rng.normal(97, 0.2, 5), "bad": rng.normal(90, 0.2, 5)}
    assert ranks_of(values) == {"good": (1, 1), "bad": (2, 2)}


def test_holm_is_statsmodels(rng: np.random.Generator) -> None:
    for family in rng.uniform(size=(3, 12)) ** 3:
        assert statistics.holm(family) == pytest.approx(multipletests(family, method="holm")[1])
