"""Which cell is next, how long it will take, and when no more is begun."""

import time
from dataclasses import replace
from itertools import count

import pytest
import torch

from routebench.engine.running import Queue, RunConfig, _steps
from routebench.engine.running._cell import make_record
from routebench.engine.running._queue import TAIL, most_informative_first
from routebench.engine.running._times import Times
from routebench.engine.suites import Choices, load_suite, plan
from routebench.protocols import FitRequest, Measurement
from routebench.recipe import Recipe
from tests.command import Command
from tests.engine.conftest import PARTS


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


def names(cells):
    return [(cell.label, cell.identity.iterations, cell.identity.seed) for cell in cells]


def test_every_method_once_before_any_twice(parts, suite_file):
    made = plan(load_suite(str(suite_file(seeds=2))), "quick", Choices())
    first = [("dynamic", 2, 0), ("uniform", None, 0), ("random", None, 0)]  # dynamic's default is 3: 2 is the nearest
    then = [("dynamic", 2, 1), ("uniform", None, 1), ("random", None, 1)]
    assert names(most_informative_first(reversed(made.cells)))[:3] == [first[0], *reversed(first[1:])]
    assert names(most_informative_first(made.cells)) == [*first, *then, ("dynamic", 1, 0), ("dynamic", 1, 1)]


def test_expected_time_is_that_of_the_nearest_kind(made):
    times = Times()
    cells = dict(zip(names(made.cells), made.cells, strict=True))
    one, two, other = cells["dynamic", 1, 0], cells["dynamic", 1, 1], cells["dynamic", 2, 0]
    assert times.expected(one.identity) is None
    assert times.total([one.identity]) is None
    times.add(one.identity, 10.0)
    assert times.expected(two.identity) == 10.0  # another seed
    assert times.expected(other.identity) == 10.0  # another number of iterations, for want of better
    times.add(other.identity, 30.0)
    assert times.expected(two.identity) == 10.0
    assert times.expected(cells["uniform", None, 0].identity) == 20.0  # the mean of other methods
    assert times.total([two.identity, other.identity]) == 40.0
    assert times.total([two.identity, other.identity, two.identity], jobs=2) == 30.0
    assert times.total([two.identity], jobs=2) == 10.0  # one cell is not shared out


def test_what_is_foretold_stands_behind_what_the_method_took_and_before_other_methods(made):
    times = Times()
    cells = dict(zip(names(made.cells), made.cells, strict=True))
    one, other, uniform = (
        cells[name].identity for name in (("dynamic", 1, 0), ("dynamic", 2, 0), ("uniform", None, 0))
    )
    times.foretell(one, 7.0)
    assert [times.expected(cell) for cell in (one, other, uniform)] == [7.0, 7.0, 7.0]
    assert (times.knows(one), times.knows(other)) == (True, False)
    times.add(uniform, 3.0)
    assert [times.expected(cell) for cell in (one, other, uniform)] == [7.0, 7.0, 3.0]
    times.add(other, 20.0)
    assert [times.expected(cell) for cell in (one, other, uniform)] == [20.0, 20.0, 3.0]


@pytest.mark.parametrize(("train_on", "seen"), [("train", 3600 + 400 / 3), ("all", 4000)])
def test_training_is_foretold_by_images_of_all_epochs(monkeypatch, train_on, seen):
    recipe = Recipe(epochs=5, batch_size=4, train_on=train_on)
    monkeypatch.setattr(_steps.time, "perf_counter", count(step=2).__next__)  # every step of 4 images takes 2 seconds
    request = FitRequest("capsnet-small", "mnist5k", recipe, 0, method="uniform")
    assert _steps.seconds_of(request, torch.device("cpu")) == pytest.approx(5 * seen * 2 / 4)


@pytest.mark.parametrize(("seconds", "images"), [(0.2, 32), (3.0, 16)])
def test_a_whole_batch_is_measured_if_it_is_short(monkeypatch, seconds, images):
    recipe = Recipe(epochs=1, batch_size=32, train_on="all")
    monkeypatch.setattr(_steps.time, "perf_counter", count(step=seconds).__next__)
    request = FitRequest("capsnet-small", "mnist5k", recipe, 0, method="uniform")
    assert _steps.seconds_of(request, torch.device("cpu")) == pytest.approx(4000 * seconds / images)


