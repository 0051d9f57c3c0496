"""The facts that distinguish results: versions of what ships, a hash of what does not, settings beside the defaults.

`docs/versions.md` says when a result counts as the same.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from routebench.data import loader_of
from routebench.data_names import items_of
from routebench.engine.origin import code_of
from routebench.engine.results import Identity
from routebench.engine.suites._cell import plain, registered_parts, words_in
from routebench.errors import UserError
from routebench.models import options_of
from routebench.models.facts import Facts
from routebench.protocols.base import FitRequest
from routebench.recipe import DEFAULTS, LEGAL, VERSIONS, Recipe
from routebench.registry import SHIPPED, Registry, datasets, models, protocols, replaces
from routebench.routing import hyperparameters_of


def older_parts(known: Identity) -> dict[str, tuple[int, int]]:
    """Parts of a run that have another version now than when it was planned: their versions then and now, by name.

    Of parts that are not registered here, nothing is known.
    """
    then = known.versions or {}
    try:
        named = [*NamedParts.of(known).named()]
    except UserError:
        return {}
    return {
        f"{kind} {name}".strip(): (then.get(kind, 1), version)
        for kind, name, version in named
        if version is not None and version != then.get(kind, 1)
    }


def stamped(known: Identity) -> Identity:
    """The identity with versions, source and defaults as they are now, of parts that are registered."""
    parts = NamedParts.of(known)
    return replace(known, versions=parts.versions() or None, source=parts.source(), defaults=parts.defaults())


@dataclass(frozen=True)
class NamedParts:
    """The parts that a configuration names.

    Args:
        model, data: their names.
        method: its name; None for a network without routing.
        model_params, method_params: settings of network and method.
        training: settings of the recipe.
        protocol: a name; empty for a fit, which any protocol may use.
        options: settings of the protocol.
    """

    model: str
    data: str
    method: str | None
    model_params: Mapping[str, Any]
    training: Mapping[str, Any]
    method_params: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, known: Identity) -> "NamedParts":
        """The parts of a run."""
        return cls(
            known.model, known.data, known.method if known.routed else None, known.model_params, known.training,
            known.method_params if known.routed else {}, known.protocol, known.options,
        )  # fmt: skip

    @classmethod
    def of_fit(cls, request: FitRequest) -> "NamedParts":
        """The parts of a trained network."""
        return cls(request.model, request.data, request.method, request.model_params, request.recipe.settings)

    def named(self) -> Iterator[tuple[str, str, int | None]]:
        """Kind, name and version of each part; the version is None where a hash of files stands for it.

        What a protocol trains besides, such as another network to attack, has kind and name in one.
        """
        own = [*self._own()]
        yield from own
        if self.protocol:
            protocol = protocols[self.protocol]()
            for name, version in protocol.versions(self.options).items():
                yield name, "", version
            known = {(kind, name) for kind, name, _ in own}
            for fit in self._fits():
                for kind, name, version in fit._own():
                    if (kind, name) not in known:
                        known.add((kind, name))
                        yield f"{kind} {name}", "", version

    def _fits(self) -> Iterator["NamedParts"]:
        """The parts of each network that the protocol trains besides."""
        for fit in protocols[self.protocol]().fits(self._request(), self.options) if self.protocol else ():
            models[fit.model]  # an option may name one that is not there
            yield NamedParts.of_fit(fit)

    def _request(self) -> FitRequest:
        """The main network of a run, as far as parts are concerned."""
        recipe = Recipe(**{name: value for name, value in self.training.items() if name in LEGAL})
        return FitRequest(
            model=self.model, model_params=self.model_params, method=self.method, method_params=self.method_params,
            data=self.data, recipe=recipe, seed=0,
        )  # fmt: skip

    def _own(self) -> Iterator[tuple[str, str, int | None]]:
        """The parts without what the protocol trains or does besides."""
        for kind, registry, name in self._registered():
            yield kind, name, registry.version(name)
        for option, raised in self._facts.option_versions.items():
            if (value := str(self.model_params.get(option))) in raised:
                yield option, value, raised[value]
        data, _ = loader_of(items_of(self.data)[0])
        yield "data", data, datasets.version(data)
        for kind, raised in VERSIONS.items():
            yield kind, (name := str(self.training.get(kind, DEFAULTS[kind]))), raised.get(name, 1)

    def versions(self) -> dict[str, int]:
        """Versions by kind: those above 1, and those that a plug-in says."""
        origins = ((kind, registry.origin(name)) for kind, registry, name in self._registered())
        own = {kind for kind, origin in origins if origin != SHIPPED and not replaces(origin)}
        return {kind: one for kind, _, one in self.named() if one is not None and (one > 1 or kind in own)}

    def source(self) -> str | None:
        """A hash of the user's files; None where every part ships or says its version."""
        named = [part for parts in (self, *self._fits()) for part in parts._registered()]
        unsaid = [registry[name] for _, registry, name in named if registry.version(name) is None]
        words = words_in(self.model_params, self.method_params, self.options)
        return code_of(*unsaid, shipped=False, words=words).yours or None if unsaid else None

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Defaults of settings, by the table of the identity that they are in."""
        found = {"training": dict(DEFAULTS), "model_params": self._of_network()}
        if self.method is not None:
            found["method_params"] = hyperparameters_of(self.method)
            found["method_params"].pop("iterations", None)
        return {table: plain(of) for table, of in found.items() if of}

    def _registered(self) -> Iterator[tuple[str, Registry, str]]:
        return registered_parts(self.model, self.method, self.protocol, self.training)

    @property
    def _facts(self) -> Facts:
        builder: Callable[..., Any] = models[self.model]
        return builder.facts  # type: ignore[attr-defined,no-any-return]  # attached by the decorator `facts`

    def _of_network(self) -> dict[str, Any]:
        defaults = {key: default for key, (_, default) in options_of(self.model).items()}
        return {
            key: default for key, default in defaults.items()
            if key in self.model_params and default is not inspect.Parameter.empty
        }  # fmt: skip
