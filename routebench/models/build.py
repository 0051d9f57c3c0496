"""Networks by a model's name."""

import inspect
import typing
from typing import Any

from torch import nn

from routebench.arguments import Count, Legal, legal_values
from routebench.errors import UserError, nearest
from routebench.given import fault_of
from routebench.models.facts import Facts
from routebench.registry import models
from routebench.routing.make import factory

BY_BUILD = {"routing", "shape", "classes"}
"""Arguments of every builder that `build` gives it."""


def build(
    name: str,
    *,
    shape: tuple[int, ...],
    classes: int,
    method: str | None = None,
    method_params: dict[str, Any] | None = None,
    **model_params: Any,
) -> nn.Module:
    """A network with freshly drawn weights.

    Args:
        name: name of a registered model.
        shape: (channels, height, width) of images, or (tokens, numbers) of what is made of tokens.
        classes: number of classes.
        method, method_params: the routing of its capsule layers and its hyperparameters, `iterations` among them; None
            for a network without capsules.
        model_params: further arguments of the model.

    Raises:
        UserError: a name or an argument is unknown, or the items do not suit the network.
    """
    builder = models[name]
    if told := fault_of(classes, Count):
        raise UserError(f"model {name!r}: classes: {told}")
    if not isinstance(method_params, dict | None):
        raise UserError(f"model {name!r}: method_params: expected hyperparameters by name, got {method_params!r:.80}")
    known: Facts = builder.facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
    expect_kind(name, shape)
    if known.routed != (method is not None):
        raise UserError(f"model {name!r} {'needs a' if known.routed else 'takes no'} routing method")
    params = _taken(name, model_params)
    routing = [factory(method, **(method_params or {}))] if method is not None else []
    try:
        network: nn.Module = builder(*routing, shape, classes, **params)
    except (TypeError, ValueError) as error:
        raise UserError(f"model {name!r}: {error}") from error
    return network


SHOWN = 4
"""Networks that an error names."""
KINDS = {2: "tokens", 3: "images"}
"""What an item is, by the axes of its shape."""


def expect_kind(name: str, shape: tuple[int, ...]) -> None:
    """Looks whether a network reads items of this kind.

    Args:
        name: name of a registered model.
        shape: shape of the items.

    Raises:
        UserError: it reads the other kind, or that is no shape.
    """
    sizes: Any = shape
    if not isinstance(sizes, tuple | list) or len(sizes) not in KINDS or any(fault_of(size, Count) for size in sizes):
        raise UserError(
            f"model {name!r}: expected a shape, (channels, height, width) or (tokens, numbers), got {shape!r:.80}"
        )
    takes, given = models[name].facts.takes, KINDS[len(shape)]  # type: ignore[attr-defined]
    if takes != given:
        others = [other for other in models if models[other].facts.takes == given]  # type: ignore[attr-defined]
        some = ", ".join(others[:SHOWN]) + (" and others" if len(others) > SHOWN else "")
        raise UserError(
            f"model {name!r}: expected {takes}, got {given} of shape {shape}; {given} are read by {some or 'none'}"
        )


def options_of(name: str) -> dict[str, tuple[Legal, Any]]:
    """Arguments of a network's builder besides those of `build`: legal values and default of each, by name.

    The default is `inspect.Parameter.empty` where the signature has none, as in a table of options.
    """
    builder: Any = models[name]
    found: dict[str, tuple[Legal, Any]] = {}
    for taker in (*builder.facts.passes_on, builder):
        legal = legal_values(taker.__init__ if inspect.isclass(taker) else taker)
        for one in inspect.signature(taker).parameters.values():
            if one.kind is one.VAR_KEYWORD:
                found |= {key: (value, one.empty) for key, value in _table(one.annotation).items()}
            elif one.kind is one.KEYWORD_ONLY or (taker is builder and one.name not in BY_BUILD):
                found[one.name] = (legal[one.name], one.default)
    return found


def _table(annotation: Any) -> dict[str, Legal]:
    """The legal values of `**options: Unpack[Options]`; empty of any other annotation."""
    if typing.get_origin(annotation) is not typing.Unpack:
        return {}
    hints = typing.get_type_hints(typing.get_args(annotation)[0], include_extras=True)
    return {key: Legal.of(hint) for key, hint in hints.items()}


def _taken(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, as their annotations have them.

    Raises:
        UserError: one is unknown, or its value is not legal.
    """
    options, builder = options_of(name), models[name]
    arguments = inspect.signature(builder).parameters.values()
    takes_any = any(one.kind is one.VAR_KEYWORD and not _table(one.annotation) for one in arguments)
    takes_any &= not builder.facts.passes_on  # type: ignore[attr-defined]  # a plug-in's, which alone knows them
    for wrong in [] if takes_any else given.keys() - options.keys():
        raise UserError(f"model {name!r}: unknown argument {wrong!r}{nearest(wrong, options)}")
    try:
        return {key: options[key][0].take(key, value) if key in options else value for key, value in given.items()}
    except ValueError as error:
        raise UserError(f"model {name!r}: {error}") from error
