"""Do poses follow the image? How well a linear map tells poses of a changed image from those of the image itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, Positive
from routebench.data import Dataset, Images, load, rotate
from routebench.errors import UserError
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.features import BATCH
from routebench.protocols.spared import spared
from routebench.protocols.static import layer_names
from routebench.registry import protocols
from routebench.training import evaluate

RIDGES = tuple(10.0**power for power in range(-6, 7))
"""Ridges of least squares on the diagonal, as a share of its mean: from nothing to where the map is the mean."""
Batch = Float[Tensor, "batch channel height width"]
Poses = Float[Tensor, "image pose"]
Change = Callable[[Batch], Batch]
Map = Callable[[Poses], Poses]


@dataclass(frozen=True)
class Said:
    """Capsules of one layer, image by image, on the CPU in float64.

    Args:
        poses: poses of each type of capsule: on a grid, the mean over places, weighted by activation.
        activations: activations of each type: on a grid, the mean over places; of the class layer, the scores.
    """

    poses: Float[Tensor, "image type pose"]
    activations: Float[Tensor, "image type"]


@dataclass(frozen=True)
class BeforeAfter:
    """One layer's capsules for the same images, before and after a change.

    Args:
        before, after: the capsules before and after the change.
        labels: classes of the images; where given, capsules of type k are looked at on images of class k alone.
    """

    before: Said
    after: Said
    labels: Int[Tensor, " image"] | None = None

    @property
    def kinds(self) -> range:
        """Numbers of the types of capsules."""
        return range(self.before.poses.shape[1])

    def of(self, kind: int) -> tuple[Poses, Poses]:
        """Poses of one type of capsules before and after the change, (image, pose) each.

        Args:
            kind: number of the type, from 0.
        """
        chosen = slice(None) if self.labels is None else self.labels == kind
        return self.before.poses[chosen, kind], self.after.poses[chosen, kind]


@protocols.register("equivariance", version=1)
class Equivariance(Protocol):
    """Changes images, and asks whether poses change by one linear map.

    For every type of capsule, `pose(Tx) = A pose(x) + b` is fitted on training images by ridge regression, and tested
    on test images. Held-out images choose the ridge, one for all types of a layer: poses of images that a network was
    trained on vary less than those of others, and plain least squares can be worse than the mean.

    In the class layer only the capsule of the true class counts. On a grid, the mean over places stands for a type: if
    every capsule's pose is mapped by A while the places move, their mean is mapped by A too. Of a network that was
    trained without labels the objects count, each on all images; one without poses has one, its first feature.

    `pose_r2_same` is R² with A = 1 and b = 0: a pose that is only invariant reaches it already.

    Options:
        turns: angles in degrees, counter-clockwise.
        shifts: distances in pixels, to the right.
        scales: factors of the size.

    Source: equivariance of poses and invariance of activations as Sabour, Frosst and Hinton 2017, section 1, and
    Hinton, Sabour and Frosst 2018, section 2, expect them, and as Smith et al., "Capsule networks: a probabilistic
    perspective", claim poses of generative capsules to be (section 1); none defines a measure.
    """

    chooses = "ridges of linear maps"
    options: ClassVar[dict[str, Any]] = {"turns": list[Count], "shifts": list[Count], "scales": list[Positive]}

    def expect(self, data: Dataset) -> None:
        """Expects images of one class each.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: images may show several classes.
        """
        if data.test.multi_label:
            raise UserError(
                f"protocol equivariance: expected images of one class each, got {data.name}, whose images show "
                "several; choose another data set with --data"
            )

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by layer and change; without capsules, accuracy alone; without labels, none."""
        data = load(request.data)
        self.expect(data)
        network = context.fit(request).network
        metrics = []
        if not _unlabelled(network):
            accuracy = evaluate(network, data.test, request.recipe, context.device).accuracy
            metrics.append(Metric.of("right_answers", "test", accuracy))
        parts = [data.train, data.held_out, data.test]
        before = [capsules_of(network, images, lambda batch: batch, context.device) for images in parts]
        changes = changes_of(*(options.get(kind, ()) for kind in self.options))
        for done, (where, change) in enumerate(changes, 1):
            with spared(metrics, f"poses after {where['change']}"):
                after = [capsules_of(network, images, change, context.device) for images in parts]
                for layer in after[0]:
                    pairs = (
                        BeforeAfter(one[layer], other[layer], images.labels.cpu() if layer == "classes" else None)
                        for one, other, images in zip(before, after, parts, strict=True)
                    )
                    metrics += _metrics(*pairs, where=where | {"layer": layer})
                if not _unlabelled(network):
                    metrics.append(_accuracy(after[-1], data.test, where))
            context.progress(done / len(changes))
        return Measurement(metrics)


