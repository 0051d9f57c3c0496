"""Which cells of BASE and HEAD belong together, and what stands between them."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from routebench.analysis.wording import listed, plural
from routebench.comparing.cells import Address, Cell, Side
from routebench.errors import UserError

FAILED = ("failed", "diverged", "oom", "timeout")
MACHINE = ("device", "processor", "gpu", "threads")
"""Facts of provenance that have to agree before times, memory and rates may be compared."""


@dataclass(frozen=True)
class Pair:
    """One cell, measured by BASE and by HEAD.

    Args:
        address: of BASE's cell.
        base, head: the cells.
        obstacle: why nothing in them may be compared; empty if it may.
        machines: how the machines differ, in words; empty if they do not.
    """

    address: Address
    base: Cell
    head: Cell
    obstacle: str
    machines: str


@dataclass(frozen=True)
class Pairs:
    """All cells of two folders, sorted out.

    Args:
        measured: ok on both sides.
        broken: ok in BASE, and HEAD tried and has no result.
        missing: ok in BASE, and not run in HEAD or not even planned there, though HEAD has the suite and the preset.
    """

    measured: tuple[Pair, ...]
    broken: tuple[Pair, ...]
    missing: tuple[Pair, ...]

    @property
    def uncompared(self) -> tuple[Pair, ...]:
        """Ok on both sides, and something stands between them."""
        return tuple(pair for pair in self.measured if pair.obstacle)

    @property
    def expected(self) -> int:
        """How many cells a whole comparison would have compared."""
        return len(self.measured) + len(self.broken) + len(self.missing)

    def of_methods(self, names: Collection[str]) -> "Pairs":
        """Those of some methods, by name or label; all of them for none."""

        def wanted(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
            return tuple(pair for pair in pairs if not names or {pair.address.method, pair.base.label} & set(names))

        return Pairs(wanted(self.measured), wanted(self.broken), wanted(self.missing))


def pair_up(base: Side, head: Side) -> Pairs:
    """Pairs the cells of two folders.

    Raises:
        UserError: they have no cell in common.
    """
    pairs = list(_pairs(base, head))
    if not pairs:
        raise UserError(
            f"nothing in common: {str(base.path)!r} holds {_contents(base)}, {str(head.path)!r} holds "
            f"{_contents(head)}; measure both with the same suite, preset, data and methods"
        )
    fine = [pair for pair in pairs if pair.base.status == "ok"]
    return Pairs(
        measured=tuple(pair for pair in fine if pair.head.status == "ok"),
        broken=tuple(pair for pair in fine if pair.head.status in FAILED),
        missing=(*(pair for pair in fine if pair.head.status not in ("ok", *FAILED)), *_unplanned(base, head, pairs)),
    )


def _pairs(base: Side, head: Side) -> Iterator[Pair]:
    """By the whole address first; what is left, by all of it but the options, and then nothing is compared."""
    left = {where.without_options(): where for where in head.cells if where not in base.cells}
    for where, ours in base.cells.items():
        if where in head.cells:
            theirs = head.cells[where]
            yield Pair(where, ours, theirs, _obstacle(ours, theirs), _machines(ours, theirs))
        elif where.without_options() in left:
            other = left[where.without_options()]
            changes = _changes(json.loads(where.options), json.loads(other.options))
            yield Pair(where, ours, head.cells[other], f"options differ: {changes}", "")


def _unplanned(base: Side, head: Side, pairs: list[Pair]) -> Iterator[Pair]:
    """What is ok in BASE and not planned in HEAD: a method that was taken out must not pass for one that is well."""
    paired = {pair.base.key for pair in pairs}
    both = {(where.suite, where.preset) for where in head.cells}
    for where, ours in base.cells.items():
        if ours.status == "ok" and ours.key not in paired and (where.suite, where.preset) in both:
            absent = replace(ours, status="not planned", reason="HEAD does not plan it", provenance={}, metrics=())
            yield Pair(where, ours, absent, "", "")


def _obstacle(base: Cell, head: Cell) -> str:
    for name, words in (("suite_version", "suite version"), ("data_fingerprint", "data fingerprint")):
        ours, theirs = getattr(base.identity, name), getattr(head.identity, name)
        if ours != theirs:
            return f"{words} differs: {ours} in BASE, {theirs} in HEAD"
    return ""


def _machines(base: Cell, head: Cell) -> str:
    ours, theirs = ({name: cell.provenance.get(name) or "" for name in MACHINE} for cell in (base, head))
    return _changes(ours, theirs)


def _changes(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """`epochs 6 → 9, loss margin → spread`."""
    names = [name for name in {**base, **head} if base.get(name) != head.get(name)]
    return ", ".join(f"{name} {_or_none(base.get(name))} → {_or_none(head.get(name))}" for name in names)


def _or_none(value: Any) -> str:
    return "none" if value is None or not str(value) else str(value)


def notes_of(base: Side, head: Side) -> Iterator[str]:
    """Sentences on what else differs between two sides."""
    pairs = list(_pairs(base, head))
    ours, theirs = {pair.base.key for pair in pairs}, {pair.head.key for pair in pairs}
    for who, side, known in (("BASE", base, ours), ("HEAD", head, theirs)):
        alone = [cell.name for cell in side.cells.values() if cell.key not in known]
        if alone:
            yield f"Only in {who}, not compared: {plural(len(alone), 'cell')} ({listed(alone)})."
    yield from _grouped("Not compared, {}", ((pair.obstacle, pair) for pair in pairs))
    yield from _grouped("Run otherwise, {}: times and memory are not compared", _by_machine(pairs))
    recipes = ((_changes(pair.base.identity.training, pair.head.identity.training), pair) for pair in pairs)
    yield from _grouped("Trained otherwise, {}: a difference may come from that", recipes)
    versions = (
        (_changes(pair.base.provenance["versions"], pair.head.provenance["versions"]), pair)
        for pair in pairs
        if {"versions"} <= pair.base.provenance.keys() & pair.head.provenance.keys()
    )
    yield from _grouped("Other versions, {}: a difference may come from that", versions)


def _by_machine(pairs: list[Pair]) -> Iterator[tuple[str, Pair]]:
    return ((pair.machines, pair) for pair in pairs if {"ok"} == {pair.base.status, pair.head.status})


def _grouped(sentence: str, found: Iterator[tuple[str, Pair]]) -> Iterator[str]:
    """One sentence for each thing that differs, with the cells it holds for."""
    cells: dict[str, list[str]] = {}
    for words, pair in found:
        if words:
            cells.setdefault(words, []).append(pair.base.name)
    for words, names in cells.items():
        yield f"{sentence.format(words)} ({plural(len(names), 'cell')}: {listed(names)})."


def _contents(side: Side) -> str:
    found = dict.fromkeys(f"{where.suite} {where.preset} on {where.data}" for where in side.cells)
    return listed(list(found))
