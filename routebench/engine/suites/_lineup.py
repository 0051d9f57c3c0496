"""The methods and controls of a run: those of the suite, of the user, and every model that learns without labels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from routebench.engine.isolation import step
from routebench.engine.suites._choices import Choices
from routebench.engine.suites._suite import Entry, Preset, Suite
from routebench.errors import UserError, unknown
from routebench.registry import models, protocols, routing
from routebench.routing.make import factory
from routebench.routing.spec import MethodSpec

METHOD, CONTROL = "method", "control"
"""Roles."""
CONTROLS = ("uniform", "random")
"""Routing methods that every suite runs unasked, beside one iteration of each iterative method."""


def entries_of(suite: Suite, preset: Preset, choices: Choices) -> list[tuple[Entry, str]]:
    """Methods first, then controls that are not among them, each with its role."""
    own: dict[str, list[Entry]] = {}
    for entry in suite.methods:
        own.setdefault(entry.name, []).append(entry)
    controls = {name: Entry(name) for name in CONTROLS} | {entry.name: entry for entry in suite.controls}
    controls |= _unsupervised(suite, preset)
    if choices.methods:
        methods = [
            entry
            for spec in choices.methods
            if spec not in lost(choices)
            for entry in _from_spec(
                spec, own.get(spec.name) or [controls.get(spec.name, Entry(spec.name))], spec.name not in own
            )
        ]
    else:
        methods = [*suite.methods, *(Entry(name) for name in choices.added if name not in own)]
    routed = any(has_capsule_layers(model) for model in preset.models)
    kept = [
        entry
        for entry in controls.values()
        if entry not in methods and ({*preset.models} & {*entry.models} if entry.models else routed)
    ]
    for entry in (*methods, *kept):
        if entry.routed and entry.spec not in choices.faulty:
            _check_method(suite, entry, [*own, *controls])
    roles = [*((entry, CONTROL if entry in controls.values() else METHOD) for entry in methods)]
    return [*roles, *((entry, CONTROL) for entry in kept)]


def _unsupervised(suite: Suite, preset: Preset) -> dict[str, Entry]:
    """Every registered model that learns without labels, by name, where the protocol measures such.

    Those that the suite names as controls are trained as it says and run in the networks that it says, the others by
    the suite's recipe, all of them on their own objective. A network that stands for another by name, such as a smaller
    one for small presets, is not run again by itself.
    """
    if not getattr(protocols[suite.protocol], "unsupervised", False):
        return {}
    own = {"loss": "own", "reconstruction": 0.0}
    named = {entry.name: entry for entry in (*suite.controls, *suite.methods)}
    placed = {network for entry in named.values() for several in entry.models.values() for network in several}
    found = {}
    for name in models:
        if not models[name].facts.unsupervised:  # type: ignore[attr-defined]  # attached by the decorator `facts`
            continue
        entry = named.get(name, Entry(name))
        if entry in suite.methods or (name in placed and not entry.models):
            continue
        beside = entry.models or dict.fromkeys(preset.models, (name,))
        found[name] = replace(entry, training={**own, **entry.training}, models=beside)
    return found


def has_capsule_layers(model: str) -> bool:
    """Whether a network takes a routing method; one that nobody knows is refused elsewhere."""
    return model not in models or bool(models[model].facts.routed)  # type: ignore[attr-defined]


def lost(choices: Choices) -> list[MethodSpec]:
    """The methods that broken plug-ins would have given: those asked for that nobody knows, else one per file."""
    if choices.methods:
        return [spec for spec in choices.methods if choices.broken and spec.name not in routing]
    return [MethodSpec(Path(file.partition(":")[0]).stem) for file in choices.broken]


def _from_spec(spec: MethodSpec, own: list[Entry], is_control: bool) -> list[Entry]:
    """A method from the command line: what is not set there is as the suite has it.

    Without settings, it stands for every entry of its name; with some, they are set in the first.
    """
    params = dict(spec.params)
    fixed = params.pop("iterations", None)
    if fixed is not None and (not isinstance(fixed, int) or isinstance(fixed, bool) or fixed < 1):
        raise UserError(f"routing method {spec.name!r}: iterations must be an integer of at least 1, got {fixed!r}")
    if not own[0].routed:
        return _from_network(spec.name, params, fixed, own, is_control)
    found = [replace(own[0], params={**own[0].params, **params}, variant="")] if params else own
    return found if fixed is None else [replace(entry, iterations=(fixed,)) for entry in found]


def _from_network(
    name: str, params: Mapping[str, Any], iterations: int | None, own: list[Entry], is_control: bool
) -> list[Entry]:
    """A network without routing from the command line, which settings make another one beside the suite's own."""
    if iterations is not None:
        raise UserError(f"{name!r} is a network without routing, and has no iterations to be set")
    if params:
        told = ", ".join(f"{key}={value}" for key, value in params.items())
        return [replace(own[0], model_params={**own[0].model_params, **params}, variant=told)]
    if is_control:
        raise UserError(
            f"{name!r} is a network without routing; it runs beside every method, unasked "
            f"(to change what it is built with: --method '{name}[NAME=VALUE]')"
        )
    return own


def _check_method(suite: Suite, entry: Entry, others: Sequence[str]) -> None:
    if entry.name in models and not has_capsule_layers(entry.name):
        raise UserError(f"{entry.name!r} is a network without routing; {_way_to(entry.name, suite)}")
    if entry.name not in routing:
        raise unknown("method", entry.name, {*routing, *others})
    with step("method", entry.spec):
        factory(entry.name, **entry.params)


def _way_to(network: str, suite: Suite) -> str:
    """What to name in place of a network."""
    for entry in (*suite.methods, *suite.controls):
        if any(network in several for several in entry.models.values()):
            return f"the suite calls it {entry.name!r}"
    return f"suite {suite.name} does not run it, a suite file can name it"
