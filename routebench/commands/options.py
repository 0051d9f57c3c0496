"""Options and printing that several commands share."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import click
from annotated_types import Ge, Le
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from routebench.errors import VERBOSE, UserError, printable
from routebench.options import (
    Either,
    Execution,
    File,
    Flag,
    Location,
    Option,
    OptionalFolder,
    Paths,
    Whole,
    Word,
    options_of,
    taken_from_environment,
)
from routebench.terminal import Voice

SOME_FAILED, NOTHING_MEASURED, FAULT, INTERRUPTED, TERMINATED = 3, 4, 70, 130, 143

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class Typed(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes no type
    """The values of an option, as they are typed; an error names the option."""

    def __init__(self, option: Option[Any, Any]):
        self.option, self.name = option, option.metavar or "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        try:
            return self.option.typed(value) if isinstance(value, str) else value
        except UserError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words, files or folders that may be meant."""
        if isinstance(self.option, Word):
            return click.Choice(self.option.legal.choices).shell_complete(ctx, param, incomplete)
        if isinstance(self.option, Location | File | OptionalFolder | Paths):
            return click.Path().shell_complete(ctx, param, incomplete)
        return known(self.option.names)(ctx, param, incomplete) if self.option.names else []


def known(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Completes names of one kind of the catalogue for a shell; and files, where none fits."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from routebench.catalogue import names_at_once

        names = names_at_once(kind, str(context.params.get("suite") or ""))
        found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]

    return complete


PATH, FILE = Typed(Location(..., "", "PATH")), Typed(File(..., "", "FILE"))


def whole(*bounds: Ge | Le) -> Typed:
    """An integer within bounds."""
    return Typed(Whole(..., "", "N", *bounds))


def of(kind: type, *, only: str = "", without: str = "", **texts: str) -> Decorator:
    """The options of a dataclass, for a command that gets each by its name.

    Args:
        kind: a dataclass of options.
        only: names of those that the command has, in their order in help; empty for all.
        without: names of those that it does not have.
        texts: other texts of some, by name.
    """
    known = {name: option for name, option in options_of(kind).items() if option.default is not ...}
    names = [name for name in only.split() or known if name not in without.split()]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command = _surrounded(command, kind, names)
        for name in reversed(names):
            command = _option(name, known[name], texts.get(name) or known[name].in_help(known))(command)
        return command

    return decorate


def _surrounded(command: Callable[..., None], kind: type, names: Collection[str]) -> Callable[..., None]:
    """A command that takes options from the environment where they are not typed."""
    others = options_of(kind).keys() - {*names}

    @functools.wraps(command)
    def surrounded(**asked: Any) -> None:
        source = click.get_current_context().get_parameter_source
        typed = {name for name in names if source(name) is not ParameterSource.DEFAULT}
        command(**asked | taken_from_environment(kind, others | typed))

    return surrounded


def _option(name: str, option: Option[Any, Any], text: str) -> Decorator:
    """The option of a command."""
    if isinstance(option, Flag):
        return click.option(f"--{option.flag}", name, is_flag=True, help=text)
    if isinstance(option, Either):
        return click.option(f"--{option.flag}/--no-{option.flag}", name, default=None, help=text)
    short = ("-o",) if option.flag == "output" else ()
    return click.option(
        *short, f"--{option.flag}", name, type=Typed(option), default=option.default, multiple=option.repeats,
        metavar=option.metavar, show_default=option.default not in (None, ()), help=text,
        callback=_with_environment if "ROUTEBENCH_PLUGINS" in option.text else None,
    )  # fmt: skip


def _heard(context: click.Context, option: click.Parameter, given: bool) -> None:
    """Takes down how a command speaks, whether the option stands before its name or behind it."""
    voice = context.ensure_object(Voice)
    if not given or getattr(voice, str(option.name)) or context.resilient_parsing:  # a shell completes the command
        return
    setattr(voice, str(option.name), True)
    if voice.quiet and voice.verbose:
        raise click.UsageError("expected --quiet or --verbose, got both; leave one out", context)
    if option.name == "json":
        voice.out = sys.stdout
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    if option.name == "verbose":
        os.environ[VERBOSE] = "1"  # for the processes of runs


def _speech(name: str, short: tuple[str, ...], text: str) -> click.Option:
    return click.Option(
        (*short, f"--{name}", name), is_flag=True, is_eager=True, expose_value=False, callback=_heard, help=text
    )


SPEECH = (
    _speech("json", (), "Print the answer as JSON, alone on standard output; all else goes to standard error."),
    _speech("quiet", ("-q",), "Print the answer, warnings and errors, and nothing on the way."),
    _speech("verbose", ("-v",), "Print the calls behind an error, and what runs print."),
)
"""The options of every command that say how it speaks."""


def folder(command: Callable[..., None]) -> Callable[..., None]:
    """The results folder, as an argument or as `suite` takes it: `--results DIR`. The command gets it as `folder`."""

    @click.argument("folder", type=PATH, required=False, metavar="[DIR]")
    @click.option(
        "--results", type=PATH, metavar="DIR", help="The same as DIR (ROUTEBENCH_RESULTS)  [default: results]."
    )
    @functools.wraps(command)
    def with_folder(*, folder: Path | None, results: Path | None, **others: Any) -> None:
        if folder is not None and results is not None and folder != results:
            raise UserError(f"expected one results folder, got {str(folder)!r} and --results {str(results)!r}")
        known = (
            {} if folder or results else taken_from_environment(Execution, options_of(Execution).keys() - {"results"})
        )
        command(folder=folder or results or known.get("results", Execution.results), **others)

    return with_folder


def new_folder(holds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`-o FOLDER`, which a command writes into and gets as `output`; `holds` is what it may hold, for help."""
    told = f"Folder to write into; it must hold {holds} yet."
    return click.option("-o", "--output", type=PATH, metavar="FOLDER", required=True, help=told)


def _with_environment(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from routebench.registry import plugins_of_environment

    return tuple(dict.fromkeys([*plugins_of_environment(), *given]))


def begin(asked: dict[str, Any], *, dry_run: bool) -> None:
    """Refuses unknown names before torch is imported, and starts what a dry run forks from, for `suite` and `tune`.

    Raises:
        UserError: a suite, preset, method, network or data set is unknown.
    """
    from routebench.catalogue import refuse_unknown
    from routebench.engine.isolation import start_early

    refuse_unknown(
        **{name: asked[name] for name in ("plugins", "suite", "preset", "methods", "models", "data", "loss")}
    )
    if dry_run and asked["plugins"]:
        start_early()


def warn(*stores: Any) -> None:
    """Tells what is damaged in results folders, a line each."""
    for warning in dict.fromkeys(warning for store in stores for warning in store.warnings):
        click.echo(f"warning: {printable(warning)}", err=True)


@contextlib.contextmanager
def warning_of(*stores: Any) -> Iterator[None]:
    """Warns as `warn` of what is found meanwhile, also where it ends in an error: damage may be its cause."""
    try:
        yield
    finally:
        warn(*stores)


def say(console: Any, text: str) -> None:
    """Prints text as it is, without wrapping, and shows characters that would steer the terminal."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
