"""Test whether a network that learned without labels draws each object of a picture by a capsule of its own."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor

from routebench.arguments import Count
from routebench.data import Dataset, load
from routebench.data_names import unfolded
from routebench.errors import UserError
from routebench.measures import adjusted_rand_index
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of, training_curves
from routebench.protocols.spared import spared
from routebench.protocols.traced import trace
from routebench.registry import protocols

from ..data.composed_shapes import GROUND, MOST, Composed, compose
from ..models.slot_autoencoder import SlotAutoencoder

NAME = "composed-shapes"
SEED = 3
"""Seed of pictures that the data set does not have."""
BATCH = 50
EXAMPLES = 6
Groups = Int[Tensor, "image row column"]


@protocols.register("objects", version=1)
class ObjectDiscovery(Protocol):
    """Trains without labels, then asks which pixels each slot draws.

    `fg_ari` is the adjusted Rand index of the slot with the largest mask at each pixel against the shape that is seen
    there, over the pixels that show a shape, mean over pictures; 1 is right, 0 is chance. `fg_ari_coupling` has the
    slot with most of the coupling of the grid's capsule at the pixel. `squared_error` is that of the pictures.

    Metrics whose names begin with `baseline` are those of clustering pixels, without learning, and the same for every
    method: `components` are neighbouring pixels of one colour, `kmeans` are clusters by place and colour of the pixels
    that show a shape, told how many shapes are seen.

    Options:
        objects: numbers of shapes in the pictures that are measured; the most that training has is always measured.
        scenes: pictures for each number.

    Source: the index over the foreground is that of Greff et al. 2019 (arXiv:1903.00450) and of Locatello et al.,
    NeurIPS 2020, section 4.1.
    """

    options: ClassVar[dict[str, Any]] = {"objects": list[Count], "scenes": Count}
    preload: ClassVar[tuple[str, ...]] = ("sklearn.cluster", "scipy.ndimage")

    def expect(self, data: Dataset) -> None:
        """Expects pictures whose masks are known.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: it is another data set.
        """
        if unfolded(data.name) != NAME:
            raise UserError(
                f"protocol objects: expected pictures of which each pixel's shape is known, got {data.name}; choose "
                f"{NAME} with --data"
            )

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by number of shapes, losses by epoch, and example pictures with their masks as arrays."""
        self.expect(load(request.data))
        fit = context.fit(request)
        if not isinstance(fit.network, SlotAutoencoder):
            raise UserError(f"protocol objects: expected a model whose slots draw masks, got {request.model}")
        curves = (one for one in training_curves(fit) if one.metric.endswith("loss"))
        metrics = [*cost_of(fit), *curves]
        arrays: dict[str, Tensor] = {}
        asked = SceneSet(MOST, int(options.get("scenes", 250)))
        others = [SceneSet(number, asked.count) for number in options.get("objects", [])]
        every = list(dict.fromkeys([asked, *others]))
        for number, scenes in enumerate(every):
            with nullcontext() if scenes == asked else spared(metrics, f"pictures of {scenes.objects} shapes"):
                found = look(fit.network, scenes.drawn(), request.iterations, context.device)
                metrics += found.metrics(scenes, request.iterations)
                if scenes == asked:
                    arrays = found.examples(scenes.drawn())
            metrics += baselines(scenes)
            context.progress((number + 1) / len(every))
        return Measurement(metrics, arrays)


@dataclass(frozen=True)
class SceneSet:
    """Pictures that are measured together.

    Args:
        objects: number of shapes in each.
        count: number of pictures.
    """

    objects: int
    count: int

    def drawn(self) -> Composed:
        """Draws the pictures, which are the same whenever they are asked for."""
        return compose(self.count, SEED, exactly=self.objects)


