"""Seeds that fall out of a method's others: found, counted, and taken for normal ones no more often than said."""

import numpy as np
import pytest
from scipy import stats

from routebench.statistics import Collapses, collapses
from routebench.statistics._collapses import LEVEL, _critical, _fallen

# The 54 values of Rosner 1983, section 3, of which the procedure takes away 3 at 5 %.
ROSNER = """
-0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77 1.81 1.91 1.94
1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64 2.90 2.92 2.92 2.93 3.21 3.26
3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01
"""


def test_rosners_example_loses_his_values():
    values = np.array([float(word) for word in ROSNER.split()])
    assert sorted(values[_fallen(values, 10, 0.05)]) == [5.34, 5.42, 6.01]
    assert _critical(54, 3, 0.05) == pytest.approx((3.158, 3.151, 3.144), abs=1e-3), "his table"


def test_a_collapse_with_any_t_is_found_with_its_depth():
    entries = [[90.0, 90.2, 89.9, 90.1, 90.0], [91.0, 91.1, 88.0, 90.9, 91.0], [89.0, 89.2, 89.1, 88.9, 89.0]]
    below, above = collapses(entries)
    assert (below.count, below.seeds, above.count) == (1, 15, 0)
    assert below.depth == pytest.approx(3.0, abs=0.1)
    assert below.most == pytest.approx(stats.binomtest(1, 15).proportion_ci(0.90, method="exact").high)
    assert below.cost == pytest.approx(below.most * below.depth)
    mirrored = collapses([[-value for value in entry] for entry in entries])
    assert [one.count for one in mirrored] == [0, 1]


def test_two_collapses_do_not_hide_each_other():
    below, _ = collapses([[90.0, 90.2, 89.9, 90.1, 90.0, 86.0], [91.0, 91.1, 87.0, 90.9, 91.0, 91.2]])
    assert below.count == 2


def test_nothing_seen_costs_nothing_but_leaves_room():
    assert Collapses(0, 5).cost == 0
    assert Collapses(0, 5).most == pytest.approx(1 - 0.05 ** (1 / 5))
    assert Collapses(3, 3, 1.0).most == 1


@pytest.mark.parametrize("entries", [[], [[]], [[1.0, 2.0]], [[5.0] * 4], [[1.0, 2.0, 3.0]]])
def test_too_few_or_equal_values_have_no_collapse(entries):
    assert [one.count for one in collapses(entries)] == [0, 0]


@pytest.mark.parametrize(("count", "steps"), [(5, 1), (10, 1), (5, 3), (10, 3)])
def test_normal_seeds_are_seldom_taken_for_collapses(count, steps):
    random = np.random.default_rng(count)
    runs = 1500
    found = [sum(one.count for one in collapses(random.normal(size=(steps, count)))) > 0 for _ in range(runs)]
    assert np.mean(found) < (2 if steps == 1 else 5) * LEVEL
