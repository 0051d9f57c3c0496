"""From a model's name to a network."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from routebench.errors import UserError, nearest
from routebench.models.facts import Facts
from routebench.registry import models
from routebench.routing.make import factory

BY_BUILD = {"routing", "shape", "classes"}
"""Arguments of every builder that `build` gives it."""


def build(
    name: str,
    *,
    shape: tuple[int, int, int],
    classes: int,
    method: str | None = None,
    method_params: dict[str, Any] | None = None,
    **model_params: Any,
) -> nn.Module:
    """A network with freshly drawn weights.

    Args:
        name: of a registered model.
        shape: (channels, height, width) of the images.
        classes: number of classes.
        method, method_params: the routing of its capsule layers and its hyperparameters, `iterations` among them; None
            for a network without capsules.
        model_params: further arguments of the model.

    Raises:
        UserError: a name or an argument is unknown, or the images do not suit the network.
    """
    builder = models[name]
    known: Facts = builder.facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
    if known.routed != (method is not None):
        raise UserError(f"model {name!r} {'needs a' if known.routed else 'takes no'} routing method")
    _check_names(name, builder, known.passes_on, model_params)
    routing = [factory(method, **(method_params or {}))] if method is not None else []
    try:
        network: nn.Module = builder(*routing, shape, classes, **model_params)
    except (TypeError, ValueError) as error:
        raise UserError(f"model {name!r}: {error}") from error
    return network


def _check_names(name: str, builder: Callable[..., Any], passes_on: tuple[Callable[..., Any], ...], given: Any) -> None:
    """Raises UserError where an argument is none of the builder's, nor of those to whom it passes arguments on."""
    own = inspect.signature(builder).parameters.values()
    if not passes_on and any(argument.kind is argument.VAR_KEYWORD for argument in own):
        return  # of a plug-in, which alone knows what it takes
    taken = [argument for other in passes_on for argument in inspect.signature(other).parameters.values()]
    known = {argument.name for argument in own if argument.kind is not argument.VAR_KEYWORD} - BY_BUILD
    known |= {argument.name for argument in taken if argument.kind is argument.KEYWORD_ONLY}
    for wrong in given:
        if wrong not in known:
            raise UserError(f"model {name!r}: unknown argument {wrong!r}{nearest(wrong, known)}")
