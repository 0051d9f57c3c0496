"""The published comparisons that a method can join, and where their results lie."""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from routebench.analysis import Runs, open_folder
from routebench.engine.results import COLUMNS, Record, Store
from routebench.engine.suites import load_suite
from routebench.errors import UserError, unknown
from routebench.received import from_json, permitted, read_plain

FOLDER = Path(__file__).parent / "boards"
ACCURACY = "accuracy"
SUMS = "board.json"
"""The checksums of a shipped board's files, and of the files of the pack that they were taken from."""
PACKED = ("records.parquet", "arrays.parquet")


@dataclass(frozen=True)
class Board:
    """A published comparison: a preset of a suite, whose methods were all tuned with one budget.

    Args:
        name: its name in commands.
        suite, preset: what was trained and measured.
        seeds: number of seeds of each configuration.
        tuned_on: the preset whose trials chose the settings.
        tuned_by: its suite; empty for the board's own.
        question: the question that a place on it answers.
        pack: the folder of published results that it is taken from; empty for a suite of one's own.
        counted: the images whose share is the accuracy.
        measure: the measure in % that is ranked. Answers to images are kept, and can be checked, of `accuracy` alone.
        where: coordinates of its one value for each run.
        unread: kinds of parts that it does not depend on, so that their versions may differ.
    """

    name: str
    suite: str
    preset: str
    seeds: int
    tuned_on: str
    question: str
    pack: str = ""
    counted: str = "test images with the right class"
    tuned_by: str = ""
    measure: str = ACCURACY
    where: Mapping[str, Any] = field(default_factory=dict)
    unread: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        """The folder of its results in the package."""
        return FOLDER / self.name

    @property
    def part(self) -> tuple[str, str]:
        """Suite and preset, as results have them."""
        return Path(self.suite).stem if self.suite.endswith(".toml") else self.suite, self.preset

    @property
    def tuning(self) -> str:
        """The suite whose trials chose the settings."""
        return self.tuned_by or self.suite

    @property
    def data(self) -> tuple[str, ...]:
        """The names that its data set has in results: all of its images, or as many as the preset takes."""
        preset = load_suite(self.suite).preset(self.preset)
        return (preset.data,) if preset.take is None else (preset.data, f"take:{preset.take}:{preset.data}")

    def among(self, parts: Sequence[Runs]) -> Runs | None:
        """The runs on its data set and network, with what it ranks as their accuracy; None where there are none.

        Args:
            parts: all runs of a folder, the newest first.
        """
        networks = {name.partition("[")[0] for name in load_suite(self.suite).preset(self.preset).models}
        data = self.data
        own = [one for one in parts if (one.suite, one.preset) == self.part and one.data in data]
        own = [one for one in own if not one.model or not networks or one.model.partition("[")[0] in networks]
        return self.of(own[0]) if own else None

    def of(self, runs: Runs) -> Runs:
        """The runs of the board, with what it ranks as their accuracy.

        Args:
            runs: runs of its suite.
        """
        if self.measure == ACCURACY:
            return runs
        ranked = runs.values(self.measure, **self.where).index
        results = runs.results[runs.results["metric"] != ACCURACY].astype({"metric": object, "split": object})
        results.loc[ranked, ["metric", "split"]] = ACCURACY, "test"
        results.loc[ranked, "test_iterations"] = results.loc[ranked, "iterations"]
        results.loc[ranked, [column for column in results if column not in COLUMNS]] = pd.NA  # it is of all test images
        return replace(runs, results=results, correct=lambda _: None)

    def reads(self, part: str) -> bool:
        """Tells whether what it ranks depends on a part.

        Args:
            part: kind and name, such as `corruption pixelate`.
        """
        return part.partition(" ")[0] not in self.unread

    @property
    def title(self) -> str:
        """Board, suite and preset in a few words."""
        suite, preset = self.part
        return f"board {self.name}: suite {suite}, preset {preset}"


BOARDS = {
    name: Board(name, **facts) for name, facts in tomllib.loads((FOLDER / "boards.toml").read_text("utf-8")).items()
}
"""All boards, by name."""


def board_of(name: str) -> Board:
    """A board by name, or one of a suite of one's own, `FILE.toml:PRESET`, whose results `--beside` names.

    Raises:
        UserError: there is none of that name, or no such suite or preset.
    """
    suite, colon, preset = name.rpartition(":")
    if colon:
        known = load_suite(suite).preset(preset)
        return Board(name, suite, preset, len(known.seeds), preset, load_suite(suite).question)
    if name not in BOARDS:
        raise unknown("board", name, BOARDS)
    return BOARDS[name]


def expect_primary(board: Board, until: float | None) -> None:
    """Checks that seeds can be added on a board.

    Args:
        board: the board.
        until: the half-width that is asked for, in points; None where none is.

    Raises:
        UserError: its suite names no comparison beforehand, whose interval could be narrowed.
    """
    if until is not None and load_suite(board.suite).primary is None:
        raise UserError(f"--until: expected a board whose suite has a table [primary], and {board.title} has none")


@dataclass(frozen=True)
class PublishedBoard:
    """The published results of a board.

    Args:
        board: the board.
        runs: its methods, as analyses read them.
        store: the folder that they lie in.
        origin: the pack that they were taken from, in words.
    """

    board: Board
    runs: Runs
    store: Store
    origin: str

    def record(self, key: str) -> Record:
        """The record of one of its runs."""
        found = self.store.record(key)
        if found is None:
            raise UserError(f"{self.board.title}: the published record {key} is missing; install routebench again")
        return found


def published(board: Board, beside: Path | None = None) -> PublishedBoard:
    """The published results of a board.

    Args:
        board: the board.
        beside: a results folder or a pack whose results stand in place of those in the package; None for these.

    Raises:
        UserError: they are damaged, or the folder holds no such comparison.
    """
    folder = beside or board.folder
    origin = str(beside) if beside else _origin(board)
    if beside is None and board.name not in BOARDS:
        raise UserError(f"board {board.name}: expected --beside with a folder of its results, got none")
    found = open_folder(folder)
    runs = board.among(found.parts)
    if runs is None:
        others = sorted({f"{one.data} in {one.model}" for one in found.parts if (one.suite, one.preset) == board.part})
        got = f"those of {', '.join(others)}" if others else "none"
        raise UserError(f"{str(folder)!r}: expected results of {board.title}, data set {board.data[0]}, got {got}")
    if damaged := found.store.damaged:
        raise UserError(f"{str(folder)!r}: expected published results that are whole, got: {damaged[0]}")
    return PublishedBoard(board, runs, found.store, origin)


def _origin(board: Board) -> str:
    """The pack that a shipped board was taken from.

    Raises:
        UserError: its files are not those that were shipped.
    """
    told = f"{board.title}: its published results are damaged; install routebench again, or name a pack with --beside"
    try:
        sums = from_json(read_plain(permitted(board.folder / SUMS))[0])
        held = {name: hashlib.sha256(read_plain(permitted(board.folder / name))[0]).hexdigest() for name in PACKED}
    except (OSError, ValueError) as error:
        raise UserError(told) from error
    if held != sums["files"]:
        raise UserError(told)
    return str(sums["pack"])
