"""Random routing problems: what a layer would hand to a method, in several shapes, scales and precisions."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from routebench.capsules import Competition, Sizes, Votes, Windows
from routebench.routing import RoutingMethod


@dataclass(frozen=True)
class Shape:
    """The sizes of a problem.

    Args:
        name: in words.
        images: in the batch.
        children, parents: that a lane sees.
        pose_in, pose: elements of a child's pose and of a vote.
        side: the side of matrix poses; 0 for vectors.
        windows: the windows of a convolutional layer.
    """

    name: str
    images: int = 3
    children: int = 6
    parents: int = 4
    pose_in: int = 3
    pose: int = 5
    side: int = 0
    windows: Windows | None = None

    @property
    def sizes(self) -> Sizes:
        """The sizes of one lane's problem."""
        return Sizes(self.children, self.parents, self.pose, self.pose_in)

    def __str__(self) -> str:
        vary = {"images": self.images, "children": self.children, "parents": self.parents, "elements": self.pose}
        return f"{self.name} ({', '.join(f'{count} {word}' for word, count in vary.items())})"


GRID = Windows(height=4, width=5, kernel=3, stride=1, types=2)

DENSE = Shape("dense")
MANY = Shape("many children", images=2, children=30, parents=7, pose_in=4, pose=4)
WINDOWS = Shape("windows", children=GRID.seen, windows=GRID)
MATRICES = Shape("matrices", images=2, children=5, parents=3, pose_in=9, pose=9, side=3)
ONE_IMAGE = Shape("one image", images=1)
ONE_IMAGE_IN_WINDOWS = Shape("one image in windows", images=1, children=GRID.seen, windows=GRID)
ONE_CHILD = Shape("one child", children=1)
ONE_PARENT = Shape("one parent", parents=1)
ONE_EACH = Shape("one child of one parent", children=1, parents=1)

ORDINARY = (DENSE, MANY, MATRICES, WINDOWS)
SMALL = (ONE_CHILD, ONE_PARENT, ONE_EACH)
BATCHES_OF_ONE = (ONE_IMAGE, ONE_IMAGE_IN_WINDOWS)
SHAPES = (*ORDINARY, *SMALL, *BATCHES_OF_ONE)


@dataclass(frozen=True)
class Problem:
    """The input of a method, before votes are made of it.

    Args:
        shape: the shape of all the rest.
        poses: the poses of the children, (image, cell, pose in).
        activations: those of the children, (image, cell).
        weight: (child, parent, pose in, pose), or (child, parent, side, side).
        scale: that the poses were multiplied by.
        offset: added to every vote of a child, (child, pose).
        present: the children that are there, (image, child); None for all.
    """

    shape: Shape
    poses: Tensor
    activations: Tensor
    weight: Tensor
    scale: float = 1.0
    offset: Tensor | None = None
    present: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all tensors."""
        return self.poses.dtype

    @property
    def lanes(self) -> int:
        """The lanes of one image."""
        return 1 if self.shape.windows is None else self.shape.windows.positions

    def given_to(self, method: RoutingMethod) -> tuple[Votes, Tensor]:
        """The votes, as a layer would make them for this method, and the activations (lane, child)."""
        windows = self.shape.windows
        competition = Competition(method.competition, windows=windows, orphan=method.orphan, present=self.present)
        activations = self.activations if windows is None else windows.gather(self.activations)
        activations = activations if self.present is None else activations.masked_fill(~self.present, 0)
        return Votes(self.poses, self.weight, competition, offset=self.offset), activations

    def to(self, where: torch.device) -> "Problem":
        """The same on another device."""
        offset = None if self.offset is None else self.offset.to(where)
        poses, activations, weight = (value.to(where) for value in (self.poses, self.activations, self.weight))
        return replace(self, poses=poses, activations=activations, weight=weight, offset=offset)

    def image(self, number: int) -> "Problem":
        """One image alone."""
        own = slice(number, number + 1)
        return replace(self, poses=self.poses[own], activations=self.activations[own])

    def jittered(self, seed: int) -> "Problem":
        """Every number off by one unit of rounding, up or down: what no computation can tell apart."""
        draw = torch.Generator().manual_seed(seed)
        offset = None if self.offset is None else _jitter(self.offset, draw)
        poses, activations, weight = (_jitter(value, draw) for value in (self.poses, self.activations, self.weight))
        return replace(self, poses=poses, activations=activations, weight=weight, offset=offset)

    def __str__(self) -> str:
        return f"{self.shape}, {str(self.dtype).removeprefix('torch.')}, poses of {self.scale:g}"


def draw(shape: Shape, seed: int, *, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> Problem:
    """A random problem: poses and weights normal, activations between 0.1 and 1. One seed is one problem in all dtypes.

    Args:
        shape: the shape of the problem.
        seed: the seed of the numbers.
        dtype: to which they are rounded.
        scale: the scale of the poses; weights stay as they are.
    """
    source = torch.Generator().manual_seed(seed)
    cells = shape.children if shape.windows is None else shape.windows.cells
    block = (shape.side, shape.side) if shape.side else (shape.pose_in, shape.pose)
    poses = scale * torch.randn(shape.images, cells, shape.pose_in, generator=source, dtype=torch.float64)
    activations = 0.1 + 0.9 * torch.rand(shape.images, cells, generator=source, dtype=torch.float64)
    weight = torch.randn(shape.children, shape.parents, *block, generator=source, dtype=torch.float64)
    return Problem(shape, poses.to(dtype), activations.to(dtype), weight.to(dtype), scale)


def _jitter(value: Tensor, draw: torch.Generator) -> Tensor:
    signs = torch.randint(0, 2, value.shape, generator=draw).to(value) * 2 - 1
    return value * (1 + torch.finfo(value.dtype).eps * signs)
