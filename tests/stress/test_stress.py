"""Some kills, and two processes on one folder. `kill.py` and `two.py` do more of it by hand."""

import random
import sys

import pytest

from tests.stress.kill import kill_again_and_again
from tests.stress.scenario import Suite
from tests.stress.two import run_at_once

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks for orphans in /proc")
CELLS = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With what an uninterrupted run leaves."""
    folder = tmp_path_factory.mktemp("stress")
    suite_in(folder).run(folder / "uninterrupted")
    return folder


def suite_in(folder):
    return Suite.quick(folder, seeds=CELLS // 4, seconds=0.15)


def test_nothing_finished_is_lost_by_kills(folder):
    rng = random.Random(0)
    rounds, with_results = kill_again_and_again(suite_in(folder), folder, kills=2, rng=rng, busy=0.8, at_work=1)
    assert (rounds, with_results > 0) == (1, True)


def test_two_processes_run_each_cell_once(folder):
    counts = run_at_once(suite_in(folder), folder)
    assert set(counts.values()) == {1}
    assert len(counts) == CELLS
