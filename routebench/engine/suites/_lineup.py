"""The participants of a call: the suite's methods and baselines, the user's choices, models without labels."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from routebench.engine.isolation import step
from routebench.engine.results import digest
from routebench.engine.suites._changes import OF_EXTENT, key_of
from routebench.engine.suites._suite import CONTROLS, Entry, Preset, Suite
from routebench.errors import UserError, unknown
from routebench.losses import OWN
from routebench.models.facts import Facts
from routebench.notation import Spec
from routebench.received import text_in
from routebench.registry import models, plugin_files, protocols, routing
from routebench.routing.make import factory
from routebench.routing.spec import expect_known

METHOD, CONTROL = "method", "control"
"""Roles."""


@dataclass(frozen=True)
class Choices:
    """The user's choices besides suite and preset.

    Args:
        methods: methods to run instead of the suite's; empty for the suite's.
        added: methods to run beside the suite's.
        absent: methods and networks of plug-ins that this process has not imported; what they take part in is left out.
        broken: plug-in files that failed to import, with the reason.
        faulty: methods that cannot be made, as typed in a command, with the reason.
        data: a data set instead of the preset's.
        models: networks instead of the preset's; empty for the preset's.
        baselines: names of the only baselines that run, in their plain form; empty for all.
        seeds: seeds instead of the preset's.
        backend: an implementation of routing instead of the preset's, unless it is `auto`.
        loss: the loss of every configuration, instead of the suite's; None for the suite's.
        settings: a file that `routebench tune` wrote, instead of the preset's.
        tuning: whether trials of settings run instead of the preset.
        trials: number of trials of each configuration, instead of the suite's.
        until: the half-width of the intervals of pre-specified comparisons, in points; None for the suite's.
        changes: keys of the preset's table with other values, such as `training.epochs=20`.
    """

    methods: tuple[Spec, ...] = ()
    added: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    faulty: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    seeds: range | None = None
    backend: str = "auto"
    models: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    loss: str | None = None
    settings: Path | None = None
    tuning: bool = False
    trials: int | None = None
    until: float | None = None
    changes: tuple[str, ...] = ()

    @property
    def plain(self) -> "Choices":
        """The same without what makes runs other than the suite's file says: how many there are stays."""
        kept = tuple(change for change in self.changes if key_of(change) in OF_EXTENT)
        return replace(self, changes=kept, loss=None, settings=None)

    @property
    def unlike_file(self) -> tuple[str, ...]:
        """The values that runs have other than in the suite's file, as `KEY=VALUE`."""
        return (*self.changes, *(() if self.loss is None else (f"loss={self.loss}",)))


@dataclass(frozen=True)
class Starter:
    """A method or a baseline that takes part.

    Args:
        entry: what it is.
        role: `METHOD` or `CONTROL`.
        fault: why it cannot be made; empty if it can.
        lost: hash of the plug-ins that should have brought it and failed to import; empty if it is known.
    """

    entry: Entry
    role: str
    fault: str = ""
    lost: str = ""


def line_up(suite: Suite, preset_name: str, choices: Choices) -> tuple[Preset, tuple[Starter, ...]]:
    """The preset as the user chose it, and who takes part in it: methods, baselines not among them, what was lost.

    Raises:
        UserError: a name or a hyperparameter is unknown, or no method can run in a network that was asked for.
    """
    preset, suite = _present(suite, suite.preset(preset_name), choices.absent)
    choices = replace(choices, models=tuple(name for name in choices.models if name not in choices.absent))
    preset = _chosen(preset, choices)
    methods, controls = (
        tuple(one for one in entries if one.variant not in preset.without)
        for entries in (suite.methods, suite.controls)
    )
    suite = replace(suite, methods=methods, controls=controls)
    lost = _lost(choices)
    gone = [*(spec for spec, _ in lost), *(spec for spec in choices.methods if spec.name in choices.absent)]
    starters = [
        _with_loss(one, choices.loss)
        for one in _starters(suite, preset, choices, gone)
        if one.role == METHOD or _is_wanted(one.entry, preset, choices)
    ]
    if not choices.absent:  # else who stands beside a network may be absent
        _expect_networks(suite, preset, [one.entry for one in starters if one.role == METHOD])
    files = {str(file): file for spec in choices.broken for file in plugin_files(spec)}
    source = digest({name: text_in(file) for name, file in files.items()})
    starters += [Starter(Entry(spec.name, spec.params), METHOD, reason, source) for spec, reason in lost]
    return preset, tuple(starters)


