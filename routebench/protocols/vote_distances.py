"""Distances of the votes for each class to that class's capsule, iteration by iteration."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from routebench.data import Images
from routebench.protocols.traced import LayerTrace, trace

IMAGES = 3
STEPS = 3
BINS = 60
ZOOM = 0.5
"""The zoomed histogram ends where this share of the right class's coupling is nearer, after the last iteration."""


@torch.no_grad()
def vote_distances(
    network: nn.Module, images: Images, trained_with: int | None, device: torch.device
) -> dict[str, Tensor]:
    """Histograms of the Euclidean distance of votes to their class capsule's pose, weighted by coupling.

    Source: Hinton, Sabour and Frosst, ICLR 2018, figures 2 and B.2: three test images, iterations 1 to 3. The paper
    names no metric and weighs by "assignment probability", which is taken to be the coupling times the activation of
    the child. The centre is the parent's pose, which for EM routing is the mean of its Gaussian.

    Args:
        network: the trained network, in evaluation mode.
        images: test images with one class each.
        trained_with: number of iterations that it was trained with; None for a method that has none.
        device: the network's device.

    Returns:
        `vote_distances` and `vote_distances_zoomed`, (iteration, image, class, bin); `vote_distance_edges` and the
        like, (bin + 1); `vote_labels`, (image). Empty for a network whose last layer makes no coupling.
    """
    first = first_of_classes(images, IMAGES)
    pixels = images.pixels[first].to(device).to(torch.float32).div(255)
    counts: list[int | None] = [None] if trained_with is None else [*range(1, STEPS + 1)]
    found = [distances_of(trace(network, pixels, count).layers[-1]) for count in counts]
    if any(one is None for one in found):
        return {}
    known = [one for one in found if one is not None]
    far = max(float(distances.max()) for distances, _ in known)
    near = _near(*known[-1], images.labels[first])
    arrays = {"vote_labels": images.labels[first]}
    for name, end in (("vote_distances", far), ("vote_distances_zoomed", near)):
        arrays[name] = torch.stack([_histograms(distances, weights, end) for distances, weights in known])
        arrays[f"{name}_edges"] = torch.linspace(0, end, BINS + 1)
    return arrays


def gathered(found: Sequence[tuple[Tensor, Tensor]], labels: Tensor) -> list[float]:
    """Excess weight of votes near the mean of the right class over that near another's, by iteration.

    Source: Hinton, Sabour and Frosst, ICLR 2018, figure 2: votes near the mean go to the right class, and other classes
    keep scattered ones. The paper names no statistic. Here near is what half of the weight for the right classes is
    after the last iteration; of other classes the mean is taken.

    Args:
        found: for each iteration, distance and weight of every vote, (image, child, class).
        labels: class of each image, (image).

    Returns:
        means over images, in % of all weight of an image's votes.
    """
    end, own = _near(*found[-1], labels), torch.arange(len(labels))
    values = []
    for distances, weights in found:
        near = (weights * (distances <= end)).sum(dim=1).double()  # (image, class)
        right = near[own, labels]
        others = (near.sum(dim=1) - right) / max(near.shape[1] - 1, 1)
        values.append(100 * float(((right - others) / weights.sum(dim=(1, 2)).clamp(min=1e-12)).mean()))
    return values


def first_of_classes(images: Images, classes: int) -> Tensor:
    """Numbers of the first image of each of the first classes; classes without an image are left out.

    Args:
        images: images with one class each.
        classes: number of classes, counted from class 0.
    """
    places = [(images.labels == label).nonzero()[:1, 0] for label in range(classes)]
    return torch.cat(places)


def _near(distances: Tensor, weights: Tensor, labels: Tensor) -> float:
    """The weighted median of the distances to the right class."""
    own = torch.arange(len(labels))
    order = distances[own, :, labels].flatten().sort()
    reached = weights[own, :, labels].flatten()[order.indices].cumsum(0)
    return float(order.values[(reached >= ZOOM * reached[-1]).nonzero()[0, 0]])


@torch.no_grad()
def distances_of(layer: LayerTrace) -> tuple[Tensor, Tensor] | None:
    """Distance and weight of every vote, (image, child, class); None for a layer that couples no classes."""
    poses = layer.capsules.flat().poses
    if layer.coupling is None or layer.coupling.shape[0] != poses.shape[0]:
        return None  # the class capsules lie on a grid
    distances = (layer.votes.dense() - poses[:, None]).norm(dim=-1)
    return distances.float().cpu(), (layer.coupling * layer.present[..., None]).float().cpu()


def _histograms(distances: Tensor, weights: Tensor, end: float) -> Tensor:
    """(image, class, bin); votes beyond the end are left out."""
    images, _, classes = distances.shape
    place = (distances / max(end, 1e-12) * BINS).long()
    inside = place < BINS
    where = torch.arange(images)[:, None, None] * classes + torch.arange(classes)
    flat = (where * BINS + place.clamp(max=BINS - 1)).flatten()
    counted = torch.zeros(images * classes * BINS).index_add(0, flat, (weights * inside).flatten())
    return counted.reshape(images, classes, BINS)
