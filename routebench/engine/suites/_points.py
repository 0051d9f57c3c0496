"""Methods and baselines of a preset, as runs without iterations and seed; refuses what cannot run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from routebench.claims import Claim
from routebench.data import Dataset, Tokens, at_most, declared_where_missing
from routebench.engine.isolation import step
from routebench.engine.results import Identity, is_plain
from routebench.engine.suites._cell import Cell, cell_of, code_behind, plain
from routebench.engine.suites._lineup import Starter
from routebench.engine.suites._parts import stamped
from routebench.engine.suites._suite import Entry, Preset, Suite
from routebench.engine.suites._tuning import OF_METHOD, OF_MODEL
from routebench.errors import UserError, nearest
from routebench.losses import takes_several
from routebench.models.facts import Facts
from routebench.models.smallest import expect_buildable, smallest_side
from routebench.notation import Spec
from routebench.plain import DEPTH
from routebench.protocols.base import expect_measured
from routebench.registry import SHIPPED, models, protocols, routing
from routebench.routing import factory, hyperparameters_of
from routebench.routing.spec import expect_few_iterations, expect_known
from routebench.training import expect_suited

_LONG_NUMBER = re.compile(r"(?:^|:)(?:take:|fold:(?:\d+/)?)\d{19}|\?size=\d{19}")
"""Long numbers in a data set's name: Python converts no number of thousands of digits."""
MOST_CELLS = 200_000
"""Most runs of a plan: planning takes seconds, and reading a folder is tested with half as many."""


@dataclass(frozen=True)
class Point:
    """A run without iterations and seed, its grid of iterations, and the hyperparameters that suite or user set."""

    cell: Cell
    grid: Sequence[int | None]
    fixed: frozenset[str] = frozenset()


def points_of(suite: Suite, preset: Preset, starters: Sequence[Starter]) -> tuple[Preset, Dataset[Any], list[Point]]:
    """The preset with its data set's full name, the data set, and the checked points."""
    preset, data = _usable(suite, preset)
    points = [
        _point(suite, preset, model, one, data.fingerprint)
        for beside in preset.models
        for one in starters
        if not one.lost
        for model in one.entry.networks(beside)
    ]
    protocol = protocols[suite.protocol]
    _expect_held_out(suite, [point.cell.identity for point in points])
    if protocol.trains:  # type: ignore[attr-defined]
        expect_learnable(suite, data, [point.cell.identity for point in points])
    _expect_buildable(suite, preset, data, [point.cell.identity for point in points])
    points += [_lost_point(points[0].cell.identity, one) for one in starters if one.lost and points]
    expect_few(suite, preset, len(preset.seeds) * sum(len(point.grid) for point in points))
    return preset, data, points


def expect_few(suite: Suite, preset: Preset, count: int) -> None:
    """Raises UserError for more runs than a results folder supports."""
    if count > MOST_CELLS:
        raise UserError(
            f"suite {suite.name}, preset {preset.name}: expected at most {MOST_CELLS:,} runs, got {count:,}; take "
            "fewer, such as with --seeds"
        )


def expect_name(data: str) -> None:
    """Raises UserError for the name of a data set with a number that no data set can have."""
    if _LONG_NUMBER.search(data):
        raise UserError(f"data set {data!r:.80}: expected numbers of at most 18 digits, got a longer one")


def _usable(suite: Suite, preset: Preset) -> tuple[Preset, Dataset[Any]]:
    """Loads the data set and lets the protocol check it; returns the preset with the data set's full name, and it.

    A protocol that trains nothing looks at no image: the size of a data set does.
    """
    expect_name(preset.data)
    protocol = protocols[suite.protocol]
    trains = getattr(protocol, "trains", True)
    try:
        with step("data set", preset.data, timed=False), nullcontext() if trains else declared_where_missing():
            name, data = at_most(preset.data, preset.take)
    except UserError as error:
        own = suite.presets.get(preset.name)
        if own is None or own.data != preset.data or type(error) is not UserError:  # else the file names it
            raise
        raise UserError(f"{suite.file}: preset {preset.name}, data: {error}") from error
    with step("protocol", suite.protocol):
        expect_measured(suite.protocol, protocol(), data)
        protocol().expect(data)
    return replace(preset, data=name), data


