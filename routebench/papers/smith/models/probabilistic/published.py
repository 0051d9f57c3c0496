"""Registers the generative capsule model of Smith et al., at the published size and at one for two cores."""

import inspect
from collections.abc import Callable
from typing import Any, Literal

from routebench.arguments import Count, checked
from routebench.errors import nearest
from routebench.models.facts import facts
from routebench.registry import models

from .encoders import ObjectEncoder, PartEncoder
from .model import GenerativeCapsules
from .part_whole import PartWhole
from .sprites import Sprites

SMITH = 'Smith et al., "Capsule networks: a probabilistic perspective" (arXiv:2004.03553), section 4 and appendix B'
OF_MODEL = {
    "count": "parts",
    "channels": "shape",
    "size": "template",
    "full": "posterior",
    **{name: name for name in ("objects", "parts", "part_size")},
}
"""Sub-module arguments that the model sets, and the model argument that controls each."""


@models.register("generative-capsules", version=2)
@facts(source=SMITH, routed=False, unsupervised=True)
@checked
def generative_capsules(
    shape: tuple[int, int, int],
    classes: int,  # noqa: ARG001  # the signature is the interface
    *,
    objects: Count = 16,
    parts: Count = 16,
    template: Count = 12,
    posterior: Literal["delta", "objects", "full"] = "delta",
    delta_until: float = 0.5,
    then: Literal["everything", "encoder"] = "everything",
    object_probability: float = 0.1,
    object_deviation: float = 1.0,
    part_size: float = 1.0,
    sprites: dict[str, Any] | None = None,
    part_whole: dict[str, Any] | None = None,
    part_encoder: dict[str, Any] | None = None,
    object_encoder: dict[str, Any] | None = None,
) -> GenerativeCapsules:
    """16 objects, 16 parts with templates of 12 x 12; CNN of 32 channels, Set Transformer of 4 blocks of 128.

    Args:
        shape: (channels, height, width) of the images.
        classes: number of classes of the data; unused.
        objects, parts: capsules of both layers.
        template: rows and columns of a template.
        posterior, delta_until, then, object_probability, object_deviation: as for `GenerativeCapsules`.
        part_size: size of parts when training starts: 1 draws a template at its own size where `unit` is `template`.
        sprites, part_whole, part_encoder, object_encoder: further arguments of these, by name.
    """
    return GenerativeCapsules(
        Sprites(parts, shape[0], size=template, **_further(Sprites, sprites)),
        PartWhole(objects, parts, part_size=part_size, **_further(PartWhole, part_whole)),
        PartEncoder(
            shape[0], parts, full=posterior == "full", part_size=part_size, **_further(PartEncoder, part_encoder)
        ),
        ObjectEncoder(objects, parts, full=posterior != "delta", **_further(ObjectEncoder, object_encoder)),
        posterior=posterior,
        delta_until=delta_until,
        then=then,
        object_probability=object_probability,
        object_deviation=object_deviation,
    )


def _further(made: Callable[..., Any], given: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments given for one sub-module, after a check that it takes them."""
    known = inspect.signature(made).parameters
    for name in given or {}:
        if name not in known:
            raise ValueError(f"{made.__name__}: unknown argument {name!r}{nearest(name, known.keys() - OF_MODEL)}")
        if name in OF_MODEL:
            raise ValueError(f"{made.__name__}: the model sets {name}; give {OF_MODEL[name]} to the model")
    return given or {}


@models.register("generative-capsules-small", version=2)
@facts(
    source="generative-capsules with smaller encoders, sized to train in a few minutes on two cores",
    routed=False,
    unsupervised=True,
    passes_on=(generative_capsules,),
)
def generative_capsules_small(
    shape: tuple[int, int, int], classes: int, *, object_encoder: dict[str, Any] | None = None, **params: Any
) -> GenerativeCapsules:
    """`generative-capsules` whose Set Transformer has 2 blocks of 64, in which parts attend to each other directly.

    The generative model is the same.

    Args:
        shape, classes: as for `generative-capsules`.
        object_encoder: further arguments of `ObjectEncoder`, by name; they replace the sizes above.
        params: other arguments of `generative-capsules`.
    """
    small = {"width": 64, "blocks": 2, "points": 0}
    return generative_capsules(shape, classes, object_encoder={**small, **(object_encoder or {})}, **params)
