"""The command `rank`: its output, what it resumes, and bad input."""

import json
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from routebench import ranking
from routebench.analysis import open_folder
from routebench.engine.results import Store
from routebench.ranking import _measuring
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


def test_a_call_within_a_budget_goes_on_and_a_third_has_nothing_to_do(rank, tmp_path, monkeypatch):
    monkeypatch.setattr(_measuring, "FIRST", 2)
    file = made.method(tmp_path)
    listed = rank(file, "--dry-run")
    assert listed.code == 0 and "2 trials, 2 for each T of sharper, 0 done before" in listed.out
    assert "then 6 runs: 3 seeds of sharper with each T, and of uniform routing" in listed.out
    assert not (tmp_path / "own").exists()
    short = rank(file, "--budget", "1s")
    assert short.code == 3 and "the same command goes on" in short.out and "place" not in short.out
    whole = rank(file)
    assert whole.code == 0, whole
    assert "tuned: sharper has the highest score" in whole.out
    assert "first look: " in whole.out and " points over uniform routing with 2 of 3 seeds" in whole.out
    plans = open_folder(tmp_path / "own").plans.values()
    assert [plan["added"] for plan in plans] == [0] * len(plans), "all seeds were planned before the first look"
    again = rank(file)
    assert again.code == 0 and "nothing to run" in again.out
    answer = [line for line in whole.out.splitlines() if line.startswith("★ Sharper: place")]
    assert answer and answer[0] in again.out
    assert (tmp_path / "own" / "rank.sharper.tiny.quick.html").is_file()
    assert "page: own/rank.sharper.tiny.quick.html" in again.out


def test_a_board_without_the_published_settings_is_refused_before_anything_runs(routebench_in, board, tmp_path):
    file = made.method(tmp_path)
    (tmp_path / "tiny.toml").write_text(made.SUITE.replace('settings = "tiny.quick.settings.json"\n', ""))
    found = routebench_in("rank", file, "--board", "tiny.toml:quick", "--beside", board[1], "--dry-run")
    assert found.code == 2 and "expected uniform routing as in the published results" in found.error, found


def test_only_the_method_is_tuned_whatever_baselines_the_board_has(rank, routebench_in, tmp_path):
    """The board `full` has a baseline without chosen settings, which the method's place does not need."""
    file = made.method(tmp_path)
    found = routebench_in("rank", file, "--board", "full", "--dry-run")
    assert found.code == 0 and "\n16 trials, 16 for each T of sharper, 0 done before\n" in found.out
    assert "\nthen 20 runs: 10 seeds of sharper with each T, and of uniform routing" in found.out


def test_more_seeds_can_be_asked_for_where_the_suite_names_comparisons(rank, ranked):
    found = rank(ranked, "--until", "100")
    assert found.code == 0 and "over 3 seeds" in found.out, "three are enough for 100 points"
    more = rank(ranked, "--until", "5")
    assert more.code == 0 and "over 3 seeds" not in more.out and "★ Sharper: place" in more.out, more


@pytest.fixture
def ranked(joined, tmp_path):
    """The file of a method whose runs are in `own`."""
    shutil.copytree(joined, tmp_path, dirs_exist_ok=True)
    (tmp_path / "own" / "rank.sharper.tiny.quick.html").unlink()
    return tmp_path / "sharper.py"


def test_the_page_goes_where_it_is_asked_for(rank, ranked, tmp_path):
    found = rank(ranked, "-o", "place.html", "--json")
    told = json.loads(found.out)
    assert found.code == 0 and len(told["place"]) == 2
    assert any(row["is_mine"] and row["mean"] > 0 for row in told["rows"])
    assert "★ Sharper" in (tmp_path / "place.html").read_text()
    assert not (tmp_path / "own" / "rank.sharper.tiny.quick.html").exists()


