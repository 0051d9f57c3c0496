"""Capsules as tensors: poses, activations, and the sizes of one routing problem.

Axes have the same names everywhere. A `lane` is one independent routing problem: an image, or, in a convolutional
layer, an image and a parent position (position runs fastest).
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

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
    """

    children: int
    parents: int
    pose: int
    pose_below: int = 0

    def __post_init__(self) -> None:
        if self.pose_below == 0:
            object.__setattr__(self, "pose_below", self.pose)


@dataclass(frozen=True)
class Capsules:
    """A layer of capsules for a batch of images.

    Args:
        poses: (batch, height, width, type, pose) on a grid, or (batch, capsule, pose) without one. Matrix poses are
            flattened by rows.
        activations: presence probability of each capsule, the shape of `poses` without the last axis.
        logits: their log odds, where routing computed them first.
    """

    poses: Tensor
    activations: Tensor
    logits: Tensor | None = None

    @property
    def on_grid(self) -> bool:
        """Whether the capsules lie on a height x width grid."""
        return self.poses.ndim == 5

    def flat(self) -> "Capsules":
        """The same capsules without the grid: (batch, capsule, pose), types fastest."""
        if not self.on_grid:
            return self
        return Capsules(self.poses.flatten(1, 3), self.activations.flatten(1, 3))
