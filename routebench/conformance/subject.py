"""The method that is checked: how it is made, with which hyperparameters, and what it claims."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from routebench.capsules import Sizes
from routebench.claims import Claim
from routebench.conformance import learned
from routebench.conformance.draws import seeded
from routebench.errors import UserError
from routebench.registry import routing
from routebench.routing import RoutingMethod, factory
from routebench.routing.base import hyperparameters
from routebench.routing.spec import MethodSpec, compact, parse


@dataclass(frozen=True)
class Subject:
    """A routing method with some of its hyperparameters set.

    Args:
        method: the class.
        params: what was asked for; everything else has its default.
        name: for messages.
    """

    method: type[RoutingMethod]
    params: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        name = self.name or self.method.__name__
        return name + (f"[{compact(self.params)}]" if self.params else "")

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the method says about itself, which may hang on its hyperparameters; the class, if it cannot be made."""
        try:
            return self.make(Sizes(2, 2, 4)).claims
        except Exception:  # noqa: BLE001  # a finding of its own
            return self.method.claims

    @property
    def settings(self) -> dict[str, Any]:
        """Every hyperparameter with its value."""
        return {**hyperparameters(self.method), **self.params}

    @property
    def iterative(self) -> bool:
        """Whether it has a number of iterations."""
        return "iterations" in self.settings

    def make(
        self,
        sizes: Sizes,
        dtype: torch.dtype = torch.float64,
        *,
        changes: Mapping[str, Any] | None = None,
        apart: bool = False,
        training: bool = False,
        parents: Tensor | None = None,
    ) -> RoutingMethod:
        """A fresh method, its parameters moved; the same arguments give the same method.

        Args:
            sizes: of the routing problem.
            dtype: of its parameters.
            changes: of hyperparameters.
            apart: move each element by an amount of its own, by the parameter's name, else all by the same.
            training: in training mode, in the middle of a run.
            parents: an order of parents, in which the parameters of each are put; see `tells_parents`.
        """
        with seeded(0):
            method = self.method(sizes, **{**self.params, **(changes or {})})
        method.to(dtype).train(training)
        method.progress = 0.5 if training else 1.0
        learned.move(method, apart=apart)
        if parents is not None:
            learned.reorder(method, self._parent_axes(sizes, changes) or {}, parents)
        return method

    def tells_parents(self, sizes: Sizes, changes: Mapping[str, Any] | None = None) -> bool:
        """Whether one can tell which elements of its parameters belong to which parent."""
        return self._parent_axes(sizes, changes) is not None

    def _parent_axes(self, sizes: Sizes, changes: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]] | None:
        try:
            made, wider = (
                self.make(replace(sizes, parents=parents), changes=changes)
                for parents in (sizes.parents, sizes.parents + 1)
            )
        except Exception:  # noqa: BLE001  # it need not take one more parent
            return None
        return learned.parent_axes(made, wider, sizes.parents)


def subject_of(method: str | MethodSpec | type[RoutingMethod]) -> Subject:
    """The subject for `dynamic`, `dynamic[detach=true]`, a `MethodSpec`, or a class that need not be registered.

    Raises:
        UserError: the name or a hyperparameter is unknown, or a value is not allowed.
    """
    if isinstance(method, type):
        return Subject(method)
    spec = parse(method) if isinstance(method, str) else method
    entry = routing[spec.name]
    if not (isinstance(entry, type) and issubclass(entry, RoutingMethod)):
        raise UserError(f"method {spec.name!r}: expected a class derived from RoutingMethod, got {entry!r}")
    factory_refusal(spec)
    return Subject(entry, dict(spec.params), spec.name)


def factory_refusal(spec: MethodSpec) -> None:
    """Raises UserError if hyperparameters are unknown or not allowed; what else a method raises is a finding."""
    try:
        factory(spec.name, **spec.params)
    except UserError:
        if spec.params:
            raise