def test_a_run_is_made_again_by_its_key_alone(ranked, joined, routebench_in, board, tmp_path):
    runs = ranking.part_of(Store(tmp_path / "own"), ranking.board_of(board[0]))
    key = next(cell for cell, method in runs.methods.items() if method.label == "sharper")
    shown = routebench_in("reproduce", key, "--results", "own")
    assert shown.code == 0
    (typed,) = (shlex.split(line) for line in shown.out.splitlines() if not line.startswith("#"))
    assert typed[3:6] == ["suite", board[0].rpartition(":")[0], "--preset"]
    wanted = {"--plugin": str(joined / ranked.name), "--method": "sharper", "--seeds": "3", "--run": key}
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


def changed(file, line):
    """The file with a line before the coupling of its method."""
    file.write_text(file.read_text().replace("        coupling =", f"{line}\n        coupling ="))
    return file


def test_a_method_that_hangs_in_training_is_stopped_and_has_no_place(routebench_in, board, tmp_path):
    file = made.method(tmp_path)
    late = "        import time\n        time.sleep(600 if self.training and votes.dense().shape[0] == 64 else 0)"
    fixed = ("--board", board[0], "--beside", board[1], "--results", "own", "--time-limit", "5s")
    found = routebench_in("rank", changed(file, late), *fixed)
    assert found.code == 4 and "has no place" in found.out and "timeout" in found.out, found


def test_a_method_that_loses_seeds_is_not_flattered_by_those_that_are_left(rank, tmp_path):
    file = made.method(tmp_path, sharpness=0.0)
    text = f"import torch\n{file.read_text()}".replace(
        "self.sharpness = sharpness", "self.sharpness, self.seed = sharpness, torch.initial_seed()"
    )
    file.write_text(text)
    late = "        if self.training and votes.dense().requires_grad and self.seed % 2:\n            votes = None"
    found = rank(changed(file, late))
    assert found.code == 3, found
    assert "of 3 seeds, so that no verdict favours it" in found.out, found
    assert ": better" not in found.out


def test_a_number_of_iterations_that_gives_nan_is_told(rank, tmp_path):
    file = made.method(tmp_path)
    text = file.read_text().replace("sharpness: float = 1.0", "sharpness: float = 1.0, iterations: int = 3")
    text = text.replace("self.sharpness = sharpness", "self.sharpness, self.iterations = sharpness, iterations")
    file.write_text(text)
    found = rank(changed(file, "        if self.iterations == 3:\n            votes = votes.dense() * float('nan')"))
    assert found.code == 2 and len(found.error.strip().splitlines()) == 1, found


def test_two_plug_ins_of_one_name_are_told(rank, tmp_path):
    file = made.method(tmp_path)
    (tmp_path / "second").mkdir()
    other = made.method(tmp_path / "second", sharpness=2.0)
    found = rank(file, "--plugin", other)
    assert found.code == 2 and "sharper" in found.error and len(found.error.strip().splitlines()) == 1, found
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("kind", ["newer", "another version"])
def test_a_pack_that_cannot_be_read_or_compared_is_told(routebench_in, board, tmp_path, kind):
    name, published = board
    shutil.copytree(published, tmp_path / "theirs")
    suite = tmp_path / "tiny.toml"
    text = made.SUITE.replace("version = 1", "version = 2") if kind == "another version" else made.SUITE
    suite.write_text(text)
    shutil.copy(Path(name.rpartition(":")[0]).parent / "tiny.quick.settings.json", tmp_path)
    if kind == "newer":
        (tmp_path / "theirs" / "schema.json").write_text('{"schema": 99}')
    fixed = ("--board", f"{suite}:quick", "--beside", tmp_path / "theirs", "--jobs", 1, "--no-isolate")
    found = routebench_in("rank", made.method(tmp_path), *fixed, "--results", "own")
    assert found.code == 2 and len(found.error.strip().splitlines()) == 1, found
    assert ("schema version 99" if kind == "newer" else "got another suite_version") in found.error, found
    assert not (tmp_path / "own").exists(), "it is told before anything is trained"
