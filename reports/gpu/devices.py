"""How well a suite uses several devices, by measured times: `python -m reports.gpu.devices RESULTS [RESULTS ...]`.

The engine's own loop and queue run; only the cells do nothing but take the time that their records say. A device runs
one cell at a time. Starting a cell is taken to cost nothing, and devices do not slow each other down.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import pandas as pd

from routebench.engine.results import Record, existing
from routebench.engine.running import Listener, Queue
from routebench.engine.running._claim import Done, End
from routebench.engine.running._config import Stage
from routebench.engine.running._queue import most_informative_first
from routebench.engine.running._run import run
from routebench.engine.running._times import Times
from routebench.engine.suites import Cell

DEVICES = (1, 2, 4, 8)


class Devices:
    """An executor whose cells take the time of their records, by a clock of its own.

    Args:
        count: of devices.
        records: of the cells, by key.
    """

    def __init__(self, count: int, records: Mapping[str, Record]):
        self.count, self.records, self.now = count, records, 0.0
        self.running: list[tuple[float, Cell]] = []

    @property
    def room(self) -> int:
        """Devices without a cell."""
        return self.count - len(self.running)

    def start(self, cell: Cell) -> None:
        """Gives a cell to a free device."""
        self.running.append((self.now + seconds(self.records[cell.key]), cell))

    def finished(self) -> Iterator[tuple[Cell, End]]:
        """Turns the clock to the end of the next cell."""
        self.running.sort(key=lambda ending: ending[0])
        self.now, cell = self.running.pop(0)
        yield cell, Done(self.records[cell.key])

    def stages(self) -> Mapping[str, Stage]:
        """Nothing is shown."""
        return {}

    def close(self) -> None:
        """Nothing runs."""


def seconds(record: Record) -> float:
    """What a cell took."""
    return float(record.provenance["seconds"])


def takes(records: Iterable[Record], devices: int) -> float:
    """Seconds of a suite on so many devices."""
    by_key = {record.cell: record for record in records}
    executor = Devices(devices, by_key)
    times = Times()
    for record in by_key.values():
        times.add(record.identity, seconds(record))
    queue = Queue(most_informative_first(Cell(record.identity) for record in by_key.values()), times)
    assert len(list(run(executor, queue, Listener()))) == len(by_key)
    return executor.now


def table(folders: Iterable[Path]) -> pd.DataFrame:
    """For each suite: its cells, seconds on one device, and the share of several devices' time that they compute."""
    rows = []
    for folder in folders:
        done: dict[str, list[Record]] = {}
        for record in existing(folder).records():
            if record.status == "ok" and record.identity.protocol != "cost":  # which never runs beside anything
                done.setdefault(record.identity.suite, []).append(record)
        for suite, records in sorted(done.items()):
            times = {devices: takes(records, devices) for devices in DEVICES}
            rows.append(
                {
                    "results": folder.name,
                    "suite": suite,
                    "cells": len(records),
                    "longest, s": max(map(seconds, records)),
                    "one device, s": times[1],
                    **{f"{count} devices, %": 100 * times[1] / (count * times[count]) for count in DEVICES[1:]},
                }
            )
    return pd.DataFrame(rows)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(results: tuple[Path, ...]) -> None:
    """Says which share of several devices' time the suites in RESULTS would compute."""
    click.echo(table(results).round(1).to_markdown(index=False))


if __name__ == "__main__":
    main()
