"""Merges results folders and packs into a new folder, as if all calls of suites had been made in it."""

import json
import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from routebench.atomic import expect_empty, expect_place, filled, told_when_full, write_text
from routebench.engine.agreement import compare
from routebench.engine.results import (
    SCHEMA,
    Identity,
    PlanTable,
    Record,
    Store,
    checksum,
    digest,
    distinct,
    existing,
    is_key,
    preset_in_words,
    settings_in,
    stamp,
    without,
)
from routebench.errors import UserError, one_line
from routebench.quantities import few, plural
from routebench.received import TENSORS, expect_folders, permitted, read_plain

SHARED_OTHERWISE = {"sequence", "cells", checksum.KEY}
"""Keys of a plan that may differ between folders: its place among the others, and runs that were added or forgotten."""
DIVERGED = "diverged"
"""The status of a run that failed by its method, whatever the machine."""
OF_VERSION = {"versions", "suite_version", "seed"}
"""Keys of an identity in which a run differs from the same run by other versions and with other seeds."""

DIFFERING = {
    "suite_version": "version of the suite", "versions": "versions of parts", "source": "code", "options": "options",
    "training": "training", "tuning": "tuning", "method_params": "hyperparameters", "model_params": "network",
    "data_fingerprint": "data", "protocol": "protocol",
}  # fmt: skip
"""The facts in which results of one configuration differ, in words."""

Content = Mapping[str, Any]


class Unequal(UserError):
    """A run has different numbers in two folders.

    Args:
        what: which run, in which files, and a number of both.
        advice: what to do.
    """

    def __init__(self, what: str, advice: str = "nothing was merged: take away the one that is not to count"):
        super().__init__(f"{what}; {advice}")
        self.what = what


@dataclass
class Merged:
    """The results that were merged.

    Args:
        folder: the new folder.
        runs: number of runs with a record.
        shared: number of runs that several folders had, with equal numbers.
        replaced: runs that failed in a folder and have a result in another, which counts.
        contradicted: runs that diverged in a folder and have a result in another; they count as diverged.
        superseded: results that counted in a folder and do not beside those of another, by configuration, in words.
        plans: number of plans.
        fits: number of trained networks.
        warnings: what was damaged and is left out, and plans that say otherwise in two folders, a line each.
    """

    folder: Path
    runs: int = 0
    shared: int = 0
    replaced: list[str] = field(default_factory=list)
    contradicted: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    plans: int = 0
    fits: int = 0
    warnings: list[str] = field(default_factory=list)


def merge(stores: Sequence[Store], folder: Path, *, networks: bool = True) -> Merged:
    """Writes the runs, raw outputs, trained networks and plans of several folders into a new one.

    Of runs with the same key, the one that finished first is kept. All their numbers have to be equal to the last
    digit, and their raw outputs, but for times, speeds and memory, which no two executions share: the units of
    metrics tell them apart. Provenance may differ, too. A result counts before a failure, which may be the machine's,
    but not before a divergence, which is the method's own: else whoever merges replaces its bad seeds. Plans keep the
    order of their calls, but those with newer versions of the same parts come last, and runs of newer versions take
    the place of older results only where one was made. So the order of `stores` changes nothing.

    Args:
        stores: as `opened` gives them. They stay as they are, but for damaged files, which are moved to `damaged/` as
            by every reader; their `warnings` say so.
        folder: the new folder, which must not hold anything yet. It appears when it is whole.
        networks: whether trained networks are written, too; reports read none.

    Raises:
        UserError: a run has different numbers in two of them, a result changed meanwhile, or `folder` is taken, lies
            in one of them, or cannot be written.
        StoreFull: the disk is full.
    """
    _expect_free(folder, stores)
    found = Merged(folder)
    before = _stamps(stores)
    chosen = _chosen(stores, found)
    plans, settings, fits = _plans(stores, chosen, found), _settings(stores), _fits(stores, chosen) if networks else {}
    found.plans, found.fits = len(plans), len(fits)
    with told_when_full(folder.parent), filled(folder, "plans") as whole:
        for part in ("plans", "records", "arrays", *(f"fits/{key}" for key in fits)):
            (whole / part).mkdir(parents=True)
        for file, place in (*_files(chosen), *_files_of(fits)):
            (whole / place).write_bytes(read_plain(file, TENSORS)[0])
        _expect_as_chosen(chosen, before)
        for name, content in settings.items():
            (whole / name).write_bytes(content)
        for number, plan in enumerate(plans, start=1):
            _write(whole / "plans" / f"{plan['plan']}.json", checksum.sealed({**plan, "sequence": number}))
        _write(whole / "schema.json", json.dumps({"schema": SCHEMA}))
    found.superseded = [*_superseded(stores, Store(folder), chosen)]
    for store in stores:
        store.tell_gone()
    found.warnings += warnings_of(stores)
    return found


