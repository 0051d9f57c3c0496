"""What several commands take, and how they print."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from routebench.errors import UserError, printable
from routebench.quantities import seconds, size

SOME_FAILED, NOTHING_MEASURED, INTERRUPTED = 3, 4, 130
PIPE_WIDTH = 200
"""Characters in a line of a table that is not printed to a terminal."""

folder = click.argument("folder", type=click.Path(path_type=Path), default=Path("results"), metavar="[DIR]")

device = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where networks run.",
)


class Quantity(click.ParamType[float]):
    """A number with a unit.

    Args:
        name: what it is, in help.
        read: from what is typed to the number; raises `UserError`.
    """

    def __init__(self, name: str, read: Callable[[str], float]):
        self.name, self.read = name, read

    def convert(self, value: Any, _option: click.Parameter | None, _context: click.Context | None) -> Any:
        """The number; an error names the option."""
        try:
            return self.read(value) if isinstance(value, str) else value
        except UserError as error:
            self.fail(str(error), _option, _context)


TIME, SIZE = Quantity("time", seconds), Quantity("size", size)


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


def say(console: Any, text: str) -> None:
    """Prints text as it is, without wrapping, and shows characters that would steer the terminal."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
