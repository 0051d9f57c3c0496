"""Takes results whose keys held a hash of routebench's code (schema 1) over to keys with versions of its parts.

Keys hang together: those of trials make the digests that runs with chosen settings name, those of runs name records,
raw outputs and plans. Each record keeps the file that it was made from, word for word, under `earlier`.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from routebench.atomic import PACKED, expect_empty, expect_place, filled, told_when_full, write_text
from routebench.engine.merge import DIVERGED
from routebench.engine.results import (
    RECORD,
    SCHEMA,
    Identity,
    checksum,
    files_of,
    is_fit,
    is_packed,
    is_plan,
    pack,
    parsed,
    unsealed,
)
from routebench.engine.running import key_of_fit
from routebench.engine.suites import ChosenSettings, NamedParts, digest_of, older_parts, parts_of, stamped
from routebench.errors import UserError, one_line
from routebench.received import TENSORS, expect_folders, read_plain
from routebench.registry import SHIPPED

FROM = 1
"""The schema that is taken over."""
KNOWN = Path(__file__).with_name("earlier.json")
"""Commits of routebench's own history, and the parts whose numbers were of an earlier version there.

0 says that no version stands for those numbers. A part is a kind and a name, or a setting of it that alone moved.
"""

Text = tuple[bytes, dict[str, Any]]
"""A file and its content."""


@dataclass
class Migrated:
    """The results that were taken over.

    Args:
        cells: new keys by old ones.
        digests: new digests of sets of trials by old ones; settings that were chosen from them name them.
        unknown: reasons why runs stay results of the code that made them, which nothing that is planned today meets,
            with the number of runs.
        older: parts of an older version, with the number of runs that have them; the next call measures these anew.
        left_out: what could not be read, and records in whose place another of the same run is kept.
        fits: number of trained networks.
    """

    cells: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    older: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)
    fits: int = 0


def migrate(results: Path, folder: Path) -> Migrated:
    """Writes a results folder of schema 1 anew, in the schema of today; a pack becomes a pack. Needs no network.

    Args:
        results: the old folder, which stays as it is.
        folder: the new folder, which must not hold anything yet. It appears when it is whole.

    Raises:
        UserError: `results` holds nothing of schema 1, or `folder` is taken or cannot be written.
        StoreFull: the disk is full.
    """
    expect_place(folder, "the folder", folder=True)
    expect_empty(folder)
    found = Migrated()
    files = files_of(results)
    plans, records = (_read(results, files, part, found) for part in ("plans", "records"))
    if not plans and not records:
        told = f"; {found.left_out[0]}" if found.left_out else ""
        raise UserError(f"expected results of schema {FROM}, found no plan and no record in {str(results)!r}{told}")
    identities = _identities(plans, records, found)
    with told_when_full(folder.parent), filled(folder, PACKED[0] if is_packed(results) else "plans") as made:
        whole = made / "results" if is_packed(results) else made
        for part in ("plans", "records", "arrays"):
            (whole / part).mkdir(parents=True)
        _write_records(files, whole, records, identities, found)
        _write_plans(whole, plans, identities, found)
        for file in sorted(results.glob("*.settings.json")):  # of a pack, they lie beside it
            _write_settings(file, whole / file.name, found)
        write_text(whole / "schema.json", json.dumps({"schema": SCHEMA}))
        if is_packed(results):
            pack(whole, made)
            shutil.rmtree(whole)
    return found


def _read(results: Path, files: Path, part: str, found: Migrated) -> list[Text]:
    """The plans or records of a folder; what is damaged is told."""
    check, held = RECORD if part == "records" else is_plan, []
    for file in sorted((files / part).glob("[!.]*.json")):
        try:
            text = read_plain(file, named=True)[0]
            content = parsed(text)
        except (OSError, ValueError, RecursionError):
            found.left_out.append(f"{part}/{file.name} could not be read")
            continue
        if isinstance(content, dict) and content.get("schema", FROM) != FROM:
            raise UserError(
                f"expected results of schema {FROM}, got schema {content['schema']} in {str(results)!r}; this "
                f"routebench reads schema {SCHEMA} as it is"
            )
        is_named = isinstance(content, dict) and content.get("cell", content.get("plan")) == file.stem
        if is_named and unsealed(text, content) and check(content):
            held.append((text, content))
        else:
            found.left_out.append(f"{part}/{file.name} is not what was written")
    return held


def _identities(plans: Sequence[Text], records: Sequence[Text], found: Migrated) -> dict[str, Identity]:
    """The identity of every run in the schema of today, by its old key; the new keys go into `found`."""
    old = {cell["cell"]: Identity.read(cell["identity"]) for _, plan in plans for cell in plan["cells"]}
    old |= {record["cell"]: Identity.read(record["identity"]) for _, record in records}
    origins = {record["cell"]: record["provenance"] for _, record in records}
    new: dict[str, Identity] = {}

    def take(key: str, known: Identity) -> None:
        new[key], reason = _taken_over(known, origins.get(key))
        found.cells[key] = new[key].key
        found.unknown[reason] += 1
        found.older.update(
            () if reason else (f"{part}, version {then}" for part, (then, _) in older_parts(new[key]).items())
        )

    for key, known in old.items():
        if known.is_trial:
            take(key, known)
    for _, plan in plans:
        keys = [cell["cell"] for cell in plan["cells"]]
        if all(key in new for key in keys):
            found.digests[digest_of(keys)] = digest_of([found.cells[key] for key in keys])
    for key, known in old.items():
        if not known.is_trial:
            tuning = known.tuning and {**known.tuning, "trials": _renamed(known.tuning["trials"], found)}
            take(key, replace(known, tuning=tuning))
    found.unknown.pop("", None)
    return new


def _renamed(trials: Any, found: Migrated) -> Any:
    """The digest of a set of trials; that of trials which are not here stays."""
    return found.digests.get(trials, trials)


def _taken_over(known: Identity, origin: Mapping[str, Any] | None) -> tuple[Identity, str]:
    """The identity in the schema of today, and why it stays a result of its own code; empty if it does not.

    Args:
        known: an identity with `source`, the hash of routebench's code.
        origin: the record's provenance; None for a run that was never executed, whose code is that of today.
    """
    for kind, registry, name in parts_of(known):
        if name not in registry or registry.origin(name) != SHIPPED:
            return known, f"their {'network' if kind == 'model' else kind} is of a plug-in"
    now = stamped(known)
    if origin is None:
        return now, ""
    commit = str(origin.get("commit", ""))
    if commit not in _known() or origin.get("dirty"):
        reason = "their code differed from its commit" if origin.get("dirty") else "their code is of no known commit"
        return replace(now, versions=None, source=known.source), reason
    before = _known()[commit]
    if any(before.get(f"method {known.method} {name}={value}") == 0 for name, value in known.method_params.items()):
        return replace(now, versions=None, source=known.source), "no version stands for their numbers"
    named = NamedParts.of(known).named()
    then = {kind: before.get(f"{kind} {name}".strip(), version or 1) for kind, name, version in named}
    return replace(now, versions={kind: version for kind, version in then.items() if version > 1} or None), ""


@cache
def _known() -> dict[str, dict[str, int]]:
    groups = json.loads(KNOWN.read_text(encoding="utf-8"))
    return {commit: group["versions"] for group in groups for commit in group["commits"]}


def _write_records(
    files: Path, folder: Path, records: Sequence[Text], identities: Mapping[str, Identity], found: Migrated
) -> None:
    """Writes records, raw outputs and networks."""
    fits = _fits(files, folder, records, identities, found)
    found.fits = len(fits)
    kept: dict[str, Text] = {}
    for text, record in sorted(records, key=lambda one: _weight(one[1])):
        old, key = record["cell"], found.cells[record["cell"]]
        if key in kept:
            less = kept[key][1]
            why = "is later" if less["status"] == record["status"] else f"counts before it: {record['status']}"
            found.left_out.append(f"records/{less['cell']}.json is of the same run as {old}, which {why}")
        kept[key] = text, record
    for key, (text, record) in kept.items():
        old = record["cell"]
        new = {**record, "schema": SCHEMA, "cell": key, "identity": identities[old].as_dict()}
        new["arrays"] = record["arrays"] and f"arrays/{key}.safetensors"
        new["provenance"] = {**record["provenance"], "code": record["identity"].get("source", "")}
        if "files" in record:
            new["files"] = {_place(name, old, key, fits): known for name, known in record["files"].items()}
        _write_sealed(folder / "records" / f"{key}.json", {**new, "earlier": text.decode()})
        arrays = files / "arrays" / f"{old}.safetensors"
        if arrays.is_file():
            (folder / "arrays" / f"{key}.safetensors").write_bytes(read_plain(arrays, TENSORS)[0])


def _weight(record: Mapping[str, Any]) -> tuple[int, str]:
    """Sort key of the records of a run: the one that counts comes last, as `merge` has it, then the later one."""
    is_result, is_divergence = record["status"] == "ok", record["status"] == DIVERGED
    return is_result + 2 * is_divergence, str(record["provenance"].get("finished", ""))


def _write_plans(folder: Path, plans: Sequence[Text], identities: Mapping[str, Identity], found: Migrated) -> None:
    for _, plan in plans:
        cells = {found.cells[cell["cell"]]: cell for cell in plan["cells"]}
        told = [{**cell, "cell": key, "identity": identities[cell["cell"]].as_dict()} for key, cell in cells.items()]
        _write_sealed(folder / "plans" / f"{plan['plan']}.json", {**plan, "schema": SCHEMA, "cells": told})


def _write_settings(file: Path, new: Path, found: Migrated) -> None:
    try:
        chosen = ChosenSettings.read(file, "NAME")
    except UserError as error:
        found.left_out.append(str(error))
        return
    choices = tuple(replace(one, trials=one.trials and _renamed(one.trials, found)) for one in chosen.choices)
    replace(chosen, digest=_renamed(chosen.digest, found), choices=choices).write(new)


def _write_sealed(file: Path, content: Mapping[str, Any]) -> None:
    write_text(file, checksum.sealed(content), lasting=False)  # nothing counts before the folder has its name


def _place(name: str, old: str, key: str, fits: Mapping[str, str]) -> str:
    """The place in the new folder of a file that a record names."""
    part, _, own = name.partition("/")
    if part == "arrays":
        return f"arrays/{key}.safetensors" if own == f"{old}.safetensors" else name
    fit, _, file = own.partition("/")
    return f"{part}/{fits.get(fit, fit)}/{file}"


def _fits(
    files: Path, folder: Path, records: Sequence[Text], identities: Mapping[str, Identity], found: Migrated
) -> dict[str, str]:
    """Copies the networks that planned runs may use again; returns their new keys by the old ones."""
    new: dict[str, str] = {}
    tried: set[str] = set()
    for _, record in records:
        known = identities[record["cell"]]
        if known.source is not None or older_parts(known):
            continue  # today's code trains others
        for fit in {name.split("/")[1] for name in record.get("files") or {} if name.startswith("fits/")} - tried:
            tried.add(fit)
            place = files / "fits" / fit
            if not os.path.lexists(place):
                continue
            try:
                held, request = _files_of_fit(files, fit)
                if request["data"] != known.data:
                    continue  # nobody says with which fingerprint
                new[fit] = key_of_fit(request, known.data_fingerprint)
            except (OSError, ValueError, LookupError, TypeError, RecursionError, UserError) as error:
                found.left_out.append(f"fits/{fit} could not be read: {one_line(error)}")
                continue
            (folder / "fits" / new[fit]).mkdir(parents=True)
            for name, content in held.items():
                (folder / "fits" / new[fit] / name).write_bytes(content)
    return new


def _files_of_fit(files: Path, fit: str) -> tuple[dict[str, bytes], Mapping[str, Any]]:
    """The files of a trained network by name, and what was asked for.

    Raises:
        UserError, OSError, ValueError: it is damaged, or a link or a pipe stands in its place.
    """
    expect_folders(files, [f"fits/{fit}"], "results folder")
    text = read_plain(files / "fits" / fit / "fit.json")[0]
    notes = parsed(text)
    if not isinstance(notes, dict) or not unsealed(text, notes) or not is_fit(notes):
        raise ValueError("it is not what was written")
    held = {name: read_plain(files / "fits" / fit / name, TENSORS)[0] for name in notes.get("files", {})}
    return {**held, "fit.json": text}, notes["request"]