def warnings_of(stores: Sequence[Store]) -> list[str]:
    """The damage in some folders, a line each."""
    return [f"{store.path}: {warning}" for store in stores for warning in store.warnings]


def _write(file: Path, text: str) -> None:
    write_text(file, text, lasting=False)  # nothing counts before the folder has its name


def opened(results: Sequence[Path]) -> list[Store]:
    """The stores of two or more results folders or packs.

    Raises:
        UserError: there are fewer than two, or one is no results folder or is there twice.
    """
    if len(results) < 2:
        raise UserError(f"expected two results folders or packs, or more, got {len(results)}")
    places: dict[str, Path] = {}
    stores = []
    for path in results:
        before = places.setdefault(os.path.realpath(path), path)
        if before is not path:
            raise UserError(f"{str(before)!r} and {str(path)!r} are the same folder; name it once")
        stores.append(readable(path))
    return stores


def readable(path: Path) -> Store:
    """The store of a results folder or a pack that holds something.

    Args:
        path: the folder.

    Raises:
        UserError: it is missing or empty, cannot be read, or has another schema.
    """
    store = existing(path)
    if not os.access(path, os.R_OK | os.X_OK):
        raise UserError(f"results folder {str(path)!r} cannot be read (Permission denied)")
    store.check_schema()
    if not any(any((store.files / part).glob("*.json")) for part in ("plans", "records")):
        raise UserError(f"expected a results folder or a pack, and {str(path)!r} has no plan and no record")
    return store


def _expect_free(folder: Path, stores: Sequence[Store]) -> None:
    """Raises UserError for a new folder that holds something, lies in one of the others, or cannot be written."""
    expect_place(folder, "the folder", folder=True)
    expect_empty(folder)
    target = Path(os.path.realpath(folder))
    for store in stores:
        if target.is_relative_to(os.path.realpath(store.path)):
            raise UserError(f"{str(folder)!r} lies in {str(store.path)!r}, which is merged; name another with -o")


def _chosen(stores: Sequence[Store], found: Merged) -> dict[str, tuple[Store, Record]]:
    """The record of each run that is kept, and the store that it lies in.

    Raises:
        UserError: two results of a run differ.
    """
    chosen = {}
    for key in sorted({file.stem for store in stores for file in (store.files / "records").glob("[!.]*.json")}):
        known = [(store, record) for store in stores if is_key(key) and (record := _whole(store, key)) is not None]
        if not known:
            continue
        results = [one for one in known if one[1].status == "ok"]
        best = min(results or known, key=_first) if len(known) > 1 else known[0]
        for other in results:
            if other is not best:
                _expect_equal(key, *(one for one in known if one is best or one is other))
        diverged = [one for one in known if results and one[1].status == DIVERGED]
        chosen[key] = min(diverged, key=_first) if diverged else best
        found.shared += len(results) > 1
        if results and len(results) < len(known):
            told = found.contradicted if diverged else found.replaced
            told.append(f"{_named(best[1])} of {chosen[key][0].path}")
    found.runs = len(chosen)
    return chosen


def _whole(store: Store, key: str) -> Record | None:
    """A run's record, if its raw outputs are as they were written."""
    found = store.record(key)
    return found if found is not None and store.is_whole(found) else None


def _first(one: tuple[Store, Record]) -> tuple[bool, bool, str, str]:
    """Sort key of the records of a run, whatever folder they lie in: the one that is kept comes first."""
    _, record = one
    finished = str(record.provenance.get("finished") or "~")  # after all times
    return record.status not in ("ok", DIVERGED), not record.arrays, finished, digest(record.as_dict())


def _expect_equal(key: str, one: tuple[Store, Record], other: tuple[Store, Record]) -> None:
    """Raises UserError for two results of a run with different numbers or raw outputs."""
    (ours, then), (theirs, now) = one, other
    found = compare(then, now, ours.arrays(key), theirs.arrays(key))
    told = [f"{pair.name} is {pair.then} and {pair.now}" for pair in found.numbers if pair.difference]
    told += [f"{count} of {total} values of {name} differ" for name, (count, total) in found.outputs.items() if count]
    if told:
        files = " and ".join(str(store.path / "records" / f"{key}.json") for store in (ours, theirs))
        raise Unequal(f"{files} are the same run, {_named(then)}, with different numbers: {told[0]}")


