"""Checks a submission: its files, plans, settings and answers; then trains some of its runs again, and compares."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from routebench import statistics
from routebench.analysis import BASELINE
from routebench.engine import reproduce
from routebench.engine.agreement import Agreement, compare
from routebench.engine.isolation import Scratch
from routebench.engine.results import (
    Identity,
    Record,
    Store,
    distinct,
    unpack,
)
from routebench.engine.suites import Cell, ChosenSettings
from routebench.errors import UserError
from routebench.options import RankOptions
from routebench.ranking._boards import board_of, published
from routebench.ranking._files import beyond
from routebench.ranking._measuring import Wanted
from routebench.ranking._standing import Standing
from routebench.ranking._submission import SETTINGS, ClaimedPlace, about_of, claim_of, inspected

LEANS = 0.2
"""Points that several runs may claim above what they reach on another machine, on average."""
LEANING_P = 0.01
"""The p below which such a mean is no chance; an honest submission is refused so seldom."""
FEWEST = 3
"""So many runs are needed to see that."""


@dataclass(frozen=True)
class Verification:
    """The findings of a verifier on a submission.

    Args:
        about: what the submission says of itself.
        standing: its place, computed again from its records.
        agreements: how the runs that were trained again agree, by key.
        names: what these runs are called, by key.
        runs: how many trials and runs it has.
        faults: what a maintainer would refuse.
    """

    about: Mapping[str, Any]
    standing: Standing | None
    agreements: Mapping[str, Agreement]
    runs: int
    faults: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

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
            faults = [*_other_plans(about, claim)]
            faults += _made_otherwise(claim.store, claim.cells) if faults else ()
            _plan_anew(claim)
            standing, more = inspected(claim, known)
        except UserError as error:
            return Verification(about, None, {}, 0, (str(error), *_made_otherwise(Store(own), _trials_of(wanted))))
        faults += [*more, *_other_settings(folder, claim)]
        if faults:
            return Verification(about, None, {}, len(claim.cells), tuple(faults))
        agreements, names, pairs = {}, {}, []
        for cell, record in _drawn(claim, count, f"{seal} {draw}"):
            say(f"training {cell} again")
            found, agreements[cell.key] = _again(cell, record, claim.store)
            names[cell.key] = str(cell)
            pairs.append((record, found))
        return Verification(about, standing, agreements, len(claim.cells), (*leaning(pairs),), names)


def _drawn(claim: ClaimedPlace, count: int, seed: str) -> Iterator[tuple[Cell, Record]]:
    """Trials and runs, failed ones too, drawn by the submission's checksum and the verifier's number."""
    own = [(cell, record) for cell in claim.cells if (record := claim.store.record(cell.key)) is not None]
    random = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest(), 16))
    for place in sorted(random.permutation(len(own))[:count]):
        yield own[place]


def _again(cell: Cell, record: Record, store: Store) -> tuple[Record, Agreement]:
    """Trains a run again, a plug-in's in a process of its own, and compares."""
    now = reproduce.prepare(record)
    with Scratch() as made:
        found = reproduce.run_again(cell, Path(made), now)
        return found, compare(record, found, store.arrays(cell.key), Store(Path(made)).arrays(cell.key))


def leaning(pairs: Iterable[tuple[Record, Record]]) -> Iterator[str]:
    """Tells of runs that together lean to the side of the method by more than rounding explains.

    Each alone may be within what another processor changes. Rounding has no side: of the claimed accuracies less those
    trained again, the mean is tested by Student's t, one-sided, for the method's runs and for those of uniform routing,
    where the other side flatters.

    Args:
        pairs: each run that was trained again, as it is claimed and as it is here.
    """
    apart: dict[str, dict[int, float]] = {}
    for place, (claimed, found) in enumerate(pairs):
        if not found.identity.is_trial and claimed.accuracy is not None and found.accuracy is not None:
            apart.setdefault(found.label, {})[place] = claimed.accuracy - found.accuracy
    for label, values in apart.items():
        more = statistics.paired_difference(values, dict.fromkeys(values, 0.0))
        favours = -more.mean if label == BASELINE else more.mean
        by_chance = more.p_value / 2 if more.kind == statistics.OVER_SEEDS else 0.0  # else all differ alike
        if len(values) >= FEWEST and favours > LEANS and by_chance < LEANING_P:
            yield (
                f"{label}: {len(values)} runs claim accuracies {more.mean:+.2f} points from those reached here, "
                "on average and to the side of the method; rounding has no side"
            )


def _other_settings(folder: Path, claim: ClaimedPlace) -> list[str]:
    """Tells of settings that its trials do not choose."""
    stored = ChosenSettings.read(folder / SETTINGS, claim.label)
    one, two = ([each for each in of.choices if each.method == claim.label] for of in (stored, claim.settings))
    return [] if one == two else ["its settings are not those that the rule chooses from its trials"]


def _plan_anew(claim: ClaimedPlace) -> None:
    """Replaces the plans of a submission by those of its code, so that nothing rests on what it says of its runs."""
    for file in (claim.store.path / "plans").glob("*.json"):
        file.unlink()
    for stage in claim.stages:
        stage.write_plan()


def _trials_of(wanted: Wanted) -> list[Cell]:
    """The trials of a method as they are planned here; none where they cannot be."""
    try:
        return [cell for plan, *_ in wanted.trials().plans for cell in plan.cells]
    except UserError:  # such as of code that does not import
        return []


def _made_otherwise(store: Store, cells: Iterable[Cell]) -> Iterator[str]:
    """Tells in what the runs of a submission differ from those that its code plans here, such as versions of parts.

    Args:
        store: the submission's results.
        cells: the runs that its code plans.
    """
    here = {_place(cell.identity): cell.identity for cell in cells}
    then = (cell.identity for plan in store.plans() for cell in plan.cells if _place(cell.identity) in here)
    found: dict[str, str] = {}
    for one in then:
        before, now = (distinct(known.as_dict()) for known in (one, here[_place(one)]))
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                found.setdefault(key, f"{before.get(key)!r:.80} in its plans, {now.get(key)!r:.80} here")
    if found:
        yield f"it was made otherwise than its code is planned here: {'; '.join(map(': '.join, found.items()))}"


def _place(known: Identity) -> tuple[object, ...]:
    """The facts by which a trial is found again, whatever it was made with."""
    return known.is_trial, known.method, known.model, known.iterations, known.seed, str(known.options.get("trial"))


def _other_plans(about: Mapping[str, Any], claim: ClaimedPlace) -> Iterator[str]:
    """Tells of plans that say something else than its code does, by which a board would show other numbers."""
    if about["label"] != claim.label:
        yield f"it names its method {about['label']}, and its code {claim.label}"
    yield from beyond(claim.store, {cell.key for cell in claim.cells})
    planned = {one.cell: (one.label, one.identity.key) for plan in claim.store.plans() for one in plan.cells}
    if other := [cell for cell in claim.cells if planned.get(cell.key) != (cell.label, cell.key)]:
        yield f"its plans lack {len(other)} of the runs that its code plans, or name others so, such as {other[0]}"
