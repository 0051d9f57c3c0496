"""Which seeds a suite runs: their number, or the first and the last."""

from functools import cache

import pytest

import routebench
from routebench.analysis.folder import open_folder
from routebench.analysis.named import named_pairs
from routebench.engine.results import Store
from routebench.engine.running import Listener, Queue, RunConfig, run_cells
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.quantities import seeds, written
from routebench.registry import extensions, load_plugin
from routebench.report import origins_of
from tests.command import Command
from tests.engine.conftest import PARTS, SUITE
from tests.engine.shown import tables_of

NAMED = '[primary]\nagainst = ["uniform"]\nmargin = 0.5\nhalf_width = 0.5'


@pytest.mark.parametrize(
    ("given", "meant"),
    [("5", range(5)), (5, range(5)), ("0..9", range(10)), ("3..3", range(3, 4)), (range(10, 20), range(10, 20))],
)
def test_seeds_as_people_write_them(given, meant):
    assert seeds(given) == meant
    assert seeds(written(meant)) == meant


@pytest.mark.parametrize(
    "given",
    [
        0,
        -1,
        True,
        "",
        "5..",
        "..5",
        "9..3",
        "1...3",
        "a..b",
        "1..2..3",
        " 5",
        "\u0665",
        10**12,
        "9" * 400,
        range(5, 1, -1),
        range(0, 9, 2),
        range(-2, 3),
    ],
)
def test_what_is_no_seed_is_refused_in_a_line(given):
    with pytest.raises(UserError, match="expected a number of seeds") as told:
        seeds(given)
    assert len(str(told.value)) < 250 and "\n" not in str(told.value)


def test_a_seed_has_one_key_whatever_the_others_are(parts, suite_file):
    suite = load_suite(str(suite_file()))
    keys = {
        chosen: {cell.key for cell in plan(suite, "quick", Choices(seeds=chosen)).cells if cell.identity.seed == 3}
        for chosen in (range(5), range(10), range(3, 4))
    }
    assert len(keys[range(5)]) == 4
    assert keys[range(5)] == keys[range(10)] == keys[range(3, 4)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measures seeds one call after the other in one folder, once for the same calls, and gives its path."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "small.toml").write_text(SUITE.format(protocol="brightness", seeds=2, more=NAMED))

    @cache
    def measure(*calls):
        store = Store(folder / ",".join(calls))
        store.prepare()
        with extensions.restored():
            load_plugin(str(PARTS))
            suite = load_suite(str(folder / "small.toml"))
            for asked in calls:
                made = plan(suite, "quick", Choices(seeds=seeds(asked)))
                write_plan(made, store)
                left = [cell for cell in made.cells if store.record(cell.key) is None]
                run_cells(Queue(left), store, RunConfig("cpu", jobs=1, threads=1), Listener())
        return store.path

    return measure


@pytest.fixture(scope="module")
def whole(measured):
    """The folder of ten seeds of one call, and its tables."""
    folder = measured("10")
    return folder, tables_of(folder)


@pytest.mark.parametrize("calls", [("0..4", "5..9"), ("5..9", "0..4"), ("10", "0..4"), ("3..3", "0..6", "2..9", "1")])
def test_seeds_of_several_calls_are_one_comparison(measured, whole, calls):
    parted = measured(*calls)
    assert tables_of(parted) == whole[1]
    (runs,) = open_folder(parted).parts
    assert runs.first == 10  # no seed is of a second stage: nobody looked at results before it was planned
    assert routebench.compare(whole[0], parted).exit_code == 0


def test_the_command_under_a_table_makes_the_seeds_of_all_calls(measured):
    for calls in (("0..4", "5..9"), ("5..9", "0..4")):
        opened = open_folder(measured(*calls))
        (runs,) = opened.parts
        plan = {**opened.plans[runs.name], "command": "python -m routebench suite small.toml --seeds 5..9 --jobs 2"}
        command = origins_of(runs, plan, opened.records(runs), None).command
        assert command == "python -m routebench suite small.toml --jobs 2 --seeds 10"


def test_comparisons_of_seeds_from_another_on_are_named_all_the_same(measured):
    (runs,) = open_folder(measured("5..6")).parts
    pairs = [str(pair) for pair in named_pairs(runs)]
    assert len(pairs) == 2
    assert all(": 2 of the first 7 seeds have results; " in pair for pair in pairs)


def test_further_seeds_are_counted_from_a_first_stage_that_begins_at_0(parts, suite_file):
    suite = load_suite(str(suite_file(more=NAMED)))
    assert plan(suite, "quick", Choices(seeds=range(4), until=1.0)).half_width == 1.0
    with pytest.raises(UserError, match=r"--until: expected seeds from 0 on, .* such as --seeds 10, got 5..9"):
        plan(suite, "quick", Choices(seeds=range(5, 10), until=1.0))


def test_the_command_line_and_the_plan_say_which(parts, suite_file, tmp_path, capfd):
    call = Command(tmp_path, capfd)
    how = ("--plugin", PARTS, "--results", tmp_path / "r", "--jobs", 1, "--no-isolate")
    command = ("suite", suite_file(), *how, "--seeds")
    assert call(*command, "3..4").code == 0
    assert {head["settings"]["seeds"] for head in Store(tmp_path / "r").plan_heads()} == {"3..4"}
    listed = call(*command, "4..5", "--dry-run").out
    assert "8 runs: 4 cached, 0 failed, 4 to do" in listed
    assert "seed 5" in listed and "seed 3" not in listed