def changes_of(
    turns: Sequence[int], shifts: Sequence[int], scales: Sequence[float]
) -> list[tuple[dict[str, int | str], Change]]:
    """Each change of images, with its coordinates in tables.

    Args:
        turns: angles in degrees, counter-clockwise.
        shifts: distances in pixels, to the right.
        scales: factors of the size, above zero.
    """
    named = {f"turn by {degrees}°": partial(turned, degrees=degrees) for degrees in turns}
    named |= {f"shift by {pixels} px": partial(shifted, pixels=pixels) for pixels in shifts}
    named |= {f"scaling by {factor:g}": partial(scaled, factor=factor) for factor in scales}
    return [({"change": name}, change) for name, change in named.items()]


def turned(images: Batch, degrees: int) -> Batch:
    """Turns images counter-clockwise; zeros move in.

    Args:
        images: (batch, channel, height, width).
        degrees: the angle.
    """
    return rotate(images, torch.full((len(images),), float(degrees), device=images.device))


def shifted(images: Batch, pixels: int) -> Batch:
    """Moves images to the right; zeros move in.

    Args:
        images: (batch, channel, height, width).
        pixels: the distance, not negative.
    """
    moved = torch.zeros_like(images)
    moved[..., pixels:] = images[..., : images.shape[-1] - pixels]
    return moved


