"""An option that is declared once is the same on the command line and in Python: name, default, legal values, text."""

import ast
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

import routebench
from routebench import cli
from routebench.commands import check, compare, features, rank, report, suite, tune
from routebench.engine.origin import command_line
from routebench.errors import UserError
from routebench.kernels import BACKENDS
from routebench.options import (
    CheckOptions,
    CompareOptions,
    FeaturesOptions,
    MergeOptions,
    RankOptions,
    ReportOptions,
    SuiteOptions,
    TuneOptions,
    Word,
    options_of,
    surroundings,
    takes,
)
from tests.command import Command
from tests.docs.pages import ROOT

COMMANDS = [(suite.command, SuiteOptions), (tune.command, TuneOptions), (rank.command, RankOptions)]


def given(command, *typed):
    """The values of a command's options."""
    argument = next(one.name for one in command.params if isinstance(one, click.Argument))
    known = command.make_context("routebench", ["accuracy", *typed]).params
    return {name: value for name, value in known.items() if name not in (argument, "dry_run", "write")}


@pytest.mark.parametrize(("command", "kind"), COMMANDS, ids=lambda one: getattr(one, "name", None))
def test_a_command_without_options_asks_what_a_program_asks(command, kind):
    named = {"suite": "accuracy"} if kind is not RankOptions else {}
    assert kind(**named, **given(command)) == kind(**named)


FUNCTIONS = [
    (routebench.run_suite, SuiteOptions),
    (routebench.rank, RankOptions),
    (routebench.compare, CompareOptions),
    (routebench.check, CheckOptions),
    (routebench.extract_features, FeaturesOptions),
    (routebench.write_report, ReportOptions),
    (routebench.merge, MergeOptions),
]
SMALLER = [
    (compare.command, CompareOptions),
    (check.command, CheckOptions),
    (features.command, FeaturesOptions),
    (report.command, ReportOptions),
]


@pytest.mark.parametrize(("command", "kind"), SMALLER, ids=lambda one: getattr(one, "name", None))
def test_a_command_has_every_option_with_its_default(command, kind):
    known = {option.name: option for option in command.params}
    for name, option in options_of(kind).items():
        if option.default is not ...:
            assert f"--{option.flag}" in known[name].opts
            assert known[name].get_default(click.Context(command)) in (option.default, None)
            assert option.in_help(options_of(kind)) == known[name].help


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: routebench.check("dynamic", seed=None), "seed: expected an integer of at least 0, got None"),
        (lambda: routebench.compare("a", "b", alpha=2.0), "alpha: expected a number"),
        (lambda: routebench.extract_features("lenet", "mnist5k", "x.safetensors", size=2), "size: expected an integer"),
        (lambda: routebench.write_report(""), "results: expected a path, got an empty one"),
        (lambda: routebench.merge("a", 3), "output: expected a path or text, got 3"),
    ],
)
def test_a_bad_argument_of_a_function_is_told_in_one_line(call, says):
    with pytest.raises(UserError, match=f"^{says}"):
        call()


WITHOUT_EFFECT = [
    *(
        (kind, {"isolate": False, name: value}, f"--no-isolate: with {told} each run has a process of its own")
        for kind in (SuiteOptions, TuneOptions, RankOptions)
        for name, value, told in (
            ("jobs", 2, "--jobs 2"),
            ("time_limit", "1m", "--time-limit"),
            ("memory_limit", "4GB", "--memory-limit"),
        )
    ),
    (SuiteOptions, {"isolate": False, "executor": "ray"}, "--no-isolate: on a cluster"),
    (SuiteOptions, {"until": 0.5, "cells": "0123456789abcdef"}, "--until adds seeds, and --run"),
    (
        CompareOptions,
        {"metrics": "accuracy", "tolerances": "loss=1"},
        "--tolerance loss: --metric leaves",
    ),
    (
        CompareOptions,
        {"metrics": "accuracy", "must_see": "loss=1"},
        "--must-see loss: --metric leaves",
    ),
]
POSITIONS = {RankOptions: (), CompareOptions: ("a", "b")}


@pytest.mark.parametrize(("kind", "asked", "says"), WITHOUT_EFFECT)
def test_an_option_that_another_leaves_without_effect_is_refused(kind, asked, says):
    with pytest.raises(UserError, match=f"^{says}"):
        kind(*POSITIONS.get(kind, ("accuracy",)), **asked)
    for alone in asked.items():
        if alone != ("executor", "ray"):
            kind(
                *POSITIONS.get(kind, ("accuracy",)),
                **dict([alone]) if alone[0] not in ("tolerances", "must_see") else {},
            )


