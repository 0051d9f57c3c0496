"""`routebench status`: tells how far every plan has come."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands import options
from routebench.quantities import plural
from routebench.terminal import answer, tell

if TYPE_CHECKING:
    from routebench.engine.results import Store

FAILED = ("cell", "label", "iterations", "model", "seed", "status", "reason")
"""What is told of a run without a result, as columns of `load_results`."""


@click.command()
@options.folder
@click.option("--verify", is_flag=True, help="Read every file that a record names, and verify its checksum.")
@click.option("--code", "tells_code", is_flag=True, help="Say which code made the results.")
def command(folder: Path, verify: bool, tells_code: bool) -> None:
    """Say how far every plan has come, and what failed.

    Exit code 3 with --verify: a plan, a record or raw outputs are damaged.
    """
    from routebench.engine.results import existing, preset_in_words

    store = existing(folder)
    records, files = store.verify() if verify else (0, 0)
    planned = store.planned()
    damaged = store.damaged if verify else []
    plans: list[dict[str, Any]] = []
    for names, cells in planned.groupby(["suite", "preset", "data"], sort=False):
        counts = cells["status"].value_counts()
        told = ", ".join(f"{counts[state]} {state}" for state in counts.index.astype(str))
        suite_name, preset, data = map(str, names)
        tell(f"{suite_name}, {preset_in_words(preset)}, {data}: {told} of {plural(len(cells), 'run')}")
        without = cells[~cells["status"].isin(["ok", "not run"]) | (cells["reason"] != "")].to_dict("records")
        for row in without:
            steps = f" T={row['iterations']}" if isinstance(row["iterations"], int) else ""
            tell(f"  {row['label']}{steps} on {row['model']}, seed {row['seed']}: {row['status']}: {row['reason']}")
        failed = [{name: row[name] for name in FAILED} for row in without]
        plans.append({"suite": suite_name, "preset": preset, "data": data, "runs": counts.to_dict(), "failed": failed})
    if earlier := _earlier(store):
        told = f"{plural(earlier, 'result')} of other code, options or training"
        tell(f"not counted, as newer plans have taken their place: {told}")
    wanted, codes = [*_wanted(store)], [*_codes(store)] if tells_code else []
    for line in (*(f"  {pair}" for pair in wanted), *codes):
        tell(line)
    if verify:
        named = f"{plural(records, 'record')}, and {plural(files, 'file')} that they name"
        tell(f"verified: {named}, are as they were written")
    more: dict[str, Any] = {"earlier": earlier, **({"code": codes} if tells_code else {})}
    more |= {"verified": {"records": records, "files": files, "damaged": damaged}} if verify else {}
    answer(lambda: {"plans": plans, "wanted": wanted, **more})
    options.warn(store)
    if planned.empty:
        click.echo(f"nothing was planned in {str(folder)!r} yet; run `python -m routebench suite NAME` first", err=True)
        sys.exit(options.NOTHING_MEASURED)
    if damaged:
        sys.exit(options.SOME_FAILED)


def _earlier(store: "Store") -> int:
    """The number of results whose place newer plans have given to others."""
    known = store.records().facts
    pairs = zip(known["cell"].items(), known["status"].items(), strict=True)
    return len({cell for cell, status in pairs if status == "ok"} & store.superseded())


def _codes(store: "Store") -> Iterator[str]:
    """Counts results by suite and code, the most first."""
    made = Counter(
        (
            record.identity.suite,
            str(record.provenance.get("commit") or "no commit")[:12],
            record.provenance.get("dirty"),
        )
        for record in store.records()
    )
    for (suite, commit, is_dirty), count in made.most_common():
        yield f"code {commit}{', changed since' if is_dirty else ''}: {plural(count, 'result')} of {suite}"


def _wanted(store: "Store") -> Iterator[str]:
    """The number of seeds that each pre-specified comparison still needs, where a half-width was asked for."""
    if all(head.get("primary", {}).get("half_width") is None for head in store.plan_heads()):
        return
    from routebench.analysis.folder import open_folder  # takes two seconds
    from routebench.analysis.named import named_pairs

    opened = open_folder(store.path)
    for runs in opened.parts:
        yield from (str(pair) for pair in named_pairs(runs) if pair.half_width is not None)
    store.warnings += [told for told in opened.warnings if told not in store.warnings]
