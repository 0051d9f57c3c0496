"""`routebench list`: what there is to run."""

import json

import click

KINDS = ("methods", "models", "data", "suites", "analyses", "protocols")


@click.command()
@click.argument("kind", type=click.Choice(KINDS), required=False, metavar=f"[{'|'.join(KINDS)}]")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, as JSON.")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE.py[:Name]", help="List what this file adds, too.")
def command(kind: str | None, as_json: bool, plugins: tuple[str, ...]) -> None:
    """List methods, models, data sets, suites, analyses and protocols."""
    from routebench.catalogue import catalogue

    known = catalogue(plugins)
    if as_json:
        click.echo(json.dumps(known[kind] if kind else known, indent=2))
        return
    for name in [kind] if kind else KINDS:
        if kind is None:
            click.echo(f"{name}:")
        width = max((len(entry["name"]) for entry in known[name]), default=0)
        for entry in known[name]:
            count = f"  {entry['parameters']:>10,} parameters" if "parameters" in entry else ""
            click.echo(f"  {entry['name']:<{width}}{count}  {entry['summary']}")