def test_one_job_in_this_process_is_no_contradiction():
    assert SuiteOptions("accuracy", isolate=False, jobs=1).jobs == 1
    assert CompareOptions("a", "b", metrics="loss", tolerances="loss=1").metrics == ("loss",)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("verify", ".", "--draw", "3", "--runs", "0"), "--draw says which runs are trained again, and with --runs 0"),
        (("compare", "a", "b", "--json", "--format", "markdown"), "expected --json or --format markdown, got both"),
        (("suite", "accuracy", "--no-isolate", "--jobs", "2"), "--no-isolate: with --jobs 2 each run"),
        (("suite", "accuracy", "--until", "1", "--run", "0123456789abcdef"), "--until adds seeds, and --run"),
        (("rank", "em", "--no-isolate", "--memory-limit", "4GB"), "--no-isolate: with --memory-limit each run"),
    ],
)
def test_a_command_tells_of_an_option_without_effect_in_one_line(tmp_path, capfd, arguments, says):
    done = Command(tmp_path, capfd)(*arguments)
    assert done.code == 2 and says in done.error and len(done.error.strip().splitlines()) == 1


@pytest.mark.parametrize(("function", "kind"), FUNCTIONS)
def test_a_function_takes_every_option_and_tells_of_it(function, kind):
    parameters = inspect.signature(function).parameters
    for name, option in options_of(kind).items():
        assert parameters[name].default == (inspect.Parameter.empty if option.default is ... else option.default)
        assert f"    {name}: {option.in_python}\n" in inspect.getdoc(function)


BAD = [
    ("jobs", "--jobs", 0, "expected an integer of at least 1"),
    ("threads", "--threads", 2000, "expected an integer from 1 to 1024"),
    ("until", "--until", float("nan"), "expected a number above 0"),
    ("gpus_per_run", "--gpus-per-run", -1.0, "expected a number of at least 0"),
    ("time_limit", "--time-limit", "soon", "expected a duration such as 90s"),
    ("memory_limit", "--memory-limit", "1MB", "expected at least 500MB"),
    ("seeds", "--seeds", "9..3", "expected a number of seeds"),
    ("device", "--device", "gpu", "expected auto, cpu"),
    ("backend", "--backend", "fusd", "expected one of auto, reference, fused, triton"),
    ("settings", "--settings", "", "expected a path, got an empty one"),
]


@pytest.mark.parametrize(("name", "flag", "value", "says"), BAD, ids=[flag for _, flag, *_ in BAD])
def test_a_bad_value_is_told_in_the_same_words(name, flag, value, says):
    with pytest.raises(UserError, match=f"^{name}: {says}"):
        SuiteOptions("accuracy", **{name: value})
    with pytest.raises(click.BadParameter) as caught:
        given(suite.command, flag, str(value))
    assert caught.value.format_message().startswith(f"Invalid value for '{flag}': {says}")


def test_options_stay_as_they_are_and_are_made_anew():
    asked = SuiteOptions("accuracy", time_limit="30m", methods="em", seeds=3)
    assert (asked.time_limit, asked.methods, asked.seeds) == (1800.0, ("em",), range(3))
    assert replace(asked, jobs=2) == SuiteOptions("accuracy", time_limit=1800, methods=["em"], seeds="3", jobs=2)
    with pytest.raises(AttributeError, match="cannot be set again"):
        asked.jobs = 2


def test_back_ends_are_those_of_kernels():
    backend = options_of(SuiteOptions)["backend"]
    assert isinstance(backend, Word)
    assert backend.legal.choices == BACKENDS


SURROUNDINGS = {
    "ROUTEBENCH_JOBS": ("2", 2),
    "ROUTEBENCH_DEVICE": ("cpu", "cpu"),
    "ROUTEBENCH_RESULTS": ("far away", Path("far away")),
    "ROUTEBENCH_ISOLATE": ("yes", True),
    "ROUTEBENCH_TIME_LIMIT": ("30m", 1800.0),
    "ROUTEBENCH_BUDGET": ("1h", 3600.0),
    "ROUTEBENCH_MEMORY_LIMIT": ("4GB", 4_000_000_000),
    "ROUTEBENCH_THREADS": ("3", 3),
    "ROUTEBENCH_EXECUTOR": ("ray", "ray"),
    "ROUTEBENCH_ADDRESS": ("head:6379", "head:6379"),
    "ROUTEBENCH_GPUS_PER_RUN": ("0.5", 0.5),
}
"""Variables with a text and what it means; all that there are."""


@takes(SuiteOptions)
def asked_of(asked):
    """Gives its options.

    Args:
        asked: those arguments.
    """
    return asked


