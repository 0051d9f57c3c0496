"""BASE and HEAD: two results folders, and which of their runs belong together.

Runs are matched by the names that a user knows them by, not by the hash of the code.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis.wording import listed, plural
from routebench.declared import as_recorded
from routebench.engine.results import FAILED, NOT_RUN, Identity, Store
from routebench.errors import UserError
from routebench.received import permitted

REPEATS = ("repeat", "round")
"""Coordinates that number measurements of one and the same thing."""
MACHINE = ("device", "processor", "gpu", "threads")
"""Facts of provenance that have to agree before times, memory and rates may be compared."""


@dataclass(frozen=True)
class Address:
    """Identifies a run in both folders. `options`, `model_params` are JSON, `params` what the user set."""

    suite: str
    preset: str
    protocol: str
    method: str
    params: str
    iterations: int | None
    model: str
    model_params: str
    data: str
    seed: int
    options: str

    @property
    def network(self) -> str:
        """The model, with its settings if it has any."""
        return self.model if self.model_params == "{}" else f"{self.model} {self.model_params}"

    def names(self, label: str) -> set[str]:
        """Names that a user may call the method by: its own, its label, or the label with the network in brackets."""
        return {self.method, label, f"{label} ({self.network})"}

    def without_options(self) -> tuple[object, ...]:
        """The same for two runs that differ in the protocol's options only."""
        return tuple(value for name, value in vars(self).items() if name != "options")


Spot = tuple[str, str, int | None, tuple[tuple[str, Any], ...]]
"""Metric, split, test iterations, the protocol's own coordinates."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """The quantity that a value measures, kept once for all runs of a folder."""

    spot: Spot
    unit: str
    higher_is_better: bool | None
    epoch: int | None

    @classmethod
    def of(cls, metric: Mapping[str, Any]) -> "Quantity":
        """Reads it from a metric of a record. A measure that is declared has the direction of its declaration."""
        where = metric.get("where", {})
        coordinates = tuple(sorted((key, value) for key, value in where.items() if key not in REPEATS))
        spot = metric["metric"], metric["split"], metric.get("test_iterations"), coordinates
        known = as_recorded(metric["metric"], metric["unit"]).higher_is_better
        better = known if None not in (known, metric["higher_is_better"]) else metric["higher_is_better"]
        return cls(spot, metric["unit"], better, metric.get("epoch"))


@dataclass(frozen=True)
class MeasuredCell:
    """A planned run and what became of it.

    Args:
        key: the key of its record and arrays in the folder.
        label: the label of the method, as shown.
        status: as in the record; `not run` without one.
        reason: the reason of a failure.
        identity: as planned, but that it may have the seed of another run of its configuration.
        seed: its own.
        provenance: as in the record; empty without one.
        marks: what each of its values measures.
        values: as in the record.
        has_arrays: whether its raw outputs were kept.
    """

    key: str
    label: str
    status: str
    reason: str
    identity: Identity
    seed: int
    provenance: Mapping[str, Any]
    marks: tuple[Quantity, ...] = ()
    values: tuple[Any, ...] = ()
    has_arrays: bool = False

    @property
    def name(self) -> str:
        """`dynamic T=3 seed 0`."""
        steps = self.identity.iterations
        return f"{self.label}{'' if steps is None else f' T={steps}'} seed {self.seed}"


@dataclass(frozen=True)
class Side:
    """One of the two folders: its planned runs by address, its raw outputs, and facts of data sets by their names."""

    path: Path
    cells: Mapping[Address, MeasuredCell]
    store: Store
    kept: dict[str, NDArray[np.bool_] | None] = field(default_factory=dict)
    """Outcomes that were read, by run: every metric of a run asks for them."""
    told: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences about files of the folder that do not count."""
        return tuple(self.store.warnings)

    @property
    def damaged(self) -> tuple[str, ...]:
        """The damage in the folder, now or before, that has not been measured again."""
        return tuple(self.store.damaged)

    def of_methods(self, names: Collection[str]) -> "Side":
        """The runs of some methods, by any of their names; all of them for none."""
        own = {at: cell for at, cell in self.cells.items() if not names or at.names(cell.label) & set(names)}
        return replace(self, cells=own)

    def correct(self, cell: MeasuredCell) -> NDArray[np.bool_] | None:
        """(n_test,) whether each test image is right; None if it was not kept."""
        if cell.key not in self.kept:
            self.kept[cell.key] = self.store.correct(cell.key) if cell.has_arrays else None
        return self.kept[cell.key]

    def facts(self, name: str) -> list[str]:
        """The different values of a fact of provenance, such as `commit`, over all runs that have a record."""
        values = (str(cell.provenance.get(name) or "") for cell in self.cells.values() if cell.provenance)
        return list(dict.fromkeys(value for value in values if value))

    @property
    def dirty(self) -> bool:
        """Tells whether any run was measured with changes that were not committed."""
        return any(cell.provenance.get("dirty") for cell in self.cells.values())


