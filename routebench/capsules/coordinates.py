"""Coordinate addition: where a child lies enters its votes for capsules whose weights are shared over positions."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Field:
    """Receptive fields of the cells of a grid along one axis of the image.

    Args:
        cells: number of cells of the grid.
        pixels: number of pixels of the image.
        first: centre of the first cell's receptive field, in pixels; the first pixel is at 0.
        step: distance from one centre to the next, in pixels.
    """

    cells: int
    pixels: int
    first: float = 0.0
    step: float = 1.0

    def below(self, kernel: int, stride: int) -> "Field":
        """The same for the grid of a convolution over these cells, without padding.

        Args:
            kernel, stride: size and step of the convolution's window, in cells.
        """
        cells = (self.cells - kernel) // stride + 1
        return Field(cells, self.pixels, self.first + self.step * (kernel - 1) / 2, self.step * stride)

    @property
    def centres(self) -> Float[Tensor, " cell"]:
        """Centres of the receptive fields from the centre of the image, in pixels."""
        return self.first + self.step * torch.arange(self.cells) - (self.pixels - 1) / 2


@dataclass(frozen=True)
class Coordinates:
    """Numbers added to the votes of every child of a grid.

    Args:
        rows: numbers by the row of the grid that the child is in.
        columns: numbers by its column.
        elements: those of the flattened pose to which these two are added.
    """

    rows: Float[Tensor, " row"]
    columns: Float[Tensor, " column"]
    elements: tuple[int, int]

    def offset(self, types: int, pose: int) -> Float[Tensor, "child pose"]:
        """Offsets of children that run by row, column and type.

        Args:
            types: capsule types at each position.
            pose: elements of a pose.
        """
        offset = torch.zeros(len(self.rows), len(self.columns), types, pose)
        to_row, to_column = self.elements
        offset[..., to_row] = self.rows[:, None, None]
        offset[..., to_column] = self.columns[None, :, None]
        return offset.reshape(-1, pose)


def _centres(field: Field) -> Tensor:
    return field.centres / 100


def _released(field: Field) -> Tensor:
    return (field.first + field.step * torch.arange(field.cells) - field.pixels // 2) / 100


def _ibm(field: Field) -> Tensor:
    return (torch.arange(field.cells) + 0.5) / field.cells


def _vb(field: Field) -> Tensor:
    return (torch.arange(field.cells) + 1) / (10 * field.cells)


def _yl1993(field: Field) -> Tensor:
    return torch.arange(field.cells) / field.cells


LAST_COLUMN, LAST_COLUMN_SWAPPED = "last column", "last column, swapped"
FIRST_TWO, FIRST_TWO_SWAPPED = "first two", "first two, swapped"
COORDINATES: dict[str, tuple[Callable[[Field], Tensor], str]] = {
    "paper": (_centres, LAST_COLUMN),
    "hinton": (_released, FIRST_TWO_SWAPPED),
    "ibm": (_ibm, LAST_COLUMN_SWAPPED),
    "vb": (_vb, LAST_COLUMN),
    "yl1993": (_yl1993, FIRST_TWO),
}
"""The ways in which public code adds coordinates: values, and the elements of a pose that they are added to.

`paper`: to the last column of the P x P matrix, row to its first and column to its second element (Hinton et al. 2018,
section 4, which speaks of a scaled centre of the receptive field and gives no scale: here pixels from the centre of
the image by 100). `hinton`: the authors' code (google-research, `capsule_em`), which counts pixels from the first one
past the middle, so that four class cells are at -.08, -.04, 0 and .04; each of its three convolutions swaps the axes of
its grid, so that the column is added to element 0 and the row to element 1. `ibm`, `vb` and `yl1993`, for cell k of n:
(k + 1/2) / n with row and column swapped, (k + 1) / 10 n, and k / n to elements 0 and 1, as in three public codes of
the method. Vector poses have the same elements of the flat pose.
"""


def coordinates(name: str, height: Field, width: Field, pose: int) -> Coordinates | None:
    """The coordinates of a grid by their name in `COORDINATES`; None for `none`.

    Args:
        name: a key of `COORDINATES`, or `none`.
        height, width: receptive fields of the grid's rows and columns.
        pose: elements of a pose.

    Raises:
        ValueError: the name is unknown.
    """
    if name == "none":
        return None
    if name not in COORDINATES:
        raise ValueError(f"coordinates must be one of {', '.join((*COORDINATES, 'none'))}, got {name!r}")
    values, where = COORDINATES[name]
    side = math.isqrt(pose)
    last, first = (side - 1, 2 * side - 1), (0, 1)
    elements = {
        LAST_COLUMN: last,
        LAST_COLUMN_SWAPPED: last[::-1],
        FIRST_TWO: first,
        FIRST_TWO_SWAPPED: first[::-1],
    }
    return Coordinates(values(height), values(width), elements[where])
