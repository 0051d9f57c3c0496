"""Capsules as tensors: poses, activations, and the sizes of one routing problem.

Axes have the same names everywhere. A `lane` is one independent routing problem: an image, or, in a convolutional
layer, an image and a parent position (position runs fastest).
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from routebench.arguments import Count, Natural, legal_values

Poses = Float[Tensor, "lane parent pose"]
Activations = Float[Tensor, "lane child"]


@dataclass(frozen=True)
class Sizes:
    """The sizes of one routing problem, fixed by the network.

    Args:
        children: capsules of the lower layer that one lane sees.
        parents: capsules of the higher layer that they vote for.
        pose: elements in a parent's pose (16 for a 4x4 matrix).
        pose_below: elements in a child's pose, for methods that look at children and not at their votes alone; 0, or
            left out, for as many as a parent's.
        grid: height, width and types of the children that one lane sees, which run by row, column and type; None where
            they lie on no grid.
    """

    children: Count
    parents: Count
    pose: Count
    pose_below: Natural = 0
    grid: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a size that no problem has."""
        vars(self).update({name: legal.take(name, getattr(self, name)) for name, legal in LEGAL.items()})
        if self.pose_below == 0:
            object.__setattr__(self, "pose_below", self.pose)


LEGAL = legal_values(Sizes)


@dataclass(frozen=True)
class Capsules:
    """A layer of capsules for a batch of images.

    Args:
        poses: (batch, height, width, type, pose) on a grid, or (batch, capsule, pose) without one. Matrix poses are
            flattened by rows.
        activations: presence probability of each capsule, the shape of `poses` without the last axis. They can be left
            out, and are then 1; a layer whose routing method weights children by them refuses such capsules.
        logits: their log odds, where routing computed them first.
        loss: the mean over lanes of a loss that routing adds; None where it adds none.
        mask: the capsules that are there, the shape of `activations`, where images have different numbers of them; None
            where all are there. The others have no vote, whatever their poses are. An image without any has parents
            with poses and activations of zero, and no gradient.
    """

    poses: Tensor
    activations: Tensor = None  # type: ignore[assignment]  # a tensor as soon as capsules are there
    logits: Tensor | None = None
    loss: Tensor | None = None
    mask: Tensor | None = None
    has_activations: bool = field(init=False, repr=False)
    """Tells whether activations were given."""

    def __post_init__(self) -> None:
        """Raises TypeError for what is no tensor, and ValueError for shapes that no capsules have."""
        object.__setattr__(self, "has_activations", self.activations is not None)
        for name in ("poses", "activations") if self.has_activations else ("poses",):
            if not isinstance(value := getattr(self, name), Tensor):
                raise TypeError(f"Capsules: expected {name} as a tensor, got {type(value).__name__}")
        found = tuple(self.poses.shape)
        if len(found) not in (3, 5):
            known = "(batch, capsule, pose) or (batch, height, width, type, pose)"
            raise ValueError(f"Capsules: expected poses of shape {known}, got {found}")
        if not self.has_activations:
            object.__setattr__(self, "activations", self.poses.new_ones(found[:-1]))
        if (of_activations := tuple(self.activations.shape)) != found[:-1]:
            raise ValueError(f"Capsules: expected activations of shape {found[:-1]}, got {of_activations}")
        if self.mask is not None and (self.mask.dtype != torch.bool or self.mask.shape != found[:-1]):
            told = f"{str(self.mask.dtype).removeprefix('torch.')} {tuple(self.mask.shape)}"
            raise ValueError(f"Capsules: expected mask as bool {found[:-1]}, got {told}")

    @property
    def on_grid(self) -> bool:
        """Tells whether the capsules lie on a height x width grid."""
        return self.poses.ndim == 5

    def at(self, images: Tensor) -> "Capsules":
        """The capsules of some images.

        Args:
            images: numbers of images in the batch.
        """
        mask = None if self.mask is None else self.mask[images]
        return Capsules(self.poses[images], self.activations[images], mask=mask)

    def flat(self) -> "Capsules":
        """The same capsules without the grid: (batch, capsule, pose), types fastest."""
        if not self.on_grid:
            return self
        given = {"activations": self.activations if self.has_activations else None}
        given |= {"logits": self.logits, "mask": self.mask}
        known = {name: value.flatten(1, 3) for name, value in given.items() if value is not None}
        return Capsules(self.poses.flatten(1, 3), **known)