def _expect_held_out(suite: Suite, points: Sequence[Identity]) -> None:
    """Raises UserError where something is chosen by images that a network is to be trained on."""
    chosen = getattr(protocols[suite.protocol], "chooses", "")
    for point in points:
        if chosen and point.training.get("train_on") == "all":
            raise UserError(
                f"suite {suite.name}: expected train_on = 'train', got 'all' for {point.method} on {point.model}; "
                f"protocol {suite.protocol} chooses {chosen} by held-out images"
            )


def expect_learnable(suite: Suite, data: Dataset[Any], points: Sequence[Identity]) -> None:
    """Raises UserError for training that the data set does not allow: augmented tokens, one class of several."""
    for point in points:
        if point.training.get("train_on") == "all":
            data.for_training().expect_fixed()
        if (name := point.training["augmentation"]) != "none" and isinstance(data.train, Tokens):
            raise UserError(
                f"suite {suite.name}: expected no augmentation of tokens, got {name!r} for {point.method} on "
                f"{point.model}; leave it out for {data.name}"
            )
        if isinstance(data.train, Tokens) and data.train.mask is not None and not _takes_masks(point.method):
            raise UserError(
                f"suite {suite.name}: expected items of as many tokens each for {point.method}, which can leave none "
                f"out, got a mask in {data.name}; choose others with --method"
            )
    if not data.train.multi_label:
        return
    for point in points:
        training = point.training
        if not (several := takes_several(training["loss"])) or training["reconstruction"] > 0:
            way, remedy = f"the loss {training['loss']}", "choose a loss for several, such as margin"
            if several:
                way, remedy = "a reconstruction of one capsule", "set reconstruction to 0"
            raise UserError(
                f"suite {suite.name}: {point.method} on {point.model} is trained with {way}, which takes one "
                f"class per image, and those of {data.name} may show several; {remedy}"
            )


def _lost_point(like: Identity, lost: Starter) -> Point:
    """The point of a method whose plug-in failed to import; its identity, else as `like`, changes when its files do."""
    own = replace(like, method=lost.entry.name, method_params=plain(lost.entry.params), role=lost.role)
    return Point(cell_of(replace(own, routed=True, source=lost.lost), lost.fault), [None])


def _expect_buildable(suite: Suite, preset: Preset, data: Dataset[Any], points: Sequence[Identity]) -> None:
    """Raises UserError for a network that cannot be built with what is set, or for images of this size, or trained so.

    A plug-in's network is asked only where a suite sets its arguments.
    """
    classes, shape = len(data.classes), data.train.shape
    parts: dict[str, frozenset[str]] = {}
    needed: dict[str, int] = {}
    for network, point in {_network(point): point for point in points}.items():
        name, params = point.model, point.model_params
        if models.origin(name) != SHIPPED and not params:
            continue
        try:
            with step("network", name):
                parts[network] = expect_buildable(name, shape, classes, params)
        except UserError as error:
            side = smallest_side(name, shape, classes, params)
            if side is None:
                raise _wrong(suite, preset, error) from error
            needed[name] = side
    if needed:
        raise _too_small(preset.data, shape, needed)
    for point in points if protocols[suite.protocol].trains else ():  # type: ignore[attr-defined]
        if (known := parts.get(_network(point))) is not None:
            try:
                expect_suited(point.model, known, point.training["loss"], point.training["reconstruction"])
            except UserError as error:
                raise _wrong(suite, preset, error) from error


def _wrong(suite: Suite, preset: Preset, error: UserError) -> UserError:
    """The error for what a network is built or trained with, by the suite's file, an option or chosen settings."""
    return UserError(f"suite {suite.name}, preset {preset.name}: {error}")


def _network(point: Identity) -> str:
    return f"{point.model} {point.model_params}"


def expect_chosen(suite: Suite, preset: Preset, data: Dataset[Any], cells: Sequence[Cell]) -> None:
    """Raises UserError where a network or a method cannot be made with the settings that were chosen for it."""
    chosen = [cell.identity for cell in cells if cell.identity.tuning is not None]
    _expect_buildable(suite, preset, data, chosen)
    specs = [Spec(one.method, one.method_params) for one in chosen if one.routed]
    for spec in {str(spec): spec for spec in specs}.values():
        expect_known(spec)
        with step("method", str(spec)):
            factory(spec.name, **spec.params)


