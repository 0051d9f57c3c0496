"""`routebench forget`: takes a method out of a results folder."""

from pathlib import Path

import click

from routebench.commands import options
from routebench.terminal import answer, tell


@click.command()
@click.argument("method", shell_complete=options.known("methods"))
@options.folder
@click.option("--yes", is_flag=True, help="Remove it. Without this, the command only says what it would remove.")
def command(method: str, folder: Path, yes: bool) -> None:
    """Take METHOD, as tables name it in `status`, out of a results folder: its runs, and its rows in reports.

    Networks that were trained for it stay in `fits/`.
    """
    from routebench.engine.results import existing

    store = existing(folder)
    with options.warning_of(store):
        counts = store.forget(method, only_count=not yes)
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    if not yes:
        tell(f"would remove {method}: {told}; add --yes to do so")
    else:
        tell(f"removed {method}: {told}; `routebench report` writes the page anew")
    answer(lambda: {"method": method, "runs": counts, "removed": yes})