@dataclass(frozen=True)
class Look:
    """Answer of a network to pictures.

    Args:
        masks: the slot that draws most of each pixel.
        coupling: the slot with most of the coupling there; None for a method without coupling.
        pictures: the pictures as all slots draw them.
    """

    masks: Groups
    coupling: Groups | None
    pictures: Float[Tensor, "image channel row column"]

    def metrics(self, scenes: SceneSet, iterations: int | None) -> Iterator[Metric]:
        """Indices and error, with the number of shapes as coordinate.

        Args:
            scenes: the pictures that were looked at.
            iterations: number of routing iterations; None for a method that has none.
        """
        true, where = scenes.drawn(), {"objects": scenes.objects}
        values = {"fg_ari": foreground_index(self.masks, true)}
        if self.coupling is not None:
            values["fg_ari_coupling"] = foreground_index(self.coupling, true)
        for name, value in values.items():
            yield Metric.of(name, "test", value, test_iterations=iterations, where=where)
        error = float((self.pictures - true.pixels.double() / 255).square().mean())
        yield Metric.of("squared_error", "test", error, test_iterations=iterations, where=where)

    def examples(self, true: Composed) -> dict[str, Tensor]:
        """The first pictures, which shapes and slots are at each pixel; 255 is the ground.

        Args:
            true: the pictures that were looked at, with their masks.
        """
        found = {
            "example_images": true.pixels,
            "example_owners": true.owners,
            "example_pictures": 255 * self.pictures.clamp(0, 1),
            "example_masks": self.masks,
        } | ({} if self.coupling is None else {"example_coupling": self.coupling})
        return {name: values[:EXAMPLES].to(torch.uint8).contiguous() for name, values in found.items()}


def look(network: SlotAutoencoder, true: Composed, iterations: int | None, device: torch.device) -> Look:
    """The answer of a network in evaluation mode to pictures, at the T that it was trained with.

    Args:
        network: the trained network, in evaluation mode.
        true: the pictures, with their masks.
        iterations: number of routing iterations; None for a method that has none.
        device: the network's device.
    """
    masks, coupling, pictures = [], [], []
    for pixels in torch.split(true.pixels, BATCH):
        images = pixels.to(device).to(torch.float32).div(255)
        with torch.no_grad():
            drawn = network.draw(images)
        masks.append(drawn.masks.argmax(dim=1).cpu())
        pictures.append(drawn.picture.double().cpu())
        (slots,) = trace(network, images, iterations).layers
        if slots.coupling is not None:
            grid = rearrange(slots.coupling.argmax(dim=2).cpu(), "b (y x) -> b y x", y=network.shape[1] // 2)
            coupling.append(repeat(grid, "b y x -> b (y 2) (x 2)"))
    return Look(torch.cat(masks), torch.cat(coupling) if coupling else None, torch.cat(pictures))


def foreground_index(found: Groups, true: Composed) -> float:
    """Mean over the pictures in which two shapes or more are seen of the adjusted Rand index of their pixels.

    Args:
        found: the group of each pixel, (image, row, column).
        true: the pictures, with their masks.
    """
    several = torch.tensor([len(owners[owners != GROUND].unique()) > 1 for owners in true.owners])
    groups, owners = found[several].flatten(1), true.owners[several].flatten(1)
    return float(adjusted_rand_index(groups, owners, owners != GROUND).mean())


@lru_cache(maxsize=8)
def baselines(scenes: SceneSet) -> tuple[Metric, ...]:
    """Metrics of clustering of pixels in the same pictures.

    Args:
        scenes: the pictures to cluster.
    """
    true = scenes.drawn()
    ways = {"components": components, "kmeans": clusters}
    where = {"objects": scenes.objects}
    return tuple(
        Metric.of(f"baseline_{name}", "test", foreground_index(way(true), true), where=where)
        for name, way in ways.items()
    )


def components(true: Composed) -> Groups:
    """Groups of neighbours of one colour, where a pixel has four neighbours.

    Args:
        true: the pictures, with their masks.
    """
    from scipy.ndimage import label  # only here, as below

    found = np.zeros(true.owners.shape, dtype=np.int64)
    for number, pixels in enumerate(true.pixels.numpy()):
        for colour in pixels:
            groups, _ = label(colour > 0)
            found[number] += np.where(groups > 0, groups + found[number].max(), 0)
    return torch.from_numpy(found)


def clusters(true: Composed) -> Groups:
    """K-means of the pixels that show a shape, by place, as shares of the picture, and colour; as many as are seen.

    Args:
        true: the pictures, with their masks.
    """
    from sklearn.cluster import KMeans  # only here: it takes a second to import

    found = torch.full_like(true.owners, GROUND)
    for own, owners, pixels in zip(found, true.owners, true.pixels, strict=True):
        seen = owners != GROUND
        place = seen.nonzero().double() / len(owners)
        told = torch.cat([place, pixels[:, seen].T.double() / 255], dim=1).numpy()
        number = len(owners[seen].unique())
        own[seen] = torch.from_numpy(KMeans(number, n_init=4, random_state=0).fit_predict(told)).to(own.dtype)
    return found
