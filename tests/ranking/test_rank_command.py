"""The command `rank`: its output, what it resumes, and bad input."""

import shlex
from itertools import pairwise

import pytest

from routebench import ranking
from routebench.engine.results import Store
from tests.command import import_once
from tests.ranking import made

BROKEN = {
    "route": "        raise RuntimeError('not yet')",
    "nan": "        return Routed(votes.dense().sum(1) * float('nan'), votes.dense().sum((1, -1)) * float('nan'))",
}


@pytest.fixture
def rank(routebench_in, board):
    """Ranks on the small board, in this process."""
    name, published = board
    import_once()

    def run(*arguments, **environment):
        fixed = ("--board", name, "--beside", published, "--jobs", 1, "--no-isolate", "--results", "own")
        return routebench_in("rank", *arguments, *fixed, **environment)

    return run


def test_a_call_within_a_budget_goes_on_and_a_third_has_nothing_to_do(rank, tmp_path):
    file = made.method(tmp_path)
    listed = rank(file, "--dry-run")
    assert listed.code == 0 and "2 trials, 2 for each T of sharper, 0 of them done before" in listed.out
    assert "then 6 runs: 3 seeds of sharper with each T, and of uniform routing" in listed.out
    assert not (tmp_path / "own").exists()
    short = rank(file, "--budget", "1s")
    assert short.code == 3 and "the same command goes on" in short.out and "place" not in short.out
    whole = rank(file)
    assert whole.code == 0, whole
    assert "tuned: sharper has the highest score" in whole.out
    again = rank(file)
    assert again.code == 0 and "nothing to run" in again.out
    answer = [line for line in whole.out.splitlines() if line.startswith("★ Sharper: place")]
    assert answer and answer[0] in again.out
    assert (tmp_path / "own" / "rank.tiny.quick.html").is_file()
    assert "page: own/rank.tiny.quick.html" in again.out


def test_only_the_method_is_tuned_whatever_baselines_the_board_has(rank, routebench_in, tmp_path):
    """The board `full` has a baseline without chosen settings, which the method's place does not need."""
    file = made.method(tmp_path)
    found = routebench_in("rank", file, "--board", "full", "--dry-run")
    assert found.code == 0 and "\n16 trials, 16 for each T of sharper, 0 of them done before\n" in found.out
    assert "\nthen 20 runs: 10 seeds of sharper with each T, and of uniform routing" in found.out


def test_more_seeds_can_be_asked_for_where_the_suite_names_comparisons(rank, tmp_path):
    found = rank(made.method(tmp_path), "--until", "100")
    assert found.code == 0 and "over 3 seeds" in found.out, "three are enough for 100 points"
    more = rank(made.method(tmp_path), "--until", "5")
    assert more.code == 0 and "over 3 seeds" not in more.out and "★ Sharper: place" in more.out, more


def test_the_page_goes_where_it_is_asked_for(rank, tmp_path):
    file = made.method(tmp_path)
    assert rank(file, "-o", "place.html").code == 0
    assert "★ Sharper" in (tmp_path / "place.html").read_text()


def test_a_run_is_made_again_by_its_key_alone(rank, routebench_in, board, tmp_path):
    file = made.method(tmp_path)
    assert rank(file).code == 0
    runs = ranking.part_of(Store(tmp_path / "own"), ranking.board_of(board[0]))
    key = next(cell for cell, method in runs.methods.items() if method.label == "sharper")
    shown = routebench_in("reproduce", key, "--results", "own")
    assert shown.code == 0
    typed = shlex.split(shown.out.splitlines()[-1])
    assert typed[3:6] == ["suite", board[0].rpartition(":")[0], "--preset"]
    wanted = {"--plugin": str(file), "--method": "sharper", "--seeds": "3", "--run": key}
    assert wanted.items() <= {**dict(pairwise(typed))}.items()
    again = routebench_in("reproduce", key, "--results", "own", "--run")
    assert again.code == 0 and "numbers agree to the last digit" in again.out


@pytest.mark.parametrize("fault", BROKEN)
def test_a_method_that_breaks_its_contract_is_refused_before_anything_is_trained(rank, tmp_path, fault):
    file = made.method(tmp_path)
    text = file.read_text()
    start = text.index("        coupling =")
    file.write_text(text[:start] + BROKEN[fault] + "\n")
    found = rank(file)
    assert found.code == 2 and "`routebench check` shows all" in found.error
    assert len(found.error.strip().splitlines()) == 1
    assert not (tmp_path / "own").exists()


def test_a_method_that_fails_in_training_alone_has_no_place_and_says_why(rank, tmp_path):
    file = made.method(tmp_path)
    text = file.read_text()
    late = "        if votes.dense().shape[0] == 64 and self.training and votes.dense().requires_grad:\n"
    file.write_text(
        text.replace("        coupling =", f"{late}            raise RuntimeError('out of ideas')\n        coupling =")
    )
    found = rank(file)
    assert found.code == 4, found
    assert "has no place" in found.out and "out of ideas" in found.out


def test_bad_calls_are_told_in_one_line(rank, routebench_in, tmp_path):
    file = made.method(tmp_path)
    for arguments, told in (
        ((tmp_path / "nothing.py",), "nothing.py"),
        (("unform",), "did you mean 'uniform'"),
        (("uniform",), "one that every board has already"),
        ((file, "--method", "other"), "other"),
    ):
        found = rank(*arguments)
        assert found.code == 2 and told in found.error, found
        assert len(found.error.strip().splitlines()) == 1
    for options, told in (
        (("--board", "quik"), "did you mean 'quick'"),
        (("--board", "accuracy:quick"), "--beside"),
        (("--board", "accuracy:quik", "--beside", "x"), "did you mean 'quick'"),
        (("--beside", "nowhere"), "nowhere"),
        (("--board", "quick", "--until", "0.3"), "[primary]"),
    ):
        found = routebench_in("rank", file, *options, "--results", "own")
        assert found.code == 2 and told in found.error, found
    assert not (tmp_path / "own").exists()


def test_a_file_of_two_methods_asks_for_one(rank, tmp_path):
    file, other = made.method(tmp_path), made.method(tmp_path, "blunter")
    file.write_text(file.read_text() + other.read_text())
    found = rank(file)
    assert found.code == 2 and "sharper" in found.error and "blunter" in found.error
    assert "2 trials, 2 for each T of blunter" in rank(file, "--method", "blunter", "--dry-run").out