def _stamps(stores: Sequence[Store]) -> dict[Path, tuple[int, ...] | None]:
    """Stamps of the records and raw outputs of some folders."""
    files = (file for store in stores for part in ("records", "arrays") for file in (store.files / part).glob("[!.]*"))
    return {file: _stamp(file) for file in files}


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Facts of a file that change when it is written; None if it is not there."""
    try:
        return stamp(file.stat())
    except FileNotFoundError:
        return None


def _expect_as_chosen(chosen: Mapping[str, tuple[Store, Record]], before: Mapping[Path, object]) -> None:
    """Raises UserError for a record or raw outputs that another process wrote since these stamps."""
    for file, _ in _files(chosen):
        if _stamp(file) != before.get(file):
            told = "changed while it was merged, so that nothing is: wait until no command adds to that folder"
            raise UserError(f"{str(file)!r} {told}, then give the same command again")


def _named(record: Record) -> str:
    """A run as people call it."""
    steps = "" if record.identity.iterations is None else f" T={record.identity.iterations}"
    return f"{record.label}{steps} on {record.identity.model}, seed {record.identity.seed}"


def _files(chosen: Mapping[str, tuple[Store, Record]]) -> Iterator[tuple[Path, str]]:
    """The files of the kept runs, and their places in a folder."""
    for key, (store, record) in chosen.items():
        if record.arrays:
            yield store.files / "arrays" / f"{key}.safetensors", f"arrays/{key}.safetensors"
        yield store.files / "records" / f"{key}.json", f"records/{key}.json"


def _settings(stores: Sequence[Store]) -> dict[str, bytes]:
    """Chosen settings by name; those of a pack lie beside it, and not in its copy.

    Raises:
        UserError: one cannot be read, or two folders have other settings by one name.
    """
    found: dict[str, tuple[Path, bytes]] = {}
    for store in stores:
        for name, content in settings_in(store.path).items():
            before, known = found.setdefault(name, (store.path, content))
            if known != content:
                raise UserError(
                    f"{str(before / name)!r} and {str(store.path / name)!r} hold different settings; nothing was "
                    "merged: rename one, or take away both and let `tune` choose again from the merged trials"
                )
    return {name: content for name, (_, content) in found.items()}


def _fits(stores: Sequence[Store], chosen: Mapping[str, tuple[Store, Record]]) -> dict[str, tuple[Path, list[str]]]:
    """The folder and the files of each trained network: of several, the one that most kept runs were measured with."""
    used = Counter(pair for _, record in chosen.values() for pair in (record.files or {}).items())
    best: dict[str, tuple[int, str]] = {}
    found = {}
    for store in stores:
        for place in sorted(permitted(store.files / "fits").glob("[!.]*")):
            sums = _sums(store, place) if is_key(place.name) else {}
            rank = -sum(used[f"fits/{place.name}/{name}", known] for name, known in sums.items()), digest(sums)
            if sums and rank < best.get(place.name, (1, "")):
                best[place.name], found[place.name] = rank, (place, ["fit.json", *sums])
    return found


def _sums(store: Store, place: Path) -> dict[str, str]:
    """The checksums of a network's files; empty, with a warning, if a file is not as it was written."""
    try:
        expect_folders(store.files, [f"fits/{place.name}"], "results folder")
        sums: dict[str, str] = dict((store.fit_notes(place.name) or {}).get("files", {}))
    except UserError as error:
        store.warnings.append(one_line(error))
        return {}
    for name, known in sums.items():
        if (found := checksum.of_file(place / name)) != known:
            why = "is not there" if not os.path.lexists(place / name) else "cannot be read"
            told = f"fits/{place.name}/{name} {'is not what was written' if found else why}; its network is left out"
            store.warnings.append(told)
            return {}
    return sums


def _files_of(fits: Mapping[str, tuple[Path, list[str]]]) -> Iterator[tuple[Path, str]]:
    for key, (place, names) in fits.items():
        yield from ((place / name, f"fits/{key}/{name}") for name in names)


def _plans(stores: Sequence[Store], chosen: Container[str], merged: Merged) -> list[dict[str, Any]]:
    """All plans, the oldest first, each once, without runs that wait for older results to be measured again.

    Of plans with one name, that of more runs counts, else the first by its content; what they say otherwise is told.
    """
    known: dict[str, dict[str, Any]] = {}
    before: dict[str, set[str]] = {}
    told: dict[str, set[str]] = {}
    for store in stores:
        plans = [{**plan.head, "cells": [cell.as_dict() for cell in plan.cells]} for plan in store.plans()]
        for plan in plans:
            same = known.setdefault(plan["plan"], plan)
            known[plan["plan"]] = min(same, plan, key=_fullest)
            if differing := sorted(key for key in same.keys() | plan.keys() if same.get(key) != plan.get(key)):
                told.setdefault(plan["plan"], set()).update(differing)
        for earlier, later in pairwise(plan["plan"] for plan in plans):
            before.setdefault(later, set()).add(earlier)
    merged.warnings += [
        f"plan {name} says otherwise in two folders: {', '.join(sorted(keys - SHARED_OTHERWISE))}; one of them counts"
        for name, keys in sorted(told.items())
        if keys - SHARED_OTHERWISE
    ]
    by_time = sorted(known.values(), key=lambda plan: (plan["created"], plan["plan"]))
    versions = {plan["plan"]: _versions(plan, chosen) for plan in by_time}
    found = []
    while by_time:
        names = {plan["plan"] for plan in by_time}
        newest = [one for one in by_time if not any(_is_newer(versions[one["plan"]], versions[name]) for name in names)]
        ready = [one for one in newest if not before.get(one["plan"], set()) & names]
        following = (ready or newest or by_time)[0]
        by_time.remove(following)
        found.append(without(following, _waiting(following["plan"], versions)))
    return [plan for plan in found if plan["cells"]]


