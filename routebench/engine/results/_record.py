"""Types of the files in a results folder, read from JSON and written back unchanged.

A field's annotation names its type and the check of its value in a file.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

from routebench.engine.results import _checks as checks
from routebench.engine.results._checks import (
    Check,
    Once,
    by_name,
    each,
    is_natural,
    is_points,
    is_seconds,
    is_text,
    is_whole,
    maybe,
    table,
)

YEARS = range(1970, 9999)
"""Years in which runs end: to these, seconds can be added."""
SCHEMA = 2
"""Incremented when records of earlier versions become unreadable."""
FAILED = ("failed", "diverged", "oom", "timeout", "changed")
"""The words for how a run failed."""
Entry = tuple[str, str, int | None]
"""A configuration of a plan: label, network and T."""

SETTINGS = ("options", "method_params", "model_params", "training")
"""Tables of an identity. A key holds what differs from defaults; `options` have none, and hold what a preset sets."""

PROVENANCE = table(
    {},
    {
        "command": is_text, "device": is_text, "commit": is_text, "dirty": maybe(checks.is_scalar), "finished": is_text,
        "backend": is_text, "seconds": checks.is_seconds, "plugins": by_name(is_text), "versions": by_name(is_text),
        "environment": by_name(is_text), "backends": each(is_text),
    },
)  # fmt: skip
COLUMNS = (
    "suite", "suite_version", "protocol", "cell", "status", "reason", "label", "method", "method_params", "role",
    "iterations", "test_iterations", "epoch", "model", "data", "seed", "metric", "split", "value", "unit",
    "higher_is_better", "device", "commit", "dirty", "seconds",
)  # fmt: skip
"""The columns of every table of results. Coordinates of a protocol are further ones, by other names."""
METRIC = table(
    {
        **dict.fromkeys(("metric", "split", "unit"), is_text),
        **dict.fromkeys(("test_iterations", "epoch"), maybe(is_whole)),
        "higher_is_better": maybe(checks.is_flag),
        "value": checks.is_value,
    },
    {"where": by_name(checks.is_mark, other_than=COLUMNS)},
    rest=checks.is_mark,
)
ENTRY = table({"label": is_text, "model": is_text, "iterations": maybe(is_whole)})
"""The check of a configuration that a plan names, such as one side of a comparison."""
PRIMARY = table(
    {"margin": is_points, "first": is_natural},
    {"half_width": maybe(checks.is_positive), "pairs": each(table({"ours": ENTRY, "theirs": ENTRY}))},
)
TUNING = table({}, {"point": by_name(checks.is_plain), "score": maybe(checks.is_number), "trials": is_text})
TUNED = table(
    {
        **dict.fromkeys(("data", "kept", "told"), is_text),
        **dict.fromkeys(("trials", "planned", "finalists", "repeats"), is_natural),
    }
)
"""The check of how a plan says that settings were chosen."""
PLAN = table(
    {"plan": checks.is_name, "created": is_text, "suite": is_text, "preset": is_text, "cells": checks.is_list},
    {
        **dict.fromkeys(("protocol", "question", "caveat", "command"), is_text),
        "sequence": is_natural,
        "yours": each(is_text),
        "primary": PRIMARY,
        "altered": each(ENTRY),
        "settings": table({}, {"models": each(is_text)}),
        "tuned": TUNED,
        "told": table({"data": is_text}, dict.fromkeys(("test", "views"), maybe(is_natural))),
        "networks": by_name(by_name(lambda value: is_text(value) or each(is_text)(value))),
    },
)

Key = Annotated[str, checks.is_key]
Text = Annotated[str, is_text]
Settings = Annotated[Mapping[str, Any], by_name(checks.is_plain)]
Kind = TypeVar("Kind", bound="Stored")


def ended(provenance: Mapping[str, Any]) -> datetime | None:
    """The time at which a run ended, in UTC where its record names no zone; None where that tells no time."""
    try:
        found = datetime.fromisoformat(provenance.get("finished") or "")
    except (ValueError, TypeError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)) if found.year in YEARS else None


def digest(content: Mapping[str, Any]) -> str:
    """The first 16 hex digits of the SHA-256 of the content's canonical JSON."""
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), default=repr).encode()
    ).hexdigest()[:16]


