"""`routebench list`: what there is to run."""

from typing import Any

import click

from routebench.catalogue import KINDS, presets_told
from routebench.commands import options
from routebench.errors import unknown
from routebench.options import Execution
from routebench.terminal import answer, in_columns, room, tell


def _kinds(_context: click.Context, _argument: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command()
@click.argument("kind", required=False, metavar=f"[{'|'.join(KINDS)}]", shell_complete=_kinds)
@options.of(Execution, only="plugins")
def command(kind: str | None, plugins: tuple[str, ...]) -> None:
    """List methods, models, data sets, suites, analyses and more."""
    from routebench.catalogue import catalogue
    from routebench.engine.isolation import with_plugins

    if kind and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    asked = (kind,) if kind else KINDS
    known = with_plugins(plugins, catalogue, plugins, asked)
    answer(lambda: known[kind] if kind else known)
    for name in asked:
        if kind is None:
            tell(f"{name}:")
        titles, *rows = presets_told(known[name]) if name == "presets" else [(), *map(_row, known[name])]
        for line in in_columns(rows, room("  "), titles=titles, names=2 if titles else 1):
            tell(f"  {line}")


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    return entry["name"], _size(entry), f"{entry['summary']}{_origin(entry)}"


def _size(entry: dict[str, Any]) -> str:
    if "parameters" not in entry:
        return ""
    return "cannot be built" if entry["parameters"] is None else f"{entry['parameters']:>10,} parameters"


def _origin(entry: dict[str, Any]) -> str:
    return f" ({entry['origin']})" if "origin" in entry else ""
