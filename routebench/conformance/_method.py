"""The method that is checked: how it is made, with which hyperparameters and parameters, and what it claims."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from routebench.capsules import Sizes
from routebench.claims import Claim
from routebench.errors import UserError
from routebench.notation import Spec, compact, parse
from routebench.registry import routing
from routebench.routing import RoutingMethod, factory
from routebench.routing.base import hyperparameters
from routebench.routing.spec import expect_known

SHIFT = 0.3
"""The shift of every parameter, so that a property does not hold only where nothing has been learned yet."""


@dataclass(frozen=True)
class CheckedMethod:
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
        """The claims of the method, which may hang on its hyperparameters; those of the class, if it cannot be made."""
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
        """Tells whether it has a number of iterations."""
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
        like: Sizes | None = None,
    ) -> RoutingMethod:
        """A fresh method, its parameters moved; the same arguments give the same method.

        Args:
            sizes: the sizes of the routing problem.
            dtype: the dtype of its parameters.
            changes: changes of hyperparameters.
            apart: move each element by an amount of its own, by the parameter's name, else all by the same.
            training: in training mode, in the middle of a run.
            parents: an order of parents, in which the parameters of each are put; see `tells_parents`.
            like: sizes of fewer children: the first ones have what was learned for these.
        """
        with seeded(0):
            method = self.method(sizes, **{**self.params, **(changes or {})})
        method.to(dtype).train(training)
        method.progress = 0.5 if training else 1.0
        _move(method, apart=apart)
        if parents is not None:
            _reorder(method, self._parent_axes(sizes, changes) or {}, parents)
        if like is not None:
            _put_first(method, self.make(like, dtype, changes=changes, apart=apart, training=training))
        return method

    def tells_parents(self, sizes: Sizes, changes: Mapping[str, Any] | None = None) -> bool:
        """Tells whether it is known which elements of its parameters belong to which parent."""
        return self._parent_axes(sizes, changes) is not None

    def _parent_axes(self, sizes: Sizes, changes: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]] | None:
        try:
            made, wider = (
                self.make(replace(sizes, parents=parents), changes=changes)
                for parents in (sizes.parents, sizes.parents + 1)
            )
        except Exception:  # noqa: BLE001  # it need not take one more parent
            return None
        return _parent_axes(made, wider, sizes.parents)


def subject_of(method: str | Spec | type[RoutingMethod]) -> CheckedMethod:
    """The subject for `dynamic`, `dynamic[detach=true]`, a `Spec`, or a class that need not be registered.

    Raises:
        UserError: the name or a hyperparameter is unknown, or a value is not allowed, or it is neither.
    """
    if isinstance(method, type) and issubclass(method, RoutingMethod):
        return CheckedMethod(method)
    if not isinstance(method, str | Spec):
        raise UserError(f"method: expected a name, or a class derived from RoutingMethod, got {method!r:.80}")
    spec = parse(method) if isinstance(method, str) else method
    entry = routing[spec.name]
    if not (isinstance(entry, type) and issubclass(entry, RoutingMethod)):
        raise UserError(f"method {spec.name!r}: expected a class derived from RoutingMethod, got {entry!r}")
    factory_refusal(spec)
    return CheckedMethod(entry, dict(spec.params), spec.name)


def factory_refusal(spec: Spec) -> None:
    """Raises UserError if hyperparameters are unknown or not allowed; what else a method raises is a finding."""
    expect_known(spec)
    try:
        factory(spec.name, **spec.params)
    except UserError:
        if spec.params:
            raise


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Sets torch's generators for a while, those of GPUs included where CUDA is in use, and puts them back.

    `torch.manual_seed` does it, too, but costs a millisecond where CUDA waits to be initialised.
    """
    before = torch.random.get_rng_state()
    with_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    before_on_gpu = torch.cuda.get_rng_state_all() if with_gpu else []
    torch.default_generator.manual_seed(seed)
    if with_gpu:
        torch.cuda.manual_seed_all(seed)
    try:
        yield
    finally:
        torch.random.set_rng_state(before)
        if with_gpu:
            torch.cuda.set_rng_state_all(before_on_gpu)


def _move(method: nn.Module, *, apart: bool) -> None:
    """Moves every parameter.

    Args:
        method: whose parameters they are.
        apart: each element by an amount of its own, by the parameter's name, else all by the same.
    """
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            source = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.add_(SHIFT * noise.to(parameter) if apart else SHIFT)


def _parent_axes(method: nn.Module, wider: nn.Module, parents: int) -> dict[str, tuple[int, ...]] | None:
    """The axes of each parameter that have one entry per parent.

    Args:
        method: made for so many parents.
        wider: the same for one more, which tells axes of parents from axes that only have their length.
        parents: how many.

    Returns:
        by the parameter's name; None where an axis holds parents and something else, so that it cannot be told which
        entries are whose.
    """
    one, other = ({name: value.shape for name, value in made.named_parameters()} for made in (method, wider))
    if one.keys() != other.keys() or any(len(one[name]) != len(other[name]) for name in one):
        return None
    found = {}
    for name, shape in one.items():
        found[name] = tuple(axis for axis, size in enumerate(shape) if size != other[name][axis])
        if any((shape[axis], other[name][axis]) != (parents, parents + 1) for axis in found[name]):
            return None
    return found


@torch.no_grad()
def _put_first(method: nn.Module, fewer: nn.Module) -> None:
    """Puts the parameters and buffers of a method for fewer children in the corners of those of another."""
    known = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    for name, value in (*fewer.named_parameters(), *fewer.named_buffers()):
        known[name][tuple(slice(size) for size in value.shape)] = value


def _reorder(method: nn.Module, axes: dict[str, tuple[int, ...]], order: Tensor) -> None:
    """Gives each parent the parameters that another one had, in an order of parents."""
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            for axis in axes[name]:
                parameter.copy_(parameter.index_select(axis, order))