def read_side(path: Path) -> Side:
    """Reads a results folder. Of runs that cannot be told apart, the newest plan's counts.

    Raises:
        UserError: there is no such folder, or nothing was ever planned in it, as far as it can be read.
    """
    if not permitted(path).is_dir():
        raise UserError(f"expected a results folder, got {str(path)!r}; run `python -m routebench suite NAME` first")
    store = Store(path)
    planned = store.planned()
    if planned.empty:
        told = "".join(f"; {warning}" for warning in store.warnings)
        raise UserError(f"nothing was planned in {str(path)!r} yet; run `python -m routebench suite NAME` first{told}")
    return Side(path, dict(_cells(store, planned)), store, told=store.told())


@dataclass(frozen=True)
class CellPair:
    """One run, measured by BASE and by HEAD.

    Args:
        address: the address of BASE's run.
        base, head: the runs.
        obstacle: why nothing in them may be compared; empty if it may.
        machines: how the machines differ, in words; empty if they do not.
    """

    address: Address
    base: MeasuredCell
    head: MeasuredCell
    obstacle: str
    machines: str


@dataclass(frozen=True)
class Pairs:
    """All runs of two folders, sorted out.

    Args:
        measured: ok on both sides.
        broken: ok in BASE, and HEAD tried and has no result.
        missing: ok in BASE, and not run in HEAD or not even planned there, though HEAD has the suite and the preset.
    """

    measured: tuple[CellPair, ...]
    broken: tuple[CellPair, ...]
    missing: tuple[CellPair, ...]

    @property
    def uncompared(self) -> tuple[CellPair, ...]:
        """Ok on both sides, and something stands between them."""
        return tuple(pair for pair in self.measured if pair.obstacle)

    @property
    def expected(self) -> int:
        """The number of runs that a complete comparison has."""
        return len(self.measured) + len(self.broken) + len(self.missing)

    def of_methods(self, names: Collection[str]) -> "Pairs":
        """Those of some methods, by any of their names; all of them for none."""

        def wanted(pairs: tuple[CellPair, ...]) -> tuple[CellPair, ...]:
            return tuple(pair for pair in pairs if not names or pair.address.names(pair.base.label) & set(names))

        return Pairs(wanted(self.measured), wanted(self.broken), wanted(self.missing))


def pair_up(base: Side, head: Side) -> Pairs:
    """Pairs the runs of two folders.

    Raises:
        UserError: they have no run in common.
    """
    pairs = list(_pairs(base, head))
    if not pairs:
        raise UserError(
            f"nothing in common: {str(base.path)!r} holds {_contents(base)}, {str(head.path)!r} holds "
            f"{_contents(head)}; measure both with the same suite, preset, data, methods and seeds"
        )
    fine = [pair for pair in pairs if pair.base.status == "ok"]
    return Pairs(
        measured=tuple(pair for pair in fine if pair.head.status == "ok"),
        broken=tuple(pair for pair in fine if pair.head.status in FAILED),
        missing=(*(pair for pair in fine if pair.head.status not in ("ok", *FAILED)), *_unplanned(base, head, pairs)),
    )


def notes_of(base: Side, head: Side) -> Iterator[str]:
    """Sentences on what else differs between two sides."""
    pairs = list(_pairs(base, head))
    ours, theirs = {pair.base.key for pair in pairs}, {pair.head.key for pair in pairs}
    for who, side, known in (("BASE", base, ours), ("HEAD", head, theirs)):
        alone = [cell.name for cell in side.cells.values() if cell.key not in known]
        if alone:
            yield f"Only in {who}, not compared: {plural(len(alone), 'run')} ({listed(alone)})."
    lost = (
        (f"BASE has no result ({pair.base.status}) and HEAD has one", pair)
        for pair in pairs
        if pair.head.status == "ok" and pair.base.status != "ok"
    )
    yield from _grouped("Not compared, {}", lost)
    yield from _grouped("Not compared, {}", ((pair.obstacle, pair) for pair in pairs))
    yield from _grouped("Run otherwise, {}: times and memory are not compared", _by_machine(pairs))
    yield from _grouped("Trained otherwise, {}: a difference may come from that", _by_recipe(pairs))
    yield from _grouped("With other hyperparameters, {}: a difference may come from that", _by_hyperparameters(pairs))
    yield from _grouped("Tuned otherwise, {}: a difference may come from that", _by_tuning(pairs))
    yield from _copies(pairs)
    yield from _grouped("Of other versions, {}: a difference may come from that", _by_versions(pairs))
    yield from _grouped("The same versions of all parts, {}: what differs should be rounding", _by_code(pairs))
    versions = (
        (_changes_of_versions(pair.base.provenance["versions"], pair.head.provenance["versions"]), pair)
        for pair in pairs
        if {"versions"} <= pair.base.provenance.keys() & pair.head.provenance.keys()
    )
    yield from _grouped("Other versions, {}: a difference may come from that", versions)


