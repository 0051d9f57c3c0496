"""Facts of a network that are known before it is built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class Facts:
    """Origin of a network, and what its paper says of its size.

    Args:
        source: the publication, or what the network is for.
        title: how tables name it; empty for its registered name with a capital.
        colour: its colour in figures, a name of `routebench.analysis.palette`; empty for one that is free.
        shape: shape of the images, or tokens, that its parameter count is given for.
        classes: number of classes that it is given for.
        stated_parameters: the count that the publication states; None where it states none.
        method: the routing method that its parameters are counted with, where its paper has one.
        takes: what it reads: `images`, of shape (channels, height, width), or `tokens`, of shape (tokens, numbers).
        routed: whether it has capsule layers, and so takes a routing method.
        unsupervised: whether it is trained without labels. Such a network says no class; it has
            `objective(images, generator)`, the scalar to minimise, a mean over images, where the generator (on the
            images' device) is for whatever it draws, and `features(images)`, a dictionary of tensors (image, d). It may
            have `reconstruction(images)`, images of the same shape with values in [0, 1], to be looked at.
        passes_on: whatever takes what the function that builds it takes as `**`: their keyword-only arguments are known
            as the model's.
        option_versions: versions of options' values whose numbers have changed since results were published, by option
            and by the value as text; all others have version 1.
    """

    source: str
    title: str = ""
    colour: str = ""
    shape: tuple[int, ...] = (1, 28, 28)
    classes: int = 10
    stated_parameters: int | None = None
    method: str = "dynamic"
    takes: str = "images"
    routed: bool = True
    unsupervised: bool = False
    passes_on: tuple[Callable[..., Any], ...] = ()
    option_versions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def facts(**known: Any) -> Callable[[Builder], Builder]:
    """A decorator that attaches `Facts` to the function that builds a network, as its attribute `facts`.

    Args:
        known: the fields of `Facts`.
    """

    def attach(builder: Builder) -> Builder:
        builder.facts = Facts(**known)  # type: ignore[attr-defined]  # functions carry attributes, Callable has none
        return builder

    return attach
