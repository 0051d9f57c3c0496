"""Holm's correction and rank groups: by hand, against statsmodels, and by simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from routebench import statistics
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


def test_holm_keeps_the_family_wise_error(rng: np.random.Generator) -> None:
    families = rng.uniform(size=(RUNS, 8))
    wrong = np.mean([(statistics.holm(family) < 0.05).any() for family in families])
    assert wrong <= 0.05 + MONTE_CARLO
    assert np.mean((families < 0.05).any(axis=1)) > 0.3  # what no correction would do


def paired_by_seed(values: dict[str, np.ndarray]) -> Callable[[str, str], float]:
    return lambda one, other: statistics.paired_difference(seeds(values[one]), seeds(values[other])).p_value


def test_rank_groups_split_what_differs_and_keep_together_what_does_not() -> None:
    p_values = {
        ("a", "b"): 0.9,
        ("a", "c"): 1e-6,
        ("a", "d"): 1e-6,
        ("b", "c"): 1e-6,
        ("b", "d"): 1e-6,
        ("c", "d"): 0.4,
    }
    groups = statistics.rank_groups(["a", "b", "c", "d"], lambda one, other: p_values[one, other])
    assert groups == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_untestable_pairs_share_a_group_and_no_names_give_no_groups() -> None:
    assert statistics.rank_groups(["a", "b"], lambda one, other: math.nan) == {"a": 1, "b": 1}
    assert statistics.rank_groups(["a"], lambda one, other: math.nan) == {"a": 1}
    assert statistics.rank_groups([], lambda one, other: math.nan) == {}


def test_equal_methods_rarely_leave_the_best_group(rng: np.random.Generator) -> None:
    wrong = 0
    for sample in rng.normal(size=(300, 5, 3)):
        values = {str(name): row for name, row in enumerate(sample)}
        best_first = sorted(values, key=lambda name: -values[name].mean())
        wrong += max(statistics.rank_groups(best_first, paired_by_seed(values)).values()) > 1
    assert wrong / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_a_clearly_worse_method_leaves_the_best_group(rng: np.random.Generator) -> None:
    values = {"good": rng.normal(97, 0.2, 5), "bad": rng.normal(90, 0.2, 5)}
    assert statistics.rank_groups(["good", "bad"], paired_by_seed(values)) == {"good": 1, "bad": 2}


def test_holm_is_statsmodels(rng: np.random.Generator) -> None:
    for family in rng.uniform(size=(3, 12)) ** 3:
        assert statistics.holm(family) == pytest.approx(multipletests(family, method="holm")[1])