def _cells(store: Store, planned: DataFrame) -> Iterator[tuple[Address, MeasuredCell]]:
    identities = {key: (known, seed) for plan in store.plans() for key, known, seed in plan.identities()}
    addresses: dict[tuple[str, str, int], Address] = {}
    rows: dict[bytes, tuple[Quantity, ...]] = {}  # many runs measure the same
    records = store.records()
    columns = (planned[name] for name in ("cell", "label", "preset", "method_params"))
    for key, label, preset, params in zip(*columns, strict=True):
        identity, seed = identities[key]
        kind = preset, params, id(identity)
        if kind not in addresses:
            addresses[kind] = _address(preset, params, identity)
        address, found = replace(addresses[kind], seed=seed), records.get(key)
        if found is None or not store.is_whole(found):  # its raw outputs may be damaged
            yield address, MeasuredCell(key, label, NOT_RUN, "", identity, seed, {})
            continue
        metrics = records.metrics_of(key)
        row = metrics.codes.tobytes()
        if row not in rows:
            rows[row] = tuple(map(Quantity.of, metrics))
        values, has_arrays = tuple(metrics.numbers()), bool(found.arrays)
        yield (
            address,
            MeasuredCell(
                key, label, found.status, found.reason, identity, seed, found.provenance, rows[row], values, has_arrays
            ),
        )


def _address(preset: str, params: str, known: Identity) -> Address:
    return Address(
        suite=known.suite,
        preset=preset,
        protocol=known.protocol,
        method=known.method,
        params=params,
        iterations=known.iterations,
        model=known.model,
        model_params=json.dumps(known.distinct("model_params"), sort_keys=True),
        data=known.data,
        seed=known.seed,
        options=json.dumps(known.distinct("options"), sort_keys=True),
    )


def _pairs(base: Side, head: Side) -> Iterator[CellPair]:
    """Pairs runs by their whole address. Runs left over are paired without their options, and not compared."""
    left = {where.without_options(): where for where in head.cells if where not in base.cells}
    for where, ours in base.cells.items():
        if where in head.cells:
            theirs = head.cells[where]
            yield CellPair(where, ours, theirs, _obstacle(ours, theirs), _machines(ours, theirs))
        elif where.without_options() in left:
            other = left[where.without_options()]
            changes = _changes(json.loads(where.options), json.loads(other.options))
            yield CellPair(where, ours, head.cells[other], f"options differ: {changes}", "")


def _unplanned(base: Side, head: Side, pairs: list[CellPair]) -> Iterator[CellPair]:
    """Runs that are ok in BASE and not planned in HEAD: a method that was removed must not count as unchanged."""
    paired = {pair.base.key for pair in pairs}
    both = {(where.suite, where.preset) for where in head.cells}
    for where, ours in base.cells.items():
        if ours.status == "ok" and ours.key not in paired and (where.suite, where.preset) in both:
            absent = MeasuredCell(
                ours.key, ours.label, "not planned", "HEAD does not plan it", ours.identity, ours.seed, {}
            )
            yield CellPair(where, ours, absent, "", "")


def _obstacle(base: MeasuredCell, head: MeasuredCell) -> str:
    for name, words in (("suite_version", "suite version"), ("data_fingerprint", "data fingerprint")):
        ours, theirs = getattr(base.identity, name), getattr(head.identity, name)
        if ours != theirs:
            return f"{words} differs: {ours} in BASE, {theirs} in HEAD"
    return ""


def _machines(base: MeasuredCell, head: MeasuredCell) -> str:
    ours, theirs = ({name: cell.provenance.get(name) or "" for name in MACHINE} for cell in (base, head))
    return _changes(ours, theirs)


