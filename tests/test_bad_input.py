"""Bad input is told in one line: 400 calls of `tests/stress/bad_input.py`, and each kind by name."""

import click
import pytest

from routebench import cli
from routebench.engine.suites import load_suite
from tests.command import import_once
from tests.stress import bad_input
from tests.stress.bad_input import NO_CELL, SUITE, Ended, Try, ended, fault, sample, toml_file, with_value

CALLS = 400
REPORTED = [
    (("methods", 0, "params"), "{ sizes = 1 }", "no hyperparameter 'sizes'"),
    (("methods", 0, "params"), "{ iterations = 1" + 309 * "0" + " }", "at most 64 bits"),
    (("presets", "smoke", "seeds"), "1" + 309 * "0", "key 'presets.smoke.seeds': expected integers of at most 64 bits"),
    (("version",), 5_000 * "9", "at most 64 bits"),
    (("presets", "smoke", "data"), f'"take:{5_000 * "9"}:mnist5k"', "at most 18 digits"),
    (("presets", "smoke", "data"), f'"fold:1/{5_000 * "9"}:mnist5k"', "at most 18 digits"),
    (("presets", "smoke", "data"), f'"folder:.?size={5_000 * "9"}"', "at most 18 digits"),
    (("presets", "smoke", "model_params"), "{ weight_std = nan }", "weight_std': expected a number, got nan"),
    (("presets", "smoke", "model_params"), "{ shape = 1 }", "'shape' is no argument that a suite sets"),
    (("presets", "smoke", "iterations"), "[10000000000]", "at most 10,000 iterations"),
    (("presets", "smoke", "test_iterations"), "[10000000000]", "at most 10,000 iterations"),
    (("methods", 0, "name"), '"dynamc"', "did you mean 'dynamic'?"),
    (("methods",), 40 * "[" + 40 * "]", "at most 16 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "says"), REPORTED, ids=[f"{at[-1]}-{says}" for at, _, says in REPORTED])
def test_a_bad_value_in_a_suite_is_told_where_it_stands(tmp_path, path, value, says):
    text = toml_file(with_value(SUITE, path, value))
    end = ended(Try("", ("suite", "my.toml", *NO_CELL), ("my.toml", text)), tmp_path)
    assert fault(end) == ""
    assert (end.code, says in end.told) == (2, True), end.told


WORDS = [
    (("suite", "accuracy", *NO_CELL, "--method", f"dynamic[iterations=0x{5_000 * 'f'}]"), "at most 64 bits"),
    (("suite", "accuracy", *NO_CELL, "--method", "dynamic[sizes=1]"), "no hyperparameter 'sizes'"),
    (("suite", "accuracy", *NO_CELL, "--method", "dynamic[iterations=10000000000]"), "at most 10,000 iterations"),
    (("suite", "accuracy", *NO_CELL, "--seeds", 400 * "9"), "expected a number of seeds"),
    (("suite", "accuracy", *NO_CELL, "--data", f"take:{5_000 * '9'}:mnist5k"), "at most 18 digits"),
    (("suite", "accuracy", *NO_CELL, "--device", f"cuda:{5_000 * '9'}"), "expected auto, cpu"),
    (("check", "dynamic[iterations=10000000000]"), "at most 10,000 iterations"),
    (("check", "dynamic[sizes=1]"), "no hyperparameter 'sizes'"),
    (("check", "dynamic[self=1]"), "no hyperparameter 'self'"),
]


@pytest.mark.parametrize(("words", "says"), WORDS, ids=[f"{words[0]} {words[-1]:.25}" for words, _ in WORDS])
def test_a_bad_word_in_a_command_is_told(tmp_path, words, says):
    end = ended(Try("", words), tmp_path)
    assert fault(end) == ""
    assert (end.code, says in end.told) == (2, True), end.told


def test_a_byte_order_mark_is_no_part_of_a_suite(tmp_path):
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + toml_file(SUITE).encode())
    assert load_suite(str(tmp_path / "marked.toml")).question == "Q?"


@pytest.fixture(scope="module")
def calls():
    import_once()
    count = sum(len(list(kind())) for kind in bad_input.KINDS)
    return sample(count // CALLS)


def test_four_hundred_calls_with_bad_input_end_in_one_line(calls, tmp_path):
    assert len(calls) >= CALLS
    found = {tried.name: wrong for tried in calls if (wrong := fault(ended(tried, tmp_path)))}
    assert found == {}


def test_every_command_is_among_the_calls(calls):
    assert {tried.words[0] for tried in bad_input.commands()} == {*cli.cli.list_commands(click.Context(cli.cli))}
    assert {tried.words[0] for tried in calls} >= {"suite", "tune", "reproduce", "compare", "export"}


def test_a_traceback_and_a_second_line_are_found():
    for says, end in (
        ("exit code 70", Ended(70, "", "Traceback", [])),
        ("more than one line", Ended(2, "", "Error: one\nand more\n", [])),
        ("more than one line", Ended(2, "printed", "Error: one\n", [])),
        ("nobody can read", Ended(2, "", f"Error: {9_000 * 'a'}\n", [])),
        ("left ['file']", Ended(2, "", "Error: one\n", ["file"])),
    ):
        assert says in fault(end)
    assert fault(Ended(2, "", "warning: a file is gone\nError: one\n", [])) == ""