def _too_small(data: str, shape: tuple[int, ...], needed: Mapping[str, int]) -> UserError:
    """The error for networks that need larger images, with a way to get them."""
    networks = ", ".join(f"{name} (at least {side} x {side})" for name, side in sorted(needed.items()))
    _, height, width = shape
    larger = f"--data '{data.partition('?')[0]}?size={max(needed.values())}' or more scales them"
    way = larger if "folder:" in data else "choose other data with --data, or another network with --model"
    return UserError(f"images of {data} are {height} x {width} pixels, too small for {networks}; {way}")


def _takes_masks(method: str) -> bool:
    """Tells whether a routing method, or a baseline, takes children that are not there."""
    return method not in routing or Claim.PADDING in getattr(routing[method], "claims", ())


def _point(suite: Suite, preset: Preset, model: str, starter: Starter, fingerprint: str) -> Point:
    """The point of a method or baseline in one network."""
    entry = starter.entry
    routed = entry.routed
    of_model = (table.training_of.get(model, {}) for table in (preset, entry))
    training = (preset.training, entry.training, *of_model)  # the last has the last word
    if model not in models:
        told, place = f"unknown model {model!r}{nearest(model, models)}", suite.place_of(entry, preset)
        if place is not None and entry.models:
            raise place.below("models").wrong(told)
        raise UserError(f"{suite.file}: preset {preset.name}, model: {told}")
    facts: Facts = models[model].facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
    if facts.routed != routed:
        wanted = "a capsule network" if routed else "a network without capsules"
        raise UserError(f"{suite.file}: preset {preset.name}, {entry.name}: expected {wanted}, got model {model!r}")
    defaults = hyperparameters_of(entry.name) if routed else {}
    defaults.pop("iterations", None)
    grid = grid_of(preset, entry)
    for steps in (*grid, *preset.options.get("test_iterations", ())):
        expect_few_iterations(f"suite {suite.name}, preset {preset.name}", steps)
    identity = {
        "suite": suite.name,
        "suite_version": suite.version,
        "protocol": suite.protocol,
        "options": dict(preset.options),
        "method": entry.name,
        "method_params": {**defaults, **entry.params},
        "routed": routed,
        "role": starter.role,
        "model": model,
        "model_params": {**(preset.model_params if routed else {}), **entry.model_params},
        "data": preset.data,
        "data_fingerprint": fingerprint,
        "training": suite.recipe(*training).settings,
        "variant": entry.variant or None,
        "iterations": None,
        "seed": 0,
    }
    found = plain(identity)
    _expect_storable(suite, entry, {**found, "iterations": list(grid)})
    try:
        known = stamped(Identity(**found))
    except UserError as error:  # an option names what is not there, such as an attack
        raise UserError(f"{suite.file}: preset {preset.name}, {entry.name}: {error}") from error
    return Point(cell_of(known, starter.fault, code_behind(known)), grid, _fixed(preset, entry, chain(*training)))


def grid_of(preset: Preset, entry: Entry) -> Sequence[int | None]:
    """The iterations that a method runs with; None alone for one without."""
    iterative = entry.routed and "iterations" in hyperparameters_of(entry.name)
    return preset.grid(entry) if iterative else [None]


def _fixed(preset: Preset, entry: Entry, training: Iterable[str]) -> frozenset[str]:
    """Names of hyperparameters that preset, configuration or user set; tuning starts at the recipe of the suite."""
    of_model = (f"{OF_MODEL}{name}" for name in {**preset.model_params, **entry.model_params})
    of_method = (f"{OF_METHOD}{name}" for name in entry.params)
    return frozenset({*training, *of_model, *of_method})


def _expect_storable(suite: Suite, entry: Entry, identity: Mapping[str, Any]) -> None:
    """Raises UserError for a setting that no record can hold."""
    for key, value in identity.items():
        if not is_plain(value):
            raise UserError(
                f"{suite.file}: {entry.name}: {key.replace('_', ' ')}: expected integers of at most 64 bits, in tables "
                f"and lists at most {DEPTH} deep, got {value!r:.80}"
            )
