"""Checks a submission: its files, plans, settings and answers; then trains some of its runs again, and compares."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from routebench.engine import reproduce
from routebench.engine.agreement import Agreement, compare
from routebench.engine.isolation import Scratch
from routebench.engine.results import Record, Store, unpack
from routebench.engine.suites import Cell, ChosenSettings
from routebench.errors import UserError
from routebench.options import RankOptions
from routebench.ranking._boards import board_of, published
from routebench.ranking._measuring import Wanted, best_of, part_of
from routebench.ranking._standing import Standing, standing_of
from routebench.ranking._submission import SETTINGS, ClaimedPlace, about_of, claim_of, inspected


@dataclass(frozen=True)
class Verification:
    """The findings of a verifier on a submission.

    Args:
        about: what the submission says of itself.
        standing: its place, computed again from its records.
        agreements: how the runs that were trained again agree, by what they are called.
        runs: how many trials and runs it has.
        faults: what a maintainer would refuse.
    """

    about: Mapping[str, Any]
    standing: Standing | None
    agreements: Mapping[str, Agreement]
    runs: int
    faults: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Tells whether nothing speaks against it."""
        return not self.faults and all(one.holds for one in self.agreements.values())

    def missed(self, false: int) -> float:
        """The chance that no drawn run is false, where so many of all are.

        Args:
            false: the number of false trials and runs.
        """
        return missed(self.runs, len(self.agreements), false)


def missed(runs: int, drawn: int, false: int) -> float:
    """The chance that none of the drawn runs is false: C(runs - false, drawn) / C(runs, drawn).

    Args:
        runs: the number of all.
        drawn: the number that is trained again.
        false: the number that is false.
    """
    return math.comb(runs - false, drawn) / math.comb(runs, drawn)


def verify(folder: Path, count: int, draw: int, say: Callable[[str], None], beside: Path | None = None) -> Verification:
    """Checks a submission: its files, plans, settings and answers; then trains some of its runs again, and compares.

    Args:
        folder: the submission.
        count: how many runs are trained again; 0 for none.
        draw: a number that the verifier chooses after the submission was made; with the checksum it says which runs.
        say: is called with a line for each run that is trained again.
        beside: results that stand in place of the published ones in the package.

    Raises:
        UserError: it is no submission, or files of it are missing, changed, or lie elsewhere.
    """
    about, seal = about_of(folder)
    known = published(board_of(about["board"]), beside)
    with Scratch() as made:
        own = Path(made) / "results"
        unpack(folder, own)
        plugin = str(folder / about["plugin"])
        wanted = Wanted(known.board, about["method"], RankOptions(plugins=(plugin,), results=own))
        try:
            claim = claim_of(wanted)
            standing, faults = inspected(claim, known)
        except UserError as error:
            return Verification(about, None, {}, 0, (str(error),))
        faults += [*_other_settings(folder, claim), *_beyond(claim)]
        if faults:
            return Verification(about, None, {}, len(claim.cells), tuple(faults))
        agreements = {}
        for cell, record in _drawn(claim, count, f"{seal} {draw}"):
            say(f"training {cell} again")
            agreements[str(cell)] = _again(cell, record, claim.store)
        return Verification(about, standing, agreements, len(claim.cells))


def entry_of(folder: Path, beside: Path | None = None) -> tuple[dict[str, Any], Standing, list[tuple[str, Any]]]:
    """A submission as a board shows it, from its files alone: no code of it is run. `verify` says whether it holds.

    Args:
        folder: the submission.
        beside: results that stand in place of the published ones in the package.

    Returns:
        what it says of itself, its place, and the settings of its ranked configuration, by name.

    Raises:
        UserError: it is no submission, its files have changed, or its results cannot be compared.
    """
    about, _ = about_of(folder)
    known = published(board_of(about["board"]), beside)
    settings = ChosenSettings.read(folder / SETTINGS, about["label"])
    store = Store(folder)
    runs = part_of(store, known.board)
    if runs is None or not any(one.method == about["label"] for one in settings.choices):
        raise UserError(f"{str(folder)!r}: expected results of {about['label']} on {known.board.title}, got none")
    best = best_of(settings, about["label"], known.board)
    standing = standing_of(known, runs, store, about["label"], best.iterations)
    return about, standing, [*best.point.items()]


def _drawn(claim: ClaimedPlace, count: int, seed: str) -> Iterator[tuple[Cell, Record]]:
    """Trials and runs with a result, drawn by the submission's checksum and the verifier's number."""
    found = [(cell, record) for cell in claim.cells if (record := claim.store.record(cell.key)) is not None]
    own = [(cell, record) for cell, record in found if record.status == "ok"]
    random = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest(), 16))
    for place in sorted(random.permutation(len(own))[:count]):
        yield own[place]


def _again(cell: Cell, record: Record, store: Store) -> Agreement:
    """Trains a run again, a plug-in's in a process of its own, and compares."""
    now = reproduce.prepare(record)
    with Scratch() as made:
        found = reproduce.run_again(cell, Path(made), now)
        return compare(record, found, store.arrays(cell.key), Store(Path(made)).arrays(cell.key))


def _other_settings(folder: Path, claim: ClaimedPlace) -> list[str]:
    """Tells of settings that its trials do not choose."""
    stored = ChosenSettings.read(folder / SETTINGS, claim.label)
    one, two = ([each for each in of.choices if each.method == claim.label] for of in (stored, claim.settings))
    return [] if one == two else ["its settings are not those that the rule chooses from its trials"]


def _beyond(claim: ClaimedPlace) -> list[str]:
    """Tells of planned runs that are none of the claim's: a place would count them, and nobody draws them."""
    own = {cell.key for cell in claim.cells}
    more = sorted({*claim.store.planned()["cell"]} - own)
    return [f"it plans {len(more)} runs that are not of this method on this board, such as {more[0]}"] if more else []
