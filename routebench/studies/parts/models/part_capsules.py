"""Networks for constellations: what is seen are parts with poses already, so that there is nothing to learn below."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules, MakeRouting
from routebench.models.facts import facts
from routebench.models.network import CapsuleNetwork
from routebench.models.plain import PlainNetwork
from routebench.registry import models

from ..constellations import KINDS, PARTS, SLOTS, arrangements, decoded, homogeneous

POSE = 9
"""Elements of a 3 x 3 matrix, an affine map of the plane."""
SCENES = (7, PARTS, SLOTS)
FACTS = {"shape": SCENES, "classes": KINDS}


@models.register("part-capsules", version=1)
@facts(source="one routed layer on the parts of constellations", **FACTS)
def part_capsules(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, *, weight_std: float | None = None
) -> CapsuleNetwork:
    """Parts of a constellation as capsules with 3x3 poses, and one layer of object capsules.

    A part's activation is 1, that of an empty place 0 with a pose of zeros. The transformation matrices are shared by
    all parts of a type.

    Args:
        routing: makes the routing method.
        shape: (7, types of parts, places) of the scenes.
        classes: kinds of objects.
        weight_std: standard deviation of the initial weights, as in `DenseCapsules`.
    """
    return CapsuleNetwork(nn.Identity(), PartCapsules(), [_objects(routing, shape, classes, weight_std)])


@models.register("part-capsules-true", version=1)
@facts(source="part-capsules with the transformation matrices that scenes are drawn with", **FACTS)
def part_capsules_true(routing: MakeRouting, shape: tuple[int, int, int], classes: int) -> CapsuleNetwork:
    """`part-capsules` whose transformation matrices are the true ones, up to one learned factor for all.

    All votes for the object that a part belongs to agree, up to noise. What is learned besides the factor are the
    routing method's own parameters.

    Args:
        routing, shape, classes: as for `part-capsules`.
    """
    layer = _objects(routing, shape, classes, None)
    layer.weight = nn.Parameter(torch.ones(()))
    parametrize.register_parametrization(layer, "weight", TrueMatrices(), unsafe=True)  # another shape comes out
    return CapsuleNetwork(nn.Identity(), PartCapsules(), [layer])


@models.register("part-sets", version=1)
@facts(source="baseline: no capsules, of the size of part-capsules or more", routed=False, **FACTS)
def part_sets(shape: tuple[int, int, int], classes: int) -> PlainNetwork:
    """Every place, with the number of its row, goes through two layers; the sum over all places through one more.

    Source: the form of Deep Sets, Zaheer et al., NeurIPS 2017, theorem 2.

    Args:
        shape: (channels, rows, places) of any images.
        classes: number of classes.
    """
    body = nn.Sequential(
        WithRow(shape[1]),
        nn.Conv2d(shape[0] + shape[1], 128, 1),
        nn.ReLU(),
        nn.Conv2d(128, 128, 1),
        nn.ReLU(),
        SumOverPlaces(),
        nn.Linear(128, 128),
        nn.ReLU(),
    )
    return PlainNetwork(body, nn.Linear(128, classes))


class PartCapsules(nn.Module):
    """Reads parts off the images that constellations are encoded as."""

    def forward(self, images: Float[Tensor, "batch 7 part slot"]) -> Capsules:
        """Capsules on a grid of 1 x places, with as many types as there are types of parts."""
        poses, present = decoded(images)
        elements = (homogeneous(poses) * present[..., None, None]).flatten(-2)
        return Capsules(elements.transpose(1, 2)[:, None], present.transpose(1, 2)[:, None])


class TrueMatrices(nn.Module):
    """Matrices from the pose of a part to the pose of its object: (part, kind, 3, 3)."""

    matrices: Tensor

    def __init__(self) -> None:
        super().__init__()
        found = torch.linalg.inv(arrangements()).transpose(0, 1)
        self.register_buffer("matrices", found.to(torch.get_default_dtype()), persistent=False)

    def forward(self, factor: Float[Tensor, ""]) -> Float[Tensor, "part kind 3 3"]:
        """All of them times a factor."""
        return factor * self.matrices


class WithRow(nn.Module):
    """Adds channels that say which row a place is in."""

    rows: Tensor

    def __init__(self, rows: int):
        super().__init__()
        self.register_buffer("rows", torch.eye(rows)[..., None], persistent=False)

    def forward(self, images: Float[Tensor, "batch channel row slot"]) -> Float[Tensor, "batch more row slot"]:
        """The images with as many channels more as there are rows."""
        return torch.cat([images, self.rows.expand(len(images), -1, -1, images.shape[3])], dim=1)


class SumOverPlaces(nn.Module):
    """Sums that do not depend on the order of places."""

    def forward(self, features: Float[Tensor, "batch channel row slot"]) -> Float[Tensor, "batch channel"]:
        """The sum."""
        return features.sum(dim=(2, 3))


def _objects(
    routing: MakeRouting, shape: tuple[int, int, int], classes: int, weight_std: float | None
) -> DenseCapsules:
    if tuple(shape) != SCENES or classes != KINDS:
        raise ValueError(
            f"expected constellations, which are {SCENES} with {KINDS} classes, got {tuple(shape)} with {classes}"
        )
    return DenseCapsules(
        (1, SLOTS, PARTS), classes, POSE, POSE, routing, matrix=True, share=True, weight_std=weight_std
    )
