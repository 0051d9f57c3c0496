"""A results folder as a suite leaves it, without training: what is found in each cell is given."""

from collections.abc import Callable
from pathlib import Path

from routebench.analysis import Runs
from routebench.analysis.folder import open_folder
from routebench.engine.results import Store
from routebench.engine.running._cell import make_record
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Cell, Plan
from routebench.protocols.base import Measurement


def parts_of(made: Plan, folder: Path, measure: Callable[[Cell], Measurement | str | None]) -> tuple[Runs, ...]:
    """The parts of a folder that holds a plan and its records.

    Args:
        made: the plan.
        folder: where it is written.
        measure: what is found in a cell; why it failed; or None for one that was not run.
    """
    store = Store(folder)
    store.prepare()
    write_plan(made, store)
    for cell in made.cells:
        found = measure(cell)
        if isinstance(found, str):
            store.write_record(make_record(cell, "failed", found, Measurement([]), {"seconds": 1.0}), {})
        elif found is not None:
            store.write_record(make_record(cell, "ok", "", found, {"seconds": 1.0}), found.arrays)
    return tuple(open_folder(folder).parts)