def test_what_changes_no_number_is_taken_from_the_environment_where_nobody_says_it(monkeypatch, capsys):
    known = {option.variable: name for name, option in options_of(SuiteOptions).items() if option.variable}
    assert known.keys() == SURROUNDINGS.keys()
    for variable, (text, _) in SURROUNDINGS.items():
        monkeypatch.setenv(variable, text)
    found = asked_of("accuracy")
    told = capsys.readouterr().err
    assert told.startswith("from the environment: ") and told.count("\n") == 1
    for variable, (text, meant) in SURROUNDINGS.items():
        assert getattr(found, known[variable]) == meant and f"{variable}={text}" in told
    assert asked_of("accuracy", jobs=1, device="auto").jobs == 1
    assert not {"ROUTEBENCH_JOBS", "ROUTEBENCH_DEVICE"} & {*capsys.readouterr().err.replace("=", " ").split()}
    monkeypatch.setenv("ROUTEBENCH_JOBS", "")
    assert asked_of("accuracy").jobs is None and "ROUTEBENCH_JOBS" not in surroundings(SuiteOptions)


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("ROUTEBENCH_JOBS", "many", "expected an integer of at least 1, got 'many'"),
        ("ROUTEBENCH_ISOLATE", "maybe", "expected one of 1, yes, true, 0, no, false, got 'maybe'"),
        ("ROUTEBENCH_DEVICE", "gpu", "expected auto, cpu, cuda, one GPU such as cuda:1, or mps, got 'gpu'"),
        ("ROUTEBENCH_EXECUTOR", "slurm", "expected one of local, ray, got 'slurm'"),
    ],
)
def test_a_bad_variable_ends_in_one_line_that_names_it(tmp_path, capfd, monkeypatch, variable, text, says):
    done = Command(tmp_path, capfd)("suite", "accuracy", "--dry-run", **{variable: text})
    assert (done.code, done.out) == (2, "") and done.error.startswith(f"Error: {variable}: {says}")
    assert done.error.count("\n") == 1 and not [*tmp_path.iterdir()]
    monkeypatch.setenv(variable, text)
    with pytest.raises(UserError, match=f"^{variable}: expected"):
        asked_of("accuracy")


def test_surroundings_are_told_and_recorded_and_leave_keys_as_they_are(tmp_path, capfd, monkeypatch):
    call = Command(tmp_path, capfd)
    monkeypatch.setattr("routebench.engine.running._suite.MEASURING", 0.0)  # seconds; no step is timed
    arguments = ("suite", "accuracy", "--preset", "smoke", "--dry-run", "--json")
    plain = json.loads(call(*arguments).out)
    done = call(*arguments, ROUTEBENCH_JOBS="2", ROUTEBENCH_RESULTS="/far/away", ROUTEBENCH_DEVICE="cpu")
    assert (
        "from the environment: ROUTEBENCH_JOBS=2, ROUTEBENCH_RESULTS=/far/away, ROUTEBENCH_DEVICE=cpu\n" in done.error
    )
    (here,), (there,) = plain, json.loads(done.out)
    assert there["jobs"] == 2 and [run["key"] for run in there["runs"]] == [run["key"] for run in here["runs"]]
    monkeypatch.setenv("ROUTEBENCH_JOBS", "2")
    monkeypatch.setenv("ROUTEBENCH_RESULTS", "/far/away")
    monkeypatch.setattr("sys.argv", ["routebench", "suite", "accuracy"])
    assert command_line() == "ROUTEBENCH_JOBS=2 ROUTEBENCH_RESULTS=away routebench suite accuracy"
    empty = call("status", ROUTEBENCH_RESULTS="far")
    assert "from the environment: ROUTEBENCH_RESULTS=far" in empty.error and "'far'" in empty.error


WORD = re.compile(r"(?<![\w/-])--[a-z][a-z0-9-]*[a-z0-9](?!-)")
CALL = re.compile(r"routebench ([a-z-]+)((?: [^`\n|]*)?)")
OF_OTHERS = {
    "array", "backend-store-uri", "cpus-per-task", "env", "error-unmatch", "exclude-standard", "factor", "figures",
    "fix", "force-reinstall", "gres", "head", "index-url", "job-name", "logdir", "others", "query-gpu", "time", "user",
    "volume",
}  # fmt: skip
"""Options of other programs that texts name."""
FORMER = {"cell", "gpus-per-cell"}
"""Options of before, which the command line still reads."""


def texts():
    """Every text of the source, and every page, by place."""
    for file in (ROOT / "routebench").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value
    for pattern in ("*.md", "docs/**/*.md"):
        for file in ROOT.glob(pattern):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def options_of_commands():
    """The options of each command, and under the empty name all of them."""
    context = click.Context(cli.cli)
    commands = {name: cli.cli.get_command(context, name) for name in cli.cli.list_commands(context)}
    found = {
        name: {"--help", *(word for one in command.params for word in (*one.opts, *one.secondary_opts))}
        for name, command in commands.items()
    }
    own = {word for one in cli.cli.params for word in (*one.opts, *one.secondary_opts)}
    return {name: words | own for name, words in found.items()} | {"": set().union(own, *found.values())}


def test_every_option_that_a_text_names_is_one_of_its_command():
    known = options_of_commands()
    others = {f"--{word}" for word in (*OF_OTHERS, *FORMER)}
    named, wrong = set(), []
    for place, text in texts():
        words = WORD.findall(text)
        named |= {*words}
        wrong += [(place, word) for word in words if word not in known[""] | others]
        for command, rest in CALL.findall(text):
            own = rest.partition(" -- ")[0]  # what follows is for other commands
            wrong += [(place, command, word) for word in WORD.findall(own) if word not in known.get(command, {word})]
    assert wrong == []
    assert others <= named, "no text names it now: take it out of the list"
