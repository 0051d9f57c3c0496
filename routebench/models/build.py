"""From a model's name to a network."""

import inspect
from typing import Any

from torch import nn

from routebench.errors import UserError, nearest
from routebench.models.facts import Facts
from routebench.registry import models
from routebench.routing.make import factory


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
    routing = [factory(method, **(method_params or {}))] if method is not None else []
    try:
        network: nn.Module = builder(*routing, shape, classes, **model_params)
    except (TypeError, ValueError) as error:
        raise UserError(f"model {name!r}: {error}{_hint(builder, model_params)}") from error
    return network


def _hint(builder: Any, params: dict[str, Any]) -> str:
    known = [name for name in inspect.signature(builder).parameters if name not in ("routing", "shape", "classes")]
    wrong = [name for name in params if name not in known]
    return nearest(wrong[0], known) if wrong and known else ""
