"""Windows: the children that the parents of a convolutional layer see."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from routebench.arguments import Count, legal_values


@dataclass(frozen=True)
class Windows:
    """The children that each parent position of a convolutional layer sees (no padding).

    Args:
        height, width: size of the grid of children.
        kernel, stride: size and step of the window.
        types: child types at each grid cell.
    """

    height: Count
    width: Count
    kernel: Count
    stride: Count
    types: Count

    def __post_init__(self) -> None:
        """Raises ValueError for a size that no windows have."""
        vars(self).update({name: legal.take(name, getattr(self, name)) for name, legal in LEGAL.items()})
        if self.kernel > min(self.height, self.width):
            expected = f"at least {self.kernel} x {self.kernel} children"
            raise ValueError(f"expected a grid of {expected}, got {self.height} x {self.width}")

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the grid of parents."""
        return (self.height - self.kernel) // self.stride + 1, (self.width - self.kernel) // self.stride + 1

    @property
    def positions(self) -> int:
        """Parent positions."""
        return self.grid[0] * self.grid[1]

    @property
    def cells(self) -> int:
        """Children in the whole grid."""
        return self.height * self.width * self.types

    @property
    def seen(self) -> int:
        """Children in one window."""
        return self.kernel * self.kernel * self.types

    @cached_property
    def index(self) -> Int[Tensor, "position child"]:
        """Numbers of the children in each parent position's window, in the order row, column, type."""
        rows, columns = self.grid
        with torch.inference_mode(mode=False), torch.device("cpu"):  # wherever it is first asked for, it stays
            top = torch.arange(rows) * self.stride
            left = torch.arange(columns) * self.stride
            inside = torch.arange(self.kernel)
            row = top[:, None, None, None, None] + inside[None, None, :, None, None]
            column = left[None, :, None, None, None] + inside[None, None, None, :, None]
            child = (row * self.width + column) * self.types + torch.arange(self.types)
            return child.reshape(self.positions, -1)

    def gather(self, cells: Shaped[Tensor, "batch cell *rest"]) -> Shaped[Tensor, "lane child *rest"]:
        """Values that each parent position sees, repeated where windows overlap; lanes are images x positions.

        Args:
            cells: values of every cell of the layer below, (batch, cell, ...).
        """
        batch, _, *rest = cells.shape
        grid = cells.reshape(batch, self.height, self.width, self.types * math.prod(rest))
        seen = grid.unfold(1, self.kernel, self.stride).unfold(2, self.kernel, self.stride)  # b h w features row column
        return seen.permute(0, 1, 2, 4, 5, 3).reshape(batch * self.positions, self.seen, *rest)


LEGAL = legal_values(Windows)