def _is_wanted(baseline: Entry, preset: Preset, choices: Choices) -> bool:
    """Tells whether a baseline runs."""
    is_chosen = not choices.baselines or (baseline.name in choices.baselines and not baseline.variant)
    return is_chosen and baseline.name not in preset.without


def _present(suite: Suite, preset: Preset, absent: Collection[str]) -> tuple[Preset, Suite]:
    """The preset and the suite without what takes part in them by these names."""

    def there(entries: Sequence[Entry]) -> Iterator[Entry]:
        for entry in entries:
            beside = {one: tuple(name for name in of if name not in absent) for one, of in entry.models.items()}
            kept = {one: of for one, of in beside.items() if of and one not in absent}
            if entry.name not in absent and (kept or not entry.models):
                yield replace(entry, models=kept)

    own = replace(suite, methods=tuple(there(suite.methods)), controls=tuple(there(suite.controls)))
    return replace(preset, models=tuple(name for name in preset.models if name not in absent)), own


def _with_loss(starter: Starter, loss: str | None) -> Starter:
    """The starter with a loss in place of any that the suite says; a network that learns without labels keeps its."""
    entry = starter.entry
    if loss is None or entry.training.get("loss") == OWN:
        return starter
    training = {**entry.training, "loss": loss}
    return replace(starter, entry=replace(entry, training=training, training_of=_without_loss(entry.training_of)))


def _without_loss(training_of: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        model: {key: value for key, value in table.items() if key != "loss"} for model, table in training_of.items()
    }


def _chosen(preset: Preset, choices: Choices) -> Preset:
    if choices.seeds is not None:
        preset = replace(preset, seeds=choices.seeds)
    if choices.models:
        _expect_models(choices.models)
        preset = replace(preset, models=tuple(dict.fromkeys(choices.models)), model_params={}, training_of={})
    if choices.loss is not None:
        preset = replace(preset, training_of=_without_loss(preset.training_of))
    if choices.backend != "auto" and "backends" in preset.options:
        preset = replace(preset, options={**preset.options, "backends": [choices.backend]})
    if choices.settings is not None:
        preset = replace(preset, settings=os.path.realpath(choices.settings))
    return preset if choices.data is None else replace(preset, data=choices.data)


def _expect_models(names: Sequence[str]) -> None:
    """Raises UserError for an unknown network from the command line."""
    for name in names:
        bare = name.partition("[")[0]
        if bare in models and bare != name:
            way = "a suite file" if _has_capsule_layers(bare) else f"--method '{name}' or a suite file"
            raise UserError(f"--model {name}: expected a name alone; what a network is built with is set by {way}")
        if name not in models:
            raise unknown("model", name, models, shipped=models.is_shipped)


def _expect_networks(suite: Suite, preset: Preset, methods: Sequence[Entry]) -> None:
    """Raises UserError for a network beside which no method of the suite has one of its own."""
    for model in preset.models if methods else ():
        if model in models and not any(entry.networks(model) for entry in methods):
            known = sorted({name for entry in methods for name in entry.models})
            raise UserError(
                f"suite {suite.name}: no method has a network to stand beside {model!r}; choose one of "
                f"{', '.join(known)}, or name a method of your own with --method"
            )


