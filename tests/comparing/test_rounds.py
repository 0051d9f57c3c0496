"""How often the verdict on times is right, on simulated rounds with the structure that real ones have."""

from datetime import datetime, timedelta, timezone
from functools import partial

import numpy as np
import pytest

from routebench.analysis import Verdict
from routebench.comparing import Wishes
from routebench.comparing._evidence import changes_by_round
from routebench.comparing._folders import Address, CellPair, MeasuredCell
from routebench.comparing._noise import Noise
from routebench.comparing._series import Group, PairedSeries
from routebench.comparing._verdicts import ALL, judge
from routebench.engine.results import Identity

METHODS = {"dynamic": (1, 2), "em": (1, 2), "inverted-attention": (1, 2), "uniform": (None,), "random": (None,)}
GROUP = Group("cost", "smoke", "mnist5k", "training_cpu_time", "", "yardsticks", higher_is_better=False)
ADDRESS = Address("cost", "smoke", "cost", "", "", None, "capsnet-small", "{}", "mnist5k", 0, "{}")
IDENTITY = Identity(
    suite="cost", suite_version=2, protocol="cost", options={}, method="", method_params={}, routed=True,
    role="method", model="capsnet-small", model_params={}, data="mnist5k", data_fingerprint="", training={}, source="",
    iterations=None, seed=0,
)  # fmt: skip
LOADED, CALM = 0.05, 0.02
"""Standard deviations as measured with seven busy processes on two cores, and with none."""


def pair(number, order=("{0:02d}.0", "{0:02d}.1"), zones=(0, 0)):
    """The two runs of a round; `order` tells when each side ended, `zones` by whose clock its record tells it."""
    ends = [
        datetime.fromtimestamp(1e9 + 3600 * float(when.format(number)), timezone(timedelta(hours=zone)))
        for when, zone in zip(order, zones, strict=True)
    ]
    cells = (MeasuredCell("", "", "ok", "", IDENTITY, 0, {"finished": end.isoformat()}, ()) for end in ends)
    return CellPair(ADDRESS, *cells, "", "")


def measured(rng, rounds, spread, worse):
    """One setting for each method and T. A process has its luck in common, and so has a cell; tails are wide."""
    draw = partial(rng.standard_t, 5)
    luck = spread * draw((rounds, 2))
    for method, steps in METHODS.items():
        for iterations in steps:
            cell = luck + spread * draw((rounds, 2))
            values = np.exp(cell[..., None] + spread * draw((rounds, 2, 2)))  # (round, side, repeat)
            base, head = dict(enumerate(values[:, 0])), dict(enumerate(worse.get(method, 1.0) * values[:, 1]))
            pairs = {number: pair(number) for number in range(rounds)}
            yield PairedSeries(GROUP, method, iterations, "", base, head, pairs)


def said(rng, rounds, spread, **worse):
    settings = list(measured(rng, rounds, spread, worse))
    rows = judge(settings, Noise(settings), Wishes())
    return {row.method for row in rows if row.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)}


@pytest.mark.parametrize(("rounds", "spread"), [(3, CALM), (6, CALM), (8, LOADED)])
def test_unchanged_code_gets_no_row(rounds, spread):
    rng = np.random.default_rng(0)
    false = sum(bool(said(rng, rounds, spread)) for _ in range(60))
    assert false == 0


@pytest.mark.parametrize("slow", ["dynamic", "em", "uniform"])
def test_a_slower_method_is_caught_and_rightly_named(slow):
    rng = np.random.default_rng(1)
    found = [said(rng, 6, CALM, **{slow: 1.3}) for _ in range(20)]
    assert sum(names == {slow} for names in found) >= 19


def test_with_load_more_rounds_are_needed():
    rng = np.random.default_rng(2)
    few, many = ([said(rng, rounds, LOADED, em=1.3) == {"em"} for _ in range(20)] for rounds in (4, 16))
    assert sum(many) >= 19 > sum(few)


def test_a_change_of_all_methods_is_called_so_and_of_most_is_not():
    rng = np.random.default_rng(3)
    assert ALL in said(rng, 8, CALM, **dict.fromkeys(METHODS, 1.3))
    three = said(rng, 8, CALM, dynamic=1.5, em=1.5, uniform=1.5)
    assert three == {"dynamic", "em", "uniform"}


@pytest.mark.parametrize(
    ("order", "rounds"),
    [(("{0:02d}.0", "{0:02d}.1"), 4), (("0.{0:02d}", "1.{0:02d}"), 1), (("{0:02d}.1", "{0:02d}.0"), 4)],
    ids=["in turn", "one after the other", "head first"],
)
@pytest.mark.parametrize("zones", [(0, 0), (0, 5.5), (-8, 1)])
def test_a_round_is_a_turn_of_each_side(order, rounds, zones):
    """Seeds that one side measures before the other side's turn are one value: the drift between is in all of them."""
    base, head = ({number: np.array([value]) for number in range(4)} for value in (1.0, 2.0))
    setting = PairedSeries(GROUP, "em", 1, "", base, head, {number: pair(number, order, zones) for number in range(4)})
    assert changes_by_round(setting) == pytest.approx([np.log(2)] * rounds)
