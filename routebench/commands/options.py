"""What several commands take, and how they print."""

from pathlib import Path
from typing import Any

import click

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
    """Prints text as it is, without wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
