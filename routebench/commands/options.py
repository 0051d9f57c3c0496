"""Options and printing that several commands share."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from routebench import plain
from routebench.errors import UserError, printable
from routebench.quantities import seconds, seeds, size

SOME_FAILED, NOTHING_MEASURED, FAULT, INTERRUPTED, TERMINATED = 3, 4, 70, 130, 143
PIPE_WIDTH = 200
"""Characters in a line of a table that is not printed to a terminal."""

RESULTS = Path("results")


class _Path(click.Path):
    """A path, as click's `Path`; an empty one, such as of a variable that is not set, is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        return super().convert(value, param, ctx) if value else self.fail("expected a path, got an empty one", param)


PATH = _Path(path_type=Path)


class Count(click.IntRange):
    """A whole number, as click's `IntRange`, whose errors speak of numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            return self.fail(f"expected a whole number{_between(self)}, got {value!r}", param, ctx)
        if abs(number) > plain.LARGEST:
            return self.fail(f"expected a whole number of at most 64 bits, got {value!r}", param, ctx)
        return number


class Amount(click.FloatRange):
    """A finite number, as click's `FloatRange`, whose errors speak of numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isfinite(number):
            return number
        return self.fail(f"expected a number{_between(self)}, got {value!r}", param, ctx)


def _between(numbers: Any) -> str:
    """` from 1 to 1024`, ` above 0 and below 1`, ` of at least 1`."""
    least, most = numbers.min, numbers.max
    if None not in (least, most) and not (numbers.min_open or numbers.max_open):
        return f" from {least} to {most}"
    lower = "" if least is None else f" {'above' if numbers.min_open else 'of at least'} {least}"
    upper = "" if most is None else f" {'below' if numbers.max_open else 'at most'} {most}"
    return f"{lower}{' and' * bool(lower and upper)}{upper}"


def folder(command: Callable[..., None]) -> Callable[..., None]:
    """The results folder, as an argument or as `suite` takes it: `--results DIR`. The command gets it as `folder`."""

    @click.argument("folder", type=PATH, required=False, metavar="[DIR]")
    @click.option("--results", type=PATH, metavar="DIR", help="The same as DIR  [default: results]")
    @functools.wraps(command)
    def with_folder(*, folder: Path | None, results: Path | None, **others: Any) -> None:
        if folder is not None and results is not None and folder != results:
            raise UserError(f"expected one results folder, got {str(folder)!r} and --results {str(results)!r}")
        command(folder=folder or results or RESULTS, **others)

    return with_folder


def new_folder(holds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`-o FOLDER`, which a command writes into and gets as `output`; `holds` is what it may hold, for help."""
    told = f"Folder to write into; it must hold {holds} yet."
    return click.option("-o", "--output", type=PATH, metavar="FOLDER", required=True, help=told)


class Worded(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes no type
    """A value that is more than a word, such as a number with a unit.

    Args:
        name: its name in help.
        read: turns what is typed into the value; raises `UserError`.
    """

    def __init__(self, name: str, read: Callable[[str], Any]):
        self.name, self.read = name, read

    def convert(self, value: Any, _option: click.Parameter | None, _context: click.Context | None) -> Any:
        """The value; an error names the option."""
        try:
            return self.read(value) if isinstance(value, str) else value
        except UserError as error:
            self.fail(str(error), _option, _context)


TIME, SIZE, SEEDS = Worded("time", seconds), Worded("size", size), Worded("seeds", seeds)


device = click.option(
    "--device",
    type=Worded("device", plain.device),
    default="auto",
    show_default=True,
    metavar="auto|cpu|cuda|cuda:N|mps",
    help="Where networks run; cuda is every GPU that torch sees, cuda:N one of them, mps that of an Apple computer.",
)


def _with_environment(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from routebench.registry import plugins_of_environment

    return tuple(dict.fromkeys([*plugins_of_environment(), *given]))


plugins = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py[:Name]|FOLDER",
    callback=_with_environment,
    help="Methods, models, data sets, protocols, analyses and suites of your own (repeatable). "
    "ROUTEBENCH_PLUGINS names more, separated as in PATH.",
)
beside = click.option(
    "--beside",
    type=PATH,
    metavar="DIR",
    help="Results folder or pack that is shown and tested beside these, as in one folder. It stays as it is.",
)


def begin(asked: dict[str, Any], *, dry_run: bool) -> None:
    """Refuses unknown names before torch is imported, and starts what a dry run forks from, for `suite` and `tune`.

    Raises:
        UserError: a suite, preset, method, network or data set is unknown.
    """
    from routebench.catalogue import refuse_unknown
    from routebench.engine.isolation import start_early

    refuse_unknown(**{name: asked[name] for name in ("plugins", "suite", "preset", "methods", "models", "data")})
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
