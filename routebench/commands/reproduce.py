"""`routebench reproduce`: tells how a record was made, and whether its numbers come out again."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebench.commands.options import of
from routebench.options import Execution
from routebench.terminal import answer, tell

if TYPE_CHECKING:
    from routebench.engine.results import Record
    from routebench.engine.suites import Cell

DIFFERS, FAILED = 1, 3


@click.command()
@click.argument("record", metavar="RECORD")
@click.option("--run", "again", is_flag=True, help="Run it now, training included, and say whether the numbers agree.")
@of(Execution, only="results", results="Folder in which a run's key is looked up.")
def command(record: str, again: bool, results: Path) -> None:
    """Reproduce a record. Prints its command and what is different now; runs it with --run.

    RECORD is the path of a record, or its run's key, or the beginning of that key. Without --run, nothing is imported
    of the plug-ins that it names.

    Exit codes with --run: 0 the numbers agree; 1 they differ; 3 the run failed. A record of a failure agrees with a
    failure of the same status and, for an error, of the same type and first words.
    """
    from routebench.engine import reproduce
    from routebench.registry import leave_out_environment

    file = reproduce.find_record(record, results)
    known = reproduce.read_record(file)
    leave_out_environment()
    now = reproduce.prepare(known) if again else reproduce.look(known)
    lines = reproduce.commands(known, now, (results, file.absolute().parent.parent))
    for line in lines:
        tell(line)
    different, cell = reproduce.with_plugins(known, now) if again else (reproduce.differences(known, now), None)
    for line in different:
        tell(reproduce.comment(line))
    code, found = (0, {}) if cell is None else _run(file, known, cell, now, bool(different))
    answer(lambda: {"run": known.cell, "commands": lines, "different": different, **found})
    sys.exit(code)


def _run(
    file: Path, known: "Record", cell: "Cell", now: Mapping[str, Any], is_different: bool
) -> tuple[int, dict[str, Any]]:
    """Executes a record's run in a folder that is removed afterwards; returns the exit code, and what came out."""
    from routebench.engine import reproduce
    from routebench.engine.agreement import compare
    from routebench.engine.isolation import Scratch
    from routebench.engine.results import Store

    before = reproduce.arrays_beside(file, known.cell)
    with Scratch() as folder:
        found = reproduce.run_again(cell, Path(folder), now)
        outputs = Store(folder).arrays(found.cell)
    ends = {"then": known.status, "now": found.status}
    agreement = compare(known, found, before, outputs)
    for line in agreement.lines():
        tell(line)
    told: dict[str, Any] = {**ends, "holds": agreement.holds, "agreement": [*agreement.lines()]}
    if agreement.ends is not None:
        return _compare_ends(known, found, agreement.holds), told
    told["exact"] = agreement.is_exact
    if agreement.holds:
        tell(f"the record is reproduced{'' if agreement.is_exact else ' within rounding'}")
        return 0, told
    why = "not as it was is what stands above" if is_different else "nothing is known to have changed"
    tell(f"the record is not reproduced; {why}")
    return DIFFERS, told


def _compare_ends(known: "Record", found: "Record", holds: bool) -> int:
    """The exit code for a record without a result, or a run without one."""
    if holds:
        tell("the failure is reproduced")
        return 0
    if "ok" not in (known.status, found.status):
        tell("the failure is not reproduced: it failed in another way")
    return FAILED if known.status == "ok" else DIFFERS
