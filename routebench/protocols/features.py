"""Features of a frozen network for images that are shown to it upright or turned."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from routebench.data import Images, draw_angles, rotate
from routebench.protocols.base import Metric

BATCH = 250
BOTH = "both"
ANGLE_SEED = 0


@dataclass(frozen=True)
class View:
    """A way to show images.

    Args:
        kind: `fixed`: all turned by the same angle; `maximal`: each by its own, uniform up to that angle.
        angle: in degrees; 0 shows images as they are.
    """

    kind: str = "maximal"
    angle: int = 0


UPRIGHT = View()


@dataclass(frozen=True)
class Seen:
    """Answers of a network to images.

    Args:
        features: features by name, (image, d) on the CPU, `both` among them where there are several.
        predicted: the class with the highest score; None for a network that says none.
    """

    features: dict[str, Float[Tensor, "image feature"]]
    predicted: Int[Tensor, " image"] | None

    @property
    def main(self) -> str:
        """`both`, or the only feature that there is."""
        return BOTH if BOTH in self.features else next(iter(self.features))


@singledispatch
def explanation_metrics(
    network: nn.Module,  # noqa: ARG001  # other functions, registered here for classes of networks, look at these
    test: Images,  # noqa: ARG001
    view: View,  # noqa: ARG001
    where: Mapping[str, int | str],  # noqa: ARG001
    device: torch.device,  # noqa: ARG001
) -> Iterable[Metric]:
    """Metrics of how a network explains test images: none, unless its paper registers a function here for its class.

    Args:
        network: the trained network.
        test: images of which it looks at some.
        view: how they are shown.
        where: coordinates of every metric.
        device: the network's device.
    """
    return ()


@torch.no_grad()
def look(network: nn.Module, images: Images, view: View, device: torch.device) -> Seen:
    """Shows images to a network in evaluation mode.

    The same images are turned by the same angles for every network and seed, and by proportional ones for every
    largest angle, so that results are paired.

    Args:
        network: the trained network, in evaluation mode.
        images: the images of a part.
        view: how they are shown.
        device: the network's device.
    """
    parts: dict[str, list[Tensor]] = {}
    predicted = []
    for batch in shown(images, view, device):
        for name, values in features_of(network, batch).items():
            parts.setdefault(name, []).append(values.float().cpu())
        if not hasattr(network, "objective"):
            predicted.append(network(batch).scores.argmax(dim=1).cpu())
    features = {name: torch.cat(values) for name, values in parts.items()}
    return Seen(features, torch.cat(predicted) if predicted else None)


def shown(images: Images, view: View, device: torch.device) -> Iterator[Float[Tensor, "batch channel height width"]]:
    """Batches on the device, with values in [0, 1], turned as the view says.

    Args:
        images: the images of a part.
        view: how they are shown.
        device: the device that batches are made on.
    """
    angles = torch.full((len(images),), float(view.angle))
    if view.kind == "maximal":
        angles = draw_angles(len(images), view.angle, torch.Generator().manual_seed(ANGLE_SEED))
    for start in range(0, len(images), BATCH):
        pixels = images.pixels[start : start + BATCH].to(device).float() / 255
        yield rotate(pixels, angles[start : start + BATCH]) if view.angle else pixels


def features_of(network: nn.Module, images: Float[Tensor, "batch channel height width"]) -> dict[str, Tensor]:
    """A network's features of a batch, (batch, d) each.

    Those that its method `features` gives; of a capsule network, `lengths` (scores of class capsules: lengths or
    activations), `logits` (their log odds; what Smith et al., appendix D, recommend in place of presences) and `poses`
    of the class capsules. `both` is lengths and poses, or all that `features` gives, side by side.

    Args:
        network: a network in evaluation mode.
        images: a batch with values in [0, 1].
    """
    own = getattr(network, "features", None)
    if inspect.ismethod(own):  # of a capsule network `features` are its convolutions
        found: dict[str, Tensor] = {name: values.flatten(1) for name, values in own(images).items()}
        return found if len(found) == 1 else {**found, BOTH: torch.cat(list(found.values()), dim=1)}
    output = network(images)
    if not output.layers:
        return {"logits": output.logits}
    poses = output.layers[-1].flat().poses.flatten(1)
    both = torch.cat([output.scores, poses], dim=1)
    return {"lengths": output.scores, "logits": output.logits, "poses": poses, BOTH: both}
