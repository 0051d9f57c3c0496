"""The one loop: which cell is started when, whatever executor runs it. Executors here are pretended."""

import pytest

from routebench.engine.isolation import Isolated
from routebench.engine.running import Listener, Queue, RunConfig
from routebench.engine.running._cell import make_record
from routebench.engine.running._claim import Done, HeldElsewhere, TryAgain
from routebench.engine.running._limits import Monitor
from routebench.engine.running._processes import Processes
from routebench.engine.running._run import run
from routebench.protocols import Measurement


class Pretended:
    """Two cells at a time. At each look, a cell goes on (None) or ends as its script says next."""

    def __init__(self, scripts):
        self.scripts, self.running, self.seen = scripts, [], []

    @property
    def room(self):
        return 2 - len(self.running)

    def start(self, cell):
        self.seen.append(f"start {cell.key}")
        self.running.append(cell)

    def finished(self):
        for cell in list(self.running):
            end = self.scripts[cell.key].pop(0)
            if end is not None:
                self.running.remove(cell)
                self.seen.append(f"{type(end).__name__} {cell.key}")
                yield cell, end

    def stages(self):
        return {}

    def close(self):
        pass


def seen_of(cells, scripts):
    """What happens, in order, with `done` for the cell's record."""
    one, other = (cell.key for cell in cells)
    done = {cell.key: Done(make_record(cell, "ok", "", Measurement([]), {"seconds": 1.0})) for cell in cells}
    executor = Pretended({key: [done[key] if end == "done" else end for end in scripts[key]] for key in (one, other)})
    records = list(run(executor, Queue(cells), Listener()))
    assert sorted(record.cell for record in records) == sorted(done)
    return executor.seen


def test_a_lost_cell_goes_back_at_once_while_others_run(made):
    one, other = (cell.key for cell in made.cells[:2])
    seen = seen_of(made.cells[:2], {one: [None, None, "done"], other: [TryAgain(), "done"]})
    assert seen == [
        f"start {one}", f"start {other}", f"TryAgain {other}", f"start {other}", f"Done {other}", f"Done {one}",
    ]  # fmt: skip


def test_a_cell_of_another_process_is_looked_at_again_when_nothing_else_runs(made):
    one, other = (cell.key for cell in made.cells[:2])
    seen = seen_of(made.cells[:2], {one: [None, "done"], other: [HeldElsewhere(), HeldElsewhere(), "done"]})
    again = [f"start {other}", f"HeldElsewhere {other}", f"start {other}", f"Done {other}"]
    assert seen == [f"start {one}", f"start {other}", f"HeldElsewhere {other}", f"Done {one}", *again]


def test_processes_that_die_before_they_start_are_given_up(made, store):
    """The cell is not to blame: it is tried again, until three in a row have died so."""
    config, dead, alive = RunConfig("cpu", 1, 1, isolate=True), object.__new__(Isolated), object.__new__(Isolated)
    dead.said = lambda: ("died", 1)
    alive.said = iter([("step", (None, False)), ("answer", ("held", None))] * 2).__next__
    executor = Processes(store, config)
    try:
        for process in (dead, dead, alive, dead, dead):
            expected = HeldElsewhere() if process is alive else TryAgain()
            assert executor._end_of(Monitor(made.cells[0], process, config)) == expected
        with pytest.raises(RuntimeError, match="die before they begin"):
            executor._end_of(Monitor(made.cells[0], dead, config))
    finally:
        executor.close()