def scaled(images: Batch, factor: float) -> Batch:
    """Enlarges images about their centre, with bilinear interpolation; below 1, zeros move in.

    Args:
        images: (batch, channel, height, width).
        factor: the factor of the size, above zero.
    """
    back = images.new_tensor([[1 / factor, 0, 0], [0, 1 / factor, 0]]).expand(len(images), 2, 3)
    grid = functional.affine_grid(back, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


@torch.no_grad()
def capsules_of(network: nn.Module, images: Images, change: Change, device: torch.device) -> dict[str, Said]:
    """Capsules of every layer for changed images; for a network without capsules, its scores alone.

    Args:
        network: the trained network, in evaluation mode.
        images: images of one part.
        change: the change of a batch with values in [0, 1].
        device: the network's device.

    Returns:
        capsules by name of the layer, on the CPU; `objects` for a network that was trained without labels.
    """
    said = _objects if _unlabelled(network) else _layers
    parts: dict[str, list[Said]] = {}
    for start in range(0, len(images), BATCH):
        batch = change(images.pixels[start : start + BATCH].to(device).float() / 255)
        for name, found in said(network, batch):
            parts.setdefault(name, []).append(found)
    return {
        name: Said(torch.cat([part.poses for part in found]), torch.cat([part.activations for part in found]))
        for name, found in parts.items()
    }


def _unlabelled(network: nn.Module) -> bool:
    """Tells whether a network was trained by an objective of its own: it says no class."""
    return hasattr(network, "objective")


def _layers(network: nn.Module, images: Batch) -> Iterator[tuple[str, Said]]:
    """Capsules of the layers of a network with classes, by name."""
    output = network(images)
    scores = output.scores.double().cpu()
    if not output.layers:
        yield "classes", Said(scores[..., None][..., :0], scores)
    for name, capsules in zip(layer_names(len(output.layers)), output.layers, strict=True):
        poses, activations = capsules.poses.double().cpu(), capsules.activations.double().cpu()
        if capsules.on_grid:
            weights = activations[..., None]
            poses = (weights * poses).sum(dim=(1, 2)) / weights.sum(dim=(1, 2)).clamp_min(1e-12)
            activations = activations.mean(dim=(1, 2))
        yield name, Said(poses, scores if name == "classes" else activations)


def _objects(network: nn.Module, images: Batch) -> Iterator[tuple[str, Said]]:
    """Objects of a network without classes: its features `poses`, and another that has a number for each object.

    Without `poses` the first feature is one object's pose, and its length the activation.
    """
    features = {name: values.double().cpu() for name, values in network.features(images).items()}  # type: ignore[operator]
    poses = features.pop("poses", None)
    activations = next(iter(features.values()))
    if poses is None:
        yield "objects", Said(activations[:, None], activations.norm(dim=1, keepdim=True))
    else:
        yield "objects", Said(poses.unflatten(1, (activations.shape[1], -1)), activations)


def _metrics(
    train: BeforeAfter, held_out: BeforeAfter, test: BeforeAfter, *, where: dict[str, int | str]
) -> Iterator[Metric]:
    """Metrics of one layer and one change."""
    same = correlation(test.before.activations, test.after.activations)
    yield Metric.of("activation_correlation", "test", same, where=where)
    if test.before.poses.shape[2]:
        mapped = explained(test, maps_of(train, held_out))
        yield Metric.of("pose_r2", "test", mapped, where=where)
        yield Metric.of("pose_r2_same", "test", explained(test, [lambda poses: poses] * len(train.kinds)), where=where)


def maps_of(train: BeforeAfter, held_out: BeforeAfter) -> list[Map]:
    """The affine map of each type, with the ridge that explains held-out images best.

    Args:
        train: the capsules that maps are fitted to.
        held_out: the capsules that choose the ridge.
    """
    found = [[linear_map(*train.of(kind), ridge) for kind in train.kinds] for ridge in RIDGES]
    return max(found, key=lambda maps: explained(held_out, maps))


def explained(pair: BeforeAfter, maps: Sequence[Map]) -> float:
    """R² of maps, one for each type. Squares are summed over types, each about its own mean.

    Args:
        pair: the capsules before and after the change.
        maps: the map of each type.

    Returns:
        at most 1; below 0 where the mean would be nearer.
    """
    left, total = 0.0, 0.0
    for kind in pair.kinds:
        given, expected = pair.of(kind)
        left += float((maps[kind](given) - expected).square().sum())
        total += float((expected - expected.mean(dim=0)).square().sum())
    return 1 - left / max(total, 1e-300)


def linear_map(given: Poses, wanted: Poses, ridge: float) -> Map:
    """The affine map with the least squares and a ridge, in shares of the mean square of an element.

    Where there is no image of a type to fit with, it maps to zero.

    Args:
        given: poses before the change, (image, pose).
        wanted: poses after it, (image, pose).
        ridge: the strength of the penalty, in those shares.
    """
    if len(given) == 0:
        return torch.zeros_like
    middle, target = given.mean(dim=0), wanted.mean(dim=0)
    centred = given - middle
    square = centred.T @ centred
    size = square.diagonal().mean().clamp_min(1e-300)
    added = ridge * size * torch.eye(len(square), dtype=square.dtype)
    matrix = torch.linalg.solve(square + added, centred.T @ (wanted - target))
    return lambda poses: (poses - middle) @ matrix + target


def correlation(before: Float[Tensor, "image type"], after: Float[Tensor, "image type"]) -> float:
    """Pearson's correlation, over images and types; 1 means that activations do not feel the change.

    Args:
        before: activations before the change, (image, type).
        after: activations after it, (image, type).

    Returns:
        between -1 and 1; 0 where either side does not vary.
    """
    first, second = (values.flatten() - values.mean() for values in (before, after))
    size = first.norm() * second.norm()
    return float(first @ second / size) if size > 0 else 0.0


def _accuracy(found: Mapping[str, Said], test: Images, where: dict[str, int | str]) -> Metric:
    right = found["classes"].activations.argmax(dim=1) == test.labels.cpu()
    return Metric.of("changed_accuracy", "test", 100 * float(right.double().mean()), where=where)
