"""An option that is declared once is the same on the command line and in Python: name, default, legal values, text."""

import inspect
from dataclasses import replace

import click
import pytest

import routebench
from routebench.commands import rank, suite, tune
from routebench.errors import UserError
from routebench.kernels import BACKENDS
from routebench.options import RankOptions, SuiteOptions, TuneOptions, Word, options_of

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


@pytest.mark.parametrize(("function", "kind"), [(routebench.run_suite, SuiteOptions), (routebench.rank, RankOptions)])
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
