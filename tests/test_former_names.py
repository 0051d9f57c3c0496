"""Former names of options and keys are taken, and told."""

import pytest

from routebench.engine.suites import load_suite
from routebench.errors import UserError
from routebench.registry import extensions
from tests.command import Command

SUITE = """
question = "?"
version = 1
protocol = "accuracy"
[training]
{optimizer} = "sgd"
[[methods]]
name = "dynamic"
[[{baselines}]]
name = "none"
[presets.smoke]
data = "mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
training = {{ epochs = 1 }}
"""


@pytest.fixture
def call(tmp_path, capfd):
    return Command(tmp_path, capfd)


@pytest.fixture
def told(monkeypatch):
    """The lines that are told of files."""
    lines = []
    monkeypatch.setattr(extensions, "problems", lines)
    return lines


@pytest.mark.parametrize(("option", "value"), [("cell", "0123456789abcdef"), ("gpus-per-cell", "0.5")])
@pytest.mark.parametrize("joined", [False, True])
def test_a_former_option_is_taken_and_told(call, option, value, joined):
    new = {"cell": "run", "gpus-per-cell": "gpus-per-run"}[option]
    said = [f"--{option}={value}"] if joined else [f"--{option}", value]
    code, _, error = call("suite", "accuracy", "--preset", "smoke", "--dry-run", *said)
    assert code == 2
    assert f"warning: --{option} is --{new} now; the old name is taken until the next release" in error
    assert f"--{new}" in error.splitlines()[-1]


def test_a_suite_may_have_former_keys(tmp_path, told):
    file = tmp_path / "mine.toml"
    file.write_text(SUITE.format(optimizer="optimizer", baselines="baselines"))
    now = load_suite(str(file))
    assert told == []
    file.write_text(SUITE.format(optimizer="optimiser", baselines="controls"))
    before = load_suite(str(file))
    assert (before.controls, before.training) == (now.controls, now.training)
    assert now.training == {"optimiser": "sgd"}
    assert told == [
        "mine.toml: key 'controls' is 'baselines' now; the old name is read until the next release",
        "mine.toml: key 'training.optimiser' is 'optimizer' now; the old name is read until the next release",
    ]


def test_both_names_at_once_are_refused(tmp_path, told):
    file = tmp_path / "mine.toml"
    file.write_text(SUITE.format(optimizer='optimiser = "sgd"\noptimizer', baselines="baselines"))
    with pytest.raises(UserError, match=r"key 'training\.optimizer': expected one of 'optimizer' and its former name"):
        load_suite(str(file))
    assert told == []


def test_words_of_other_commands_and_behind_a_double_dash_stay(call):
    assert "--cell is --run" not in call("list", "--cell").error
    assert "--run=abc" not in call("suite", "accuracy", "--dry-run", "--", "--cell=abc").error


def test_tuning_takes_both_names(tmp_path, told):
    file, text = tmp_path / "mine.toml", SUITE.format(optimizer="optimizer", baselines="baselines")
    tuning = '[tuning]\ntrials = 2\nfolds = 2\nscored = 1\n[tuning.training]\n{name} = ["adam", "sgd"]\n'
    found = []
    for name in ("optimizer", "optimiser"):
        file.write_text(text + tuning.format(name=name))
        found.append(load_suite(str(file)).tuning.training)
    assert found[0] == found[1]
    assert [*found[0]] == ["optimiser"]
    assert told
    assert all("tuning.training.optimiser" in line for line in told)


def test_a_mistyped_option_is_told_although_a_folder_cannot_be_left_out(call):
    code, _, error = call("suite", "accuracy", "--bogus", ROUTEBENCH_WITHOUT="smyth")
    assert code == 2
    assert "--bogus" in error
    assert "Traceback" not in error
