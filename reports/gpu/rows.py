"""Writes the results of a script to a CSV file, row by row, so that a stopped script can go on."""

import csv
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import torch

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """The options of every script.

    Args:
        device: the device to measure.
        output: folder for results.
        ends: on the monotonic clock; nothing new starts later.
        tiny: use sizes that only show that the script works.
    """

    device: torch.device
    output: Path
    ends: float
    tiny: bool

    def in_time(self, things: Iterable[T]) -> Iterator[T]:
        """Yields the things until the time is over.

        Raises:
            SystemExit: something is left. `run.py` then runs this part again in its next call.
        """
        for thing in things:
            if time.monotonic() > self.ends:
                raise SystemExit(f"the budget left {thing} and what comes after it; the same command goes on with it")
            yield thing


def options(command: Any) -> Any:
    """Adds the options of every script, which become a `Call`."""
    for option in (
        click.option("--tiny", is_flag=True, help="Use sizes that only show that it works."),
        click.option("--seconds", type=float, default=600, show_default=True, help="Start nothing later than this."),
        click.option("--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder."),
        click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True),
    ):
        command = option(command)
    return command


def call(device: str, output: Path, seconds: float, tiny: bool) -> Call:
    """The call that the options ask for."""
    return Call(torch.device(device), output, time.monotonic() + seconds, tiny)


class Rows:
    """A CSV file. Its first columns are the key of a row."""

    def __init__(self, path: Path, keys: tuple[str, ...], values: tuple[str, ...]):
        self.path, self.keys, self.columns = path, keys, (*keys, *values)
        self.known = {tuple(row[key] for key in keys) for row in self.read()}

    def read(self) -> list[dict[str, str]]:
        """All whole rows. A row that a killed script was writing is left out."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]

    def has(self, *key: object) -> bool:
        """Whether there is a row with this key."""
        return tuple(str(part) for part in key) in self.known

    def add(self, row: Mapping[str, object]) -> None:
        """Writes a row at once."""
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="", lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.known.add(tuple(str(row[key]) for key in self.keys))
