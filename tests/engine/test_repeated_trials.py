"""The best trials of every entry run again with other seeds, before one is chosen."""

import os
import threading
from dataclasses import replace

import pytest

from routebench.engine.results import Record, Store
from routebench.engine.suites import FIRST_SEED, Choices, plan
from routebench.engine.tuning import at_ends, choose, to_repeat, with_repeats
from tests.command import Command
from tests.engine.conftest import TUNED

ENTRIES = 6
AGAIN = "finalists = 2\nrepeats = 2"


@pytest.fixture
def tried(suite):
    return plan(suite(again=AGAIN), "quick", Choices(tuning=True))


class Scores(Store):
    """Has records of trials with scores of our own."""

    def __init__(self, path):
        super().__init__(path)
        self.known = {}

    def record(self, key):
        return self.known.get(key)

    def put(self, cells, score, status="ok"):
        self.known |= {cell.key: record_of(cell, score(cell), status) for cell in cells}


def record_of(cell, score, status):
    metrics = [{"metric": "score", "value": score}, {"metric": "diverged", "value": 0}]
    return Record(
        cell=cell.key, label=cell.label, params="", status=status, reason="", identity=cell.identity,
        metrics=metrics, arrays=None, provenance={},
    )  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return Scores(tmp_path / "results")


def first_score(cell):
    """50, 60, 70 and 80 % for trials 0 to 3."""
    return 50 + 10 * cell.identity.options["trial"]


def repeats_of(made, tried):
    return [cell for cell in made.cells if cell.key not in {one.key for one in tried.cells}]


def test_nothing_is_repeated_before_all_trials_have_run(tried, store):
    store.put(tried.cells[:-1], first_score)
    assert with_repeats(tried, store) is tried
    assert f"{2 * 2 * ENTRIES} runs more" in to_repeat(tried)


def test_the_best_of_every_entry_are_repeated_alike(tried, store):
    store.put(tried.cells, first_score)
    made = with_repeats(tried, store)
    more = repeats_of(made, tried)
    assert len(more) == 2 * 2 * ENTRIES
    assert to_repeat(made) == ""
    first = {(cell.label, cell.identity.iterations, cell.identity.options["trial"]): cell for cell in tried.cells}
    for cell in more:
        known = cell.identity
        own = first[cell.label, known.iterations, known.options["trial"]]
        assert known.options["trial"] in {2, 3}
        assert known.seed - own.identity.seed in {FIRST_SEED, 2 * FIRST_SEED}
        assert replace(known, seed=own.identity.seed) == own.identity  # nothing else differs
    again = with_repeats(made, store)
    assert again.cells == made.cells


def test_the_mean_of_all_runs_decides_among_the_best(tried, store):
    store.put(tried.cells, first_score)
    made = with_repeats(tried, store)
    lucky = {2: 75.0, 3: 20.0}  # trial 3 was best by luck: 80, then 20 twice, and trial 2 has 70, then 75 twice
    store.put(repeats_of(made, tried), lambda cell: lucky[cell.identity.options["trial"]])
    found = choose(made, store)
    assert (found.trials, found.finalists, found.repeats) == (4, 2, 2)
    for choice in found.choices:
        assert choice.trial == 2
        assert choice.score == pytest.approx((70 + 75 + 75) / 3, abs=1e-4)
        trial = next(
            cell
            for cell in tried.cells
            if (cell.label, cell.identity.iterations) == (choice.method, choice.iterations)
            and cell.identity.options["trial"] == 2
        )
        assert choice.point == trial.identity.tuning["point"]
    assert "the best of 4 trials, the best 2 of which ran again with 2 other seeds, on held-out" in found.told("x").told


