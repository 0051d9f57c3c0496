"""`routebench list`: what there is to run."""

import json
from typing import Any

import click

from routebench.catalogue import KINDS
from routebench.commands import options
from routebench.errors import unknown
from routebench.options import Execution


@click.command()
@click.argument("kind", required=False, metavar=f"[{'|'.join(KINDS)}]")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON.")
@options.of(Execution, only="plugins")
def command(kind: str | None, as_json: bool, plugins: tuple[str, ...]) -> None:
    """List methods, models, data sets, suites, analyses and more."""
    from routebench.catalogue import catalogue
    from routebench.engine.isolation import with_plugins

    if kind and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    asked = (kind,) if kind else KINDS
    known = with_plugins(plugins, catalogue, plugins, asked)
    if as_json:
        click.echo(json.dumps(known[kind] if kind else known, indent=2))
        return
    for name in asked:
        if kind is None:
            click.echo(f"{name}:")
        width = max((len(entry["name"]) for entry in known[name]), default=0)
        for entry in known[name]:
            click.echo(f"  {entry['name']:<{width}}{_size(entry)}  {entry['summary']}{_origin(entry)}")


def _size(entry: dict[str, Any]) -> str:
    if "parameters" not in entry:
        return ""
    return "  cannot be built        " if entry["parameters"] is None else f"  {entry['parameters']:>10,} parameters"


def _origin(entry: dict[str, Any]) -> str:
    return f" ({entry['origin']})" if "origin" in entry else ""