def contradiction(content: Mapping[str, Any]) -> str:
    """Tells how a record or a plan contradicts itself, in words; empty if it does not, or has another form.

    Args:
        content: the table of a file without a checksum, which alone would tell that it was edited.
    """
    runs = content.get("cells", [content])
    try:
        known = {one["cell"]: one["identity"] for one in runs}
        if not all(map(IDENTITY, known.values())):
            return ""
        other = next((cell for cell, identity in known.items() if digest(distinct(identity)) != cell), None)
        other = other or next((one["cell"] for one in runs if not _is_label_of(one["label"], one["identity"])), None)
    except (TypeError, KeyError):
        return ""
    return "" if other is None else f"has no checksum, and what it says of run {other} is of another run"


def _is_label_of(label: Any, identity: Mapping[str, Any]) -> bool:
    """Tells whether a name in tables, such as `dynamic[detach=true] (margin loss)`, is of a run's method."""
    method = identity["method"]
    return isinstance(label, str) and label.startswith(method) and label[len(method) :][:1] in ("", "[", " ")


def is_defaults(value: Any) -> bool:
    """Defaults of settings, by table."""
    return by_name(by_name(checks.is_plain))(value) and value.keys() <= {*SETTINGS}


def distinct(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that distinguish a run from all others: its identity without settings that have their defaults.

    So a new setting whose default changes nothing leaves all keys as they are.

    Args:
        identity: the identity as a file holds it.
    """
    found = {name: value for name, value in identity.items() if name != "defaults"}
    for name, defaults in (identity.get("defaults") or {}).items():
        found[name] = _without(found[name], defaults)
    return found


def _without(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that do not have their defaults."""
    return {key: value for key, value in settings.items() if key not in defaults or value != defaults[key]}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A table of JSON. A field with the default None may be missing in it.

    Args:
        others: keys unknown to this version.
    """

    others: Mapping[str, Any] = field(default_factory=dict)

    inner: ClassVar[Mapping[str, type["Stored"]]] = {}
    """Fields that are tables with types of their own."""

    @classmethod
    def check(cls, **instead: checks.Check) -> checks.Check:
        """The check of such a table, with other checks of some fields."""
        hints = get_type_hints(cls, include_extras=True)
        own = [one for one in fields(cls) if one.name != "others"]
        known = {one.name: instead.get(one.name, hints[one.name].__metadata__[0]) for one in own}
        return table({one.name: known[one.name] for one in own if one.default is MISSING}, known)

    @classmethod
    @cache
    def names(cls) -> frozenset[str]:
        """The keys that this version knows."""
        return frozenset(one.name for one in fields(cls) if one.name != "others")

    @classmethod
    def read(cls: type[Kind], content: Mapping[str, Any]) -> Kind:
        """Makes the object from a table that was checked."""
        own = cls.names()
        known = {key: value for key, value in content.items() if key in own}
        known |= {key: kind.read(known[key]) for key, kind in cls.inner.items()}
        return cls(**known, others={key: value for key, value in content.items() if key not in own})

    def as_dict(self) -> dict[str, Any]:
        """The table, in the order of the fields."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "others"}
        own |= {key: own[key].as_dict() for key in self.inner}
        optional = {one.name for one in fields(self) if one.default is None}
        kept = {key: value for key, value in own.items() if value is not None or key not in optional}
        return {**kept, **self.others}


@dataclass(frozen=True, kw_only=True)
class Identity(Stored):
    """Everything that can change the result of a run.

    Args:
        suite, suite_version: results of different versions are not mixed.
        protocol, options: what is measured, and how.
        method, method_params: the routing with all its hyperparameters but `iterations`; or a network without routing.
        routed: whether it is a routing method.
        role: `method` or `control`.
        model, model_params: the network.
        data, data_fingerprint: the images.
        training: the recipe.
        versions: versions of those of its parts that have another than 1, by kind, such as `method` or `loss`; see
            `docs/versions.md`. None if all have 1.
        source: hash of the user's files that it runs; None where everything ships with routebench, or says its version.
        defaults: defaults of the settings in `options`, `method_params`, `model_params` and `training`, when this was
            written.
        variant: words that distinguish configurations of the same method and hyperparameters.
        tuning: for a trial, its `point`, the settings that it tries; for a run with chosen settings, their point,
            `score` in per cent, and `trials`, the digest of the keys of all trials that they were chosen from.
        iterations: routing iterations in training; None if the method has none.
        seed: seed of the training.
    """

    suite: Text
    suite_version: Annotated[Any, checks.is_scalar]
    protocol: Text
    options: Settings
    method: Text
    method_params: Settings
    routed: Annotated[bool, checks.is_flag]
    role: Text
    model: Text
    model_params: Settings
    data: Text
    data_fingerprint: Text
    training: Annotated[Mapping[str, Any], table({}, {"epochs": is_natural})]  # readers calculate with these alone
    versions: Annotated[Mapping[str, int] | None, by_name(is_whole)] = None
    source: Annotated[str | None, is_text] = None
    defaults: Annotated[Mapping[str, Mapping[str, Any]] | None, is_defaults] = None
    variant: Annotated[str | None, is_text] = None
    tuning: Annotated[Mapping[str, Any] | None, TUNING] = None
    iterations: Annotated[int | None, maybe(is_whole)]
    seed: Annotated[int, is_whole]

    @property
    def key(self) -> str:
        """16 hex digits of what distinguishes it."""
        return digest(distinct(self.as_dict()))

    def distinct(self, settings: str) -> dict[str, Any]:
        """One of `SETTINGS` without what has its default, as in `distinct`."""
        return _without(getattr(self, settings), (self.defaults or {}).get(settings, {}))

    def entry(self, label: str) -> Entry:
        """The configuration in its plan, of which this is one seed or one trial.

        Args:
            label: names its method in tables.
        """
        return label, self.model, self.iterations

    @property
    def is_trial(self) -> bool:
        """Tells whether it is a trial of settings, not a result."""
        return self.tuning is not None and "trials" not in self.tuning


IDENTITY = Identity.check()


@dataclass(frozen=True, kw_only=True)
class PlannedCell(Stored):
    """A run of a plan.

    Args:
        cell: its key.
        label: names its method in tables.
        params: hyperparameters and variant that differ from the plain method, as text.
        identity: what the key stands for.
    """

    cell: Key
    label: Text
    params: Text
    identity: Annotated[Identity, IDENTITY]

    inner: ClassVar[Mapping[str, type[Stored]]] = {"identity": Identity}


@dataclass(frozen=True, kw_only=True)
class Record(Stored):
    """A finished run.

    Args:
        schema: version of the format.
        cell, label, params, identity: as planned.
        status: `ok`, or how it failed.
        reason: the reason of a failure, in one line.
        metrics: what was measured, one table per value.
        arrays: the file of its raw outputs in the folder; None if it has none.
        provenance: code, machine and time of the measurement.
        files: checksums of the files that the result rests on, by their place in the folder.
        warnings: sentences about files found damaged during the run.
        output: the end of its process's output, if the process died or was stopped.
        shuffled: `images`, the number of test images that the network was asked about once more in another order;
            `answers`, the number of answers that were others then, and `again`, where the order was the same.
    """

    schema: Annotated[int, is_whole] = SCHEMA
    cell: Key
    label: Text
    params: Text
    status: Annotated[str, lambda value: value in ("ok", *FAILED)]
    reason: Text
    identity: Annotated[Identity, IDENTITY]
    metrics: Annotated[Sequence[Mapping[str, Any]], each(METRIC)]
    arrays: Annotated[str | None, maybe(is_text)]
    provenance: Annotated[Mapping[str, Any], PROVENANCE]
    files: Annotated[Mapping[str, str] | None, checks.is_sums] = None
    warnings: Annotated[Sequence[str] | None, each(is_text)] = None
    output: Annotated[str | None, is_text] = None
    shuffled: Annotated[Mapping[str, int] | None, by_name(is_whole)] = None

    @property
    def accuracies(self) -> list[float]:
        """Accuracy (%) on all test images with the T trained with, each that the record has."""
        wanted: tuple[Any, ...] = ("accuracy", "test", None, {})
        return [
            float(one["value"])
            for one in self.metrics
            if (one["metric"], one["split"], one.get("epoch"), one.get("where") or {}) == wanted
            and one.get("test_iterations") in (None, self.identity.iterations)
            and one["value"] is not None
        ]

    @property
    def accuracy(self) -> float | None:
        """The value of `accuracies`; None without a value, or with two that differ."""
        known = {*self.accuracies}
        return known.pop() if len(known) == 1 else None

    inner: ClassVar[Mapping[str, type[Stored]]] = {"identity": Identity}


RECORD = Record.check()


class Many:
    """Many records: looks once at each kind of identity, origin and metric, and keeps equal tables once.

    Args:
        metrics: the check of a record's metrics.
    """

    def __init__(self, metrics: Check | None = None):
        self._parts = {
            "identity": Once(IDENTITY, seed=is_whole),
            "provenance": Once(PROVENANCE, seconds=is_seconds, finished=is_text),
        }
        own: dict[str, Check] = {"metrics": metrics or each(Once(METRIC, value=checks.is_value))}
        self.check = Record.check(**own, **self._parts)

    def read(self, content: Mapping[str, Any]) -> Record:
        """Makes the record from a table that was checked."""
        return Record.read({**content, **{name: part.shared(content[name]) for name, part in self._parts.items()}})