def _changes(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """`epochs 6 → 9, loss margin → spread`."""
    if base == head:
        return ""
    names = [name for name in {**base, **head} if base.get(name) != head.get(name)]
    return ", ".join(f"{name} {_or_none(base.get(name))} → {_or_none(head.get(name))}" for name in names)


def _changes_of_versions(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """Changed versions of packages that both sides recorded. Of other packages nothing is known."""
    both = base.keys() & head.keys()
    return _changes({name: base[name] for name in base if name in both}, {name: head[name] for name in both})


def _or_none(value: Any) -> str:
    return "none" if value is None or not str(value) else str(value)


def _by_recipe(pairs: list[CellPair]) -> Iterator[tuple[str, CellPair]]:
    """Names settings of the recipe that differ, but for those that have their defaults."""
    for pair in pairs:
        ours, theirs = (cell.identity.distinct("training") for cell in (pair.base, pair.head))
        yield _changes(ours, theirs), pair


def _by_hyperparameters(pairs: list[CellPair]) -> Iterator[tuple[str, CellPair]]:
    """Names hyperparameters of methods that differ, but for those that have their defaults."""
    for pair in pairs:
        ours, theirs = (cell.identity.distinct("method_params") for cell in (pair.base, pair.head))
        yield _changes(ours, theirs), pair


def _by_tuning(pairs: list[CellPair]) -> Iterator[tuple[str, CellPair]]:
    """Says where other trials chose the settings, or on one side none did."""
    for pair in pairs:
        ours, theirs = ((cell.identity.tuning or {}).get("trials") for cell in (pair.base, pair.head))
        yield _changes({"trials": ours}, {"trials": theirs}), pair


def _copies(pairs: list[CellPair]) -> Iterator[str]:
    """Tells how many runs of HEAD are BASE's own measurements: no other execution has the same end and all times."""
    measured = [pair for pair in pairs if {"ok"} == {pair.base.status, pair.head.status}]
    sides = ((pair.base, pair.head) for pair in measured)
    count = sum(bool(base.provenance.get("finished")) and _content(base) == _content(head) for base, head in sides)
    if count:
        yield (
            f"The very same measurement on both sides, as in a copied folder: {count} of "
            f"{plural(len(measured), 'run')}. Of these, nothing is learnt about HEAD."
        )


def _content(cell: MeasuredCell) -> tuple[str, ...]:
    """The time when a run ended, and its numbers."""
    return str(cell.provenance.get("finished")), *(f"{mark.spot} {mark.epoch}" for mark in cell.marks), str(cell.values)


def _by_versions(pairs: list[CellPair]) -> Iterator[tuple[str, CellPair]]:
    """Names parts of other versions; of a part that is not named, the version is 1."""
    for pair in pairs:
        ours, theirs = (cell.identity.versions or {} for cell in (pair.base, pair.head))
        ones = dict.fromkeys({**ours, **theirs}, 1)
        yield _changes({**ones, **ours}, {**ones, **theirs}), pair


def _by_code(pairs: list[CellPair]) -> Iterator[tuple[str, CellPair]]:
    """Says where code differs behind equal versions."""
    for pair in pairs:
        ours, theirs = (cell.provenance.get("code", "") for cell in (pair.base, pair.head))
        if ours and theirs and ours != theirs and pair.base.identity.versions == pair.head.identity.versions:
            yield "other code", pair


def _by_machine(pairs: list[CellPair]) -> Iterator[tuple[str, CellPair]]:
    return ((pair.machines, pair) for pair in pairs if {"ok"} == {pair.base.status, pair.head.status})


def _grouped(sentence: str, found: Iterator[tuple[str, CellPair]]) -> Iterator[str]:
    """One sentence for each thing that differs, with the runs it holds for."""
    cells: dict[str, list[str]] = {}
    for words, pair in found:
        if words:
            cells.setdefault(words, []).append(pair.base.name)
    for words, names in cells.items():
        yield f"{sentence.format(words)} ({plural(len(names), 'run')}: {listed(names)})."


def _contents(side: Side) -> str:
    """`accuracy quick on mnist5k (cnn and em, seeds 0 to 2)`."""
    found = dict.fromkeys(f"{where.suite} {where.preset} on {where.data}" for where in side.cells)
    methods, seeds = dict.fromkeys(where.method for where in side.cells), sorted({where.seed for where in side.cells})
    of_seeds = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"{listed(list(found))} ({listed(list(methods))}, {of_seeds})"
