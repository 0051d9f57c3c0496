"""`routebench publish`: a results folder packed into two files, to commit, attach or send."""

import contextlib
import sys
from pathlib import Path

import click

from routebench.commands import options
from routebench.quantities import plural
from routebench.terminal import answer, tell


@click.command()
@options.folder
@options.new_folder("no results")
@click.option(
    "--unpack", "unpacks", is_flag=True, help="Unpack DIR, a pack, into a results folder to which runs can be added."
)
@click.option("--networks", is_flag=True, help="Trained networks, too, in a third file, for `routebench.load_fit`.")
def command(folder: Path, output: Path, unpacks: bool, networks: bool) -> None:
    """Pack a results folder into two files: plans and records, and raw outputs, each byte for byte.

    All commands read a pack as they read the folder; only `suite` and `tune` cannot add to it. Without --networks,
    trained networks are left out; records keep their checksums. Of a folder with damaged files nothing is packed.

    Exit code 3: a plan, a record or raw outputs are damaged.
    """
    from routebench.engine.results import existing, is_packed, pack, unpack
    from routebench.errors import UserError, shown

    if unpacks and networks:
        raise UserError("--networks: expected a results folder to pack, got --unpack, which unpacks all; leave one out")
    if unpacks:
        files = unpack(folder, output)
        store = existing(output)
        with options.warning_of(store), contextlib.suppress(UserError):  # of an earlier schema, which `migrate` reads
            store.records()
            store.tell_lost()
        tell(f"unpacked: {plural(files, 'file')} in {shown(output)}")
        answer(lambda: {"folder": output, "files": files, "damaged": store.damaged})
        if store.damaged:
            sys.exit(options.SOME_FAILED)
        return
    store = existing(folder)
    if is_packed(folder):
        raise UserError(f"{str(folder)!r} is packed already; --unpack makes a results folder of it")
    with options.warning_of(store):
        count, _ = store.verify()
    if not count:
        click.echo("nothing was measured yet", err=True)
        answer(lambda: {"folder": None, "files": 0, "results": 0})
        sys.exit(options.NOTHING_MEASURED)
    if store.damaged:
        click.echo(
            f"nothing is published: {plural(len(store.damaged), 'warning')} above; make readable what cannot be read; "
            "the same `suite` command measures again what is damaged; to publish without it, delete it from damaged/, "
            "and of raw outputs also the record",
            err=True,
        )
        answer(lambda: {"folder": None, "files": 0, "results": count, "damaged": store.damaged})
        sys.exit(options.SOME_FAILED)
    held = pack(folder, output, networks=networks)
    size = sum(file.stat().st_size for file in output.glob("*.parquet"))
    tell(f"published: {plural(held, 'file')} of {plural(count, 'result')} in {shown(output)}, {size / 1e6:.1f} MB")
    answer(lambda: {"folder": output, "files": held, "results": count, "bytes": size})