def _fullest(plan: Content) -> tuple[int, str]:
    """Sort key of plans with one name, whatever folder they lie in: the one that counts comes first."""
    return -len(plan["cells"]), digest(
        {key: one for key, one in plan.items() if key not in SHARED_OTHERWISE - {"cells"}}
    )


def _superseded(stores: Sequence[Store], merged: Store, chosen: Mapping[str, object]) -> Iterator[str]:
    """Tells of results that counted in one of the folders, and whose place newer plans of another have given to others.

    Args:
        stores: the folders.
        merged: the new one.
        chosen: the runs with a result in it, by key.
    """
    left = merged.superseded() & chosen.keys()
    if not left:
        return
    counted = {key for store in stores for key in _keys(store) - store.superseded()}
    made = [(_entry(plan, label, one), key, one) for plan in merged.plans() for label, key, one in _told_runs(plan)]
    instead = {entry: identity for entry, key, identity in made if key in chosen and key not in left}
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for entry, key, identity in made:
        if key in left & counted:
            then, now = (distinct(one.as_dict()) for one in (identity, instead.get(entry, identity)))
            other = ", ".join(word for fact, word in DIFFERING.items() if then.get(fact) != now.get(fact)) or "data"
            suite, preset, label, steps, *_ = entry
            found.setdefault((suite, preset, other), {})[key] = label if steps is None else f"{label} T={steps}"
    for (suite, preset, other), names in found.items():
        named, part = few(list(dict.fromkeys(names.values()))), f"{suite}, {preset_in_words(preset)}"
        yield f"{part}: {plural(len(names), 'result')} of {named}, of other {other}"


def _keys(store: Store) -> set[str]:
    return {key for plan in store.plans() for key in plan.heads["cell"].items()}


def _told_runs(plan: PlanTable) -> Iterator[tuple[str, str, Identity]]:
    """Label, key and identity of each planned run, but for its seed."""
    for label, (key, identity, _) in zip(plan.heads["label"].items(), plan.identities(), strict=True):
        yield label, key, identity


def _entry(plan: PlanTable, label: str, identity: Identity) -> tuple[Any, ...]:
    """The facts that tell configurations apart for users."""
    return identity.suite, plan.head["preset"], label, identity.iterations, identity.model, identity.data


@dataclass
class _Version:
    """The version of a configuration in a plan: its rank, the keys of its runs, and whether one of them was made."""

    rank: tuple[int, int]
    cells: set[str]
    is_made: bool = False


def _versions(plan: Content, chosen: Container[str]) -> dict[str, _Version]:
    """The version of each configuration of a plan, by a hash of all that it has in common with other versions."""
    found: dict[str, _Version] = {}
    for cell in plan["cells"]:
        known = distinct(cell["identity"])
        alike = digest({"preset": plan["preset"], **{key: one for key, one in known.items() if key not in OF_VERSION}})
        if alike not in found:
            parts, suite = (known.get("versions") or {}).values(), known["suite_version"]
            found[alike] = _Version((suite if type(suite) is int else 0, sum(parts) - len(parts)), set())
        found[alike].cells.add(cell["cell"])
        found[alike].is_made |= cell["cell"] in chosen
    return found


def _is_newer(one: Mapping[str, _Version], other: Mapping[str, _Version]) -> bool:
    """Tells whether a plan has a newer version of a configuration than another plan."""
    return any(one[alike].rank > other[alike].rank for alike in one.keys() & other.keys())


def _waiting(name: str, versions: Mapping[str, Mapping[str, _Version]]) -> set[str]:
    """The runs of a plan that nobody has made yet, while results of an older version of the same are there."""
    others = [known for other, known in versions.items() if other != name]
    return {
        cell
        for alike, own in versions[name].items()
        if not own.is_made and any(alike in one and one[alike].is_made and one[alike].rank < own.rank for one in others)
        for cell in own.cells
    }
