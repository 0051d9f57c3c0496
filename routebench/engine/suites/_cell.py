"""One point of a suite's grid: its identity, its names, and the trained model that it needs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from routebench.data import loader_of
from routebench.data_names import items_of
from routebench.engine.origin import Code, code_of, fit_code
from routebench.engine.results import Entry, Identity
from routebench.engine.suites._tuning import OF_METHOD
from routebench.notation import Spec, compact, parse
from routebench.protocols.base import FitRequest
from routebench.recipe import DEFAULTS, REGISTRIES, Recipe
from routebench.registry import OF_MODULE, SHIPPED, Registry, datasets, models, plugins_of, protocols, routing
from routebench.routing import hyperparameters_of


@dataclass(frozen=True)
class Cell:
    """One point of a suite's grid with one seed.

    Args:
        identity: everything that can change its result.
        params: the hyperparameters that differ from the method's defaults; all of them if the method is not loaded.
        default_iterations: default T of the method.
        plugins: plug-ins that it needs, for `load_plugin`.
        broken: the reason why it cannot be executed, such as a plug-in that failed to import. It is planned all the
            same, so that the failure becomes a record.
        code: the code that it was planned with; None if it is executed whatever the code, as `reproduce` does.
    """

    identity: Identity
    params: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    default_iterations: int = field(default=1, compare=False, repr=False)
    plugins: tuple[str, ...] = field(default=(), compare=False)
    broken: str = field(default="", compare=False)
    code: Code | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """16 hex digits, unique to the identity."""
        return self.identity.key

    @property
    def label(self) -> str:
        """The method's name in tables: with hyperparameters that differ from its defaults, except tuned ones."""
        spec = str(Spec(self.identity.method, self._told))
        return f"{spec} ({self.identity.variant})" if self.identity.variant else spec

    @property
    def entry(self) -> Entry:
        """Its configuration in the plan."""
        return self.identity.entry(self.label)

    @property
    def settings(self) -> str:
        """Its differences from the plain method: hyperparameters as `key=value`, and its variant."""
        return "; ".join(filter(None, [compact(self._told), self.identity.variant]))

    @property
    def _told(self) -> dict[str, Any]:
        point = (self.identity.tuning or {}).get("point", {})
        return {key: value for key, value in self.params.items() if f"{OF_METHOD}{key}" not in point}

    @property
    def configuration(self) -> str:
        """The run in words, without its seed."""
        steps = "" if self.identity.iterations is None else f" T={self.identity.iterations}"
        return f"{self.label}{steps} on {self.identity.model}"

    def __str__(self) -> str:
        return f"{self.configuration}, seed {self.identity.seed}"

    def request(self) -> FitRequest:
        """The trained model that the run needs."""
        known = self.identity
        return FitRequest(
            model=known.model,
            model_params=known.model_params,
            method=known.method if known.routed else None,
            method_params=self.params if known.routed else {},
            iterations=known.iterations,
            data=known.data,
            recipe=Recipe(**known.training),
            seed=known.seed,
        )


def cell_of(identity: Identity, broken: str = "", code: Code | None = None) -> Cell:
    """The run of an identity, with its method's defaults and the plug-ins that it needs.

    Args:
        identity: the identity.
        broken: the reason why it cannot be run; empty for none.
        code: the code behind it; None where that is not asked for.
    """
    is_known = identity.routed and identity.method in routing
    defaults = plain(hyperparameters_of(identity.method)) if is_known else {}
    given = identity.method_params
    params = {key: given[key] for key in sorted(given) if key not in defaults or defaults[key] != given[key]}
    plugins = plugins_of(foreign_origins(identity))
    return Cell(identity, params, int(defaults.get("iterations", 1)), plugins, broken, code)


def code_behind(identity: Identity, *, shipped: bool = True) -> Code:
    """The code of a run's parts, as this process has loaded it; `shipped` as for `code_of`.

    Args:
        identity: the identity of the run.
        shipped: as for `code_of`.
    """
    parts = {kind: registry[name] for kind, registry, name in parts_of(identity)}
    code = [parts.pop("protocol"), *fit_code(parts.pop("model"), parts.pop("method", None)), *parts.values()]
    return code_of(
        *code, shipped=shipped, words=words_in(identity.model_params, identity.method_params, identity.options)
    )


def words_in(*values: Any) -> set[str]:
    """The strings in values of settings, at any depth; they may name parts."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            found.add(value.partition("[")[0])
        elif isinstance(value, Mapping):
            found |= words_in(*value.values())
        elif isinstance(value, list | tuple):
            found |= words_in(*value)
    return found


def of_session(cells: Iterable[Cell]) -> bool:
    """Tells whether this program or notebook registered a part of some run itself, which no other process knows."""
    return any(origin.startswith(OF_MODULE) for cell in cells for origin in foreign_origins(cell.identity))


def registered_parts(
    model: str, method: str | None, protocol: str, training: Mapping[str, Any]
) -> Iterator[tuple[str, Registry, str]]:
    """Kind, registry and name of each part of a run that is looked up by name, data apart.

    Args:
        model, method, protocol: their names; the method is None without routing, the protocol empty for a fit.
        training: settings of the recipe; what it leaves out has its default.
    """
    yield "model", models, model
    if method is not None:
        yield "method", routing, method
    if protocol:
        yield "protocol", protocols, protocol
    for setting, registry in REGISTRIES.items():
        yield setting, registry, parse(str(training.get(setting, DEFAULTS[setting])), registry.kind).name


def parts_of(known: Identity) -> Iterator[tuple[str, Registry, str]]:
    """The parts of a run, as `registered_parts` gives them."""
    return registered_parts(known.model, known.method if known.routed else None, known.protocol, known.training)


def foreign_origins(identity: Identity) -> set[str]:
    """Origins of a run's parts outside routebench."""
    data, _ = loader_of(items_of(identity.data)[0])
    origins = {registry.origin(name) for _, registry, name in parts_of(identity)}
    return (origins | {datasets.origin(data)}) - {SHIPPED}


def plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content as JSON keeps it: tuples become lists, and types unknown to JSON their `repr`."""
    return dict(json.loads(json.dumps(content, default=repr)))