def _starters(suite: Suite, preset: Preset, choices: Choices, lost: Sequence[Spec]) -> list[Starter]:
    own = _by_name(suite.methods)
    by_name = {name: [Entry(name)] for name in CONTROLS} | _by_name(suite.controls) | _unsupervised(suite, preset)
    controls = [entry for several in by_name.values() for entry in several]
    if choices.methods:
        methods = []
        for spec in choices.methods:
            entries = own.get(spec.name) or by_name.get(spec.name, [Entry(spec.name)])
            found = [] if spec in lost else _from_spec(spec, entries, spec.name not in own)
            methods += [entry for entry in found if entry not in methods]  # 1 and 1.0 are one value
    else:
        methods = [*suite.methods, *(Entry(name) for name in choices.added if name not in own)]
    routed = any(_has_capsule_layers(model) for model in preset.models)
    kept = [
        entry
        for entry in controls
        if entry not in methods and ({*preset.models} & {*entry.models} if entry.models else routed)
    ]
    for entry in (*methods, *kept):
        if entry.routed and entry.spec not in choices.faulty:
            try:
                _check_method(suite, entry, [*own, *by_name])
            except UserError as error:
                if (place := suite.place_of(entry, preset)) is None:  # the user chose it
                    raise
                raise place.wrong(str(error)) from error
    roles = [*((entry, CONTROL if entry in controls else METHOD) for entry in methods)]
    roles += [(entry, CONTROL) for entry in kept]
    return [Starter(entry, role, choices.faulty.get(entry.spec, "")) for entry, role in roles]


def _by_name(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.name, []).append(entry)
    return found


def _unsupervised(suite: Suite, preset: Preset) -> dict[str, list[Entry]]:
    """Every registered model that learns without labels and routing, by name, if the protocol measures such models.

    Baselines of the suite have the training and networks that it names; other models have the suite's recipe; all train
    on their own objective. A model that stands in for another, such as a smaller one for small presets, does not run
    again under its own name.
    """
    if not getattr(protocols[suite.protocol], "unsupervised", False):
        return {}
    own = {"loss": OWN, "reconstruction": 0.0}
    entries = (*suite.controls, *suite.methods)
    placed = {network for entry in entries for several in entry.models.values() for network in several}
    elsewhere = placed | {entry.name for entry in suite.methods}
    controls = _by_name(suite.controls)
    found: dict[str, list[Entry]] = {}
    for name in models:
        known: Facts = models[name].facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
        if known.routed or not known.unsupervised:
            continue
        for entry in controls.get(name, [] if name in elsewhere else [Entry(name)]):
            beside = entry.models or ({} if name in placed else dict.fromkeys(preset.models, (name,)))
            made = replace(entry, training={**own, **entry.training}, models=beside) if beside else entry
            found.setdefault(name, []).append(made)
    return found


def _has_capsule_layers(model: str) -> bool:
    """Tells whether a network takes a routing method; true for an unknown network, which is refused elsewhere."""
    return model not in models or bool(models[model].facts.routed)  # type: ignore[attr-defined]


def _lost(choices: Choices) -> list[tuple[Spec, str]]:
    """The methods of broken plug-ins, with the reason.

    If the user named methods, they are the unknown ones, since their file is not known; else one per name of a file.
    """
    if choices.methods:
        together = "; ".join(choices.broken.values())
        return [(spec, together) for spec in choices.methods if choices.broken and spec.name not in routing]
    reasons: dict[str, list[str]] = {}
    for file, reason in choices.broken.items():
        reasons.setdefault(Path(file.partition(":")[0]).stem, []).append(reason)
    return [(Spec(name), "; ".join(several)) for name, several in reasons.items()]


def _from_spec(spec: Spec, own: list[Entry], is_control: bool) -> list[Entry]:
    """Configurations for a method from the command line. Hyperparameters that it does not set come from the suite.

    A name alone selects every configuration of that name; hyperparameters apply to the first.
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
    """Configurations for a network without routing from the command line; arguments make it a new configuration."""
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
    if entry.name in models and not _has_capsule_layers(entry.name):
        raise UserError(f"{entry.name!r} is a network without routing; {_way_to(entry.name, suite)}")
    if entry.name not in routing:
        raise unknown("method", entry.name, {*routing, *others}, shipped=routing.is_shipped)
    expect_known(Spec(entry.name, entry.params))
    with step("method", entry.spec):
        factory(entry.name, **entry.params)


def _way_to(network: str, suite: Suite) -> str:
    """Says which name to use in place of a network's."""
    for entry in (*suite.methods, *suite.controls):
        if any(network in several for several in entry.models.values()):
            return f"the suite calls it {entry.name!r}"
    return f"suite {suite.name} does not run it, a suite file can name it"
