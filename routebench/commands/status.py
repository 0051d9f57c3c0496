"""`routebench status`: how far every plan has come."""

from pathlib import Path

import click

from routebench.commands import options
from routebench.errors import UserError


@click.command()
@options.folder
def command(folder: Path) -> None:
    """Say how far every plan in a results folder has come, and what failed."""
    from routebench.engine.store import Store

    if not folder.is_dir():
        raise UserError(f"expected a results folder, got {str(folder)!r}; run `python -m routebench suite NAME` first")
    store = Store(folder)
    planned = store.planned()
    for names, cells in planned.groupby(["suite", "preset", "data"], sort=False):
        counts = cells["status"].value_counts()
        told = ", ".join(f"{counts[state]} {state}" for state in counts.index.astype(str))
        suite_name, preset, data = map(str, names)
        click.echo(f"{suite_name}, preset {preset}, {data}: {told} of {len(cells)} cells")
        for row in cells[~cells["status"].isin(["ok", "not run"])].to_dict("records"):
            steps = f" T={row['iterations']}" if isinstance(row["iterations"], int) else ""
            click.echo(f"  {row['label']}{steps} seed {row['seed']}: {row['status']}: {row['reason']}")
    if planned.empty:
        click.echo("nothing was planned here yet")
    for warning in store.warnings:
        click.echo(f"warning: {warning}", err=True)