def test_every_fit_of_a_cell_is_foretold(monkeypatch):
    monkeypatch.setattr(_steps, "seconds_of", lambda request, device: 100.0 if request.data == "mnist5k" else 1.0)
    config, found = RunConfig("cpu", jobs=1, threads=1), {}
    for preset in ("smoke", "rotated", "affine"):
        times, cell = Times(), plan(load_suite("smith-probes"), preset, Choices()).cells[0]
        _steps.foretell([cell], times, config, until=time.monotonic() + 60)
        found[preset] = times.expected(cell.identity)
    assert found == {"smoke": 100.0, "rotated": 200.0, "affine": 101.0}


def test_nothing_is_foretold_of_code_of_others_or_when_time_is_up(made):
    config = RunConfig("cpu", jobs=1, threads=1)
    for cells, until in (
        (made.cells, time.monotonic() + 60),
        (plan(load_suite("overlap"), "smoke", Choices()).cells, 0.0),
    ):
        times = Times()
        _steps.foretell(cells, times, config, until=until)
        assert not times.is_foretold


def queue_of(made, budget, seconds):
    clock, times = Clock(), Times()
    for cell in made.cells:
        times.add(cell.identity, seconds(cell))
    return Queue(made.cells, times, budget, clock), clock


def test_a_budget_begins_nothing_that_would_end_too_late(made):
    queue, clock = queue_of(made, 25.0, lambda _: 10.0)
    assert len(queue.within_budget(1)) == 2
    assert len(queue.within_budget(2)) == 4
    taken = []
    while (cell := queue.take()) is not None:
        taken.append(cell)
        clock.now += 10.0
    assert taken == list(made.cells[:2])
    assert queue.left == list(made.cells[2:])


def test_a_cell_that_does_not_fit_is_passed_over_for_one_that_does(made):
    queue, _ = queue_of(made, 5.0, lambda cell: 10.0 if cell.identity.method == "dynamic" else 1.0)
    assert queue.take().label != "dynamic"


def test_a_cell_of_unknown_length_is_begun_while_there_is_time(made):
    clock = Clock()
    queue = Queue(made.cells, Times(), 5.0, clock)
    assert queue.take() == made.cells[0]
    clock.now = 5.0
    assert queue.take() is None


def test_a_queue_learns_from_records(made):
    queue = Queue(made.cells, Times(), 100.0, Clock())
    cell = queue.take()
    record = make_record(cell, "failed", "it broke", Measurement([]), {"seconds": 1.0})
    queue.learn(record)
    assert not queue.times
    queue.learn(replace(record, status="ok", provenance={"seconds": 7.0}))
    assert queue.times.expected(cell.identity) == 7.0


def test_without_a_budget_everything_is_taken_and_what_is_put_back_comes_last(made):
    queue = Queue(made.cells)
    first = queue.take()
    queue.put_back([first])
    taken = []
    while (cell := queue.take()) is not None:
        taken.append(cell)
    assert taken == [*made.cells[1:], first]


def test_the_last_cells_of_several_places_start_with_the_longest(made):
    queue, _ = queue_of(made, None, lambda cell: float(cell.identity.iterations or 9))
    queue.left = 3 * list(made.cells)
    assert len(made.cells) == TAIL * 2
    assert [queue.take(2) for _ in range(16)] == 2 * list(made.cells)
    tail = [queue.times.expected(queue.take(2).identity) for _ in range(8)]
    assert tail == sorted(tail, reverse=True)
    assert tail != [queue.times.expected(cell.identity) for cell in made.cells]


def test_one_place_keeps_the_order(made):
    queue, _ = queue_of(made, None, lambda cell: float(cell.identity.iterations or 9))
    assert [queue.take() for _ in made.cells] == list(made.cells)


def test_the_budget_of_a_suite_says_what_it_left(suite_file, tmp_path, capfd):
    call, file = Command(tmp_path, capfd), suite_file(more="seconds = 0.6")
    command = ("suite", file, "--plugin", PARTS, "--jobs", 2, "--results", tmp_path / "r", "--budget")
    done = call(*command, "1s")
    assert done.code == 3, done.error  # nobody is to take it for a whole table
    assert "the budget left" in done.out
    count = len(list((tmp_path / "r" / "records").glob("*.json")))
    assert 0 < count < 8
    listed = call(*command, "1h", "--dry-run")
    assert f"{count} cached, 0 failed, {8 - count} to do; about" in listed.out
    resumed = call(*command, "1h")
    assert resumed.code == 0
    assert "the budget left" not in resumed.out
    assert len(list((tmp_path / "r" / "records").glob("*.json"))) == 8