def test_a_best_value_at_an_end_of_what_was_tried_is_named(tried, store):
    rates = sorted({cell.identity.tuning["point"]["learning_rate"] for cell in tried.cells})

    def highest_is_best(cell):
        return 60 if cell.identity.tuning["point"]["learning_rate"] == rates[-1] else 50

    store.put(tried.cells, highest_is_best)
    told = [line for line in at_ends(tried, choose(tried, store)) if line.startswith("learning_rate")]
    (line,) = told
    assert f"the highest value tried, {rates[-1]:g}, is the best for {ENTRIES} of {ENTRIES} configurations" in line
    assert "heinsen, T = 2; " in line

    def middle_is_best(cell):
        return 60 if cell.identity.tuning["point"]["learning_rate"] == rates[1] else 50

    store.put(tried.cells, middle_is_best)
    assert not [line for line in at_ends(tried, choose(tried, store)) if line.startswith("learning_rate")]


def test_a_trial_that_was_not_repeated_is_not_chosen(tried, store):
    """All that was repeated turned out worse than trial 1, of which one run is known: luck cannot win by default."""
    store.put(tried.cells, first_score)
    made = with_repeats(tried, store)
    store.put(repeats_of(made, tried), lambda cell: 30.0)
    assert {choice.trial for choice in choose(made, store).choices} == {3}


def test_only_repeats_that_all_entries_have_count(tried, store):
    store.put(tried.cells, first_score)
    made = with_repeats(tried, store)
    more = repeats_of(made, tried)
    lucky = {2: 75.0, 3: 20.0}
    once = [cell for cell in more if cell.identity.seed < 3 * FIRST_SEED]
    store.put(once, lambda cell: lucky[cell.identity.options["trial"]])
    rest = [cell for cell in more if cell not in once]
    store.put([cell for cell in rest if cell.label == "heinsen"], lambda cell: 0.0)  # one entry was faster
    found = choose(made, store)
    assert (found.repeats, {choice.score for choice in found.choices}) == (1, {72.5})
    before = choose(tried, store)
    assert (before.repeats, before.finalists, {choice.trial for choice in before.choices}) == (0, 1, {3})
    assert before.digest != found.digest


def test_a_repeat_that_fails_scores_chance(tried, store):
    store.put(tried.cells, first_score)
    made = with_repeats(tried, store)
    more = repeats_of(made, tried)
    store.put([cell for cell in more if cell.identity.options["trial"] == 2], lambda cell: 70.0)
    store.put([cell for cell in more if cell.identity.options["trial"] == 3], lambda cell: 0.0, "failed")
    assert {(choice.trial, choice.failed) for choice in choose(made, store).choices} == {(2, 2)}


def test_the_command_runs_trials_and_then_repeats(parts, tmp_path, capfd):
    call = Command(tmp_path, capfd)
    text = TUNED.format(more="", trials=2, scored=1, again="finalists = 2")
    (tmp_path / "tuned.toml").write_text(text)
    how = ("tune", "tuned.toml", "--plugin", parts)
    assert f"then the best 2 trials of every configuration run again with other seeds: {2 * ENTRIES} runs more" in (
        call(*how, "--dry-run").out
    )
    told = call(*how, "--jobs", 1, "--no-isolate")
    assert told.code == 0, told.error
    assert told.out.startswith("tuned, trials for preset quick, ")
    assert f": {2 * ENTRIES} trials, 0 done before" in told.out
    assert f": {4 * ENTRIES} trials, {2 * ENTRIES} done before" in told.out
    assert "the best 2 of which ran again with another seed" in told.out
    assert call("status").out.startswith("tuned, trials for preset quick, ")
    again = call(*how, "--jobs", 1, "--no-isolate")
    assert f": {4 * ENTRIES} trials, {4 * ENTRIES} done before (nothing to run)" in again.out, again.error
    written = (tmp_path / "results" / "tuned.quick.settings.json").read_text()
    (tmp_path / "link.json").symlink_to("chosen.json")
    (tmp_path / "chosen.json").write_text("")
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    for name in ("link.json", "pipe", "results/mine.settings.json"):
        assert call(*how, "--jobs", 1, "--no-isolate", "-o", name).code == 0
    reader.join()
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link.json").is_symlink(), "a device stays one, too"
    assert [(tmp_path / name).read_text() for name in ("chosen.json", "results/mine.settings.json")] == [written] * 2
    assert read == [written]
