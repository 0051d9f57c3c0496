"""Competition of parents for a child: the axis over which its coupling sums to one."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from routebench.ops.windows import Windows

Axis = Literal["types", "types+positions", "positions", "children"]
"""The axis over which coupling sums to one, for each child:

`types`: the parent types at one position; `types+positions`: every parent that sees the child, which is the literal
reading of Hinton et al. 2018; `positions`: the positions that see it, for each type apart; `children`: the other way
round, as in ordinary attention. In a dense layer, where parents have no position, the first three are the same.
"""
AXES = (*get_args(Axis), "none")
"""These, and `none`: all coefficients are 1."""
REGISTER = 16
"""Numbers in single precision that fill a processor's vector register, with AVX-512."""


class Competition:
    """Turns logits into coupling.

    Args:
        axis: one of `AXES`.
        windows: how parent positions see children, in a convolutional layer; None in a dense one.
        orphan: let a parent that is always there, with logit 0 and no output, compete too (leaky routing).
        present: the children that are there, of each lane of a dense layer; None for all. The others get no coupling.

    Raises:
        ValueError: there is no such axis, or children are missing in a convolutional layer.
    """

    def __init__(
        self,
        axis: str = "types",
        *,
        windows: Windows | None = None,
        orphan: bool = False,
        present: Bool[Tensor, "lane child"] | None = None,
    ):
        if axis not in AXES:
            raise ValueError(f"expected competition over one of {', '.join(AXES)}, got {axis!r}")
        if windows is not None and present is not None:
            raise ValueError("expected children that are missing in a dense layer, got some in a convolutional one")
        self.axis = axis
        self.windows = windows
        self.orphan = orphan
        self.present = present

    def of(self, lanes: slice) -> "Competition":
        """The same for some lanes."""
        if self.present is None:
            return self
        return Competition(self.axis, orphan=self.orphan, present=self.present[lanes])

    def over(self, axis: str) -> "Competition":
        """The same over another axis."""
        return Competition(axis, windows=self.windows, orphan=self.orphan, present=self.present)

    def couple(self, logits: Float[Tensor, "lane child parent"]) -> Float[Tensor, "lane child parent"]:
        """Normalised exponentials of the logits over the competition axis.

        Args:
            logits: (lane, child, parent); lanes are images, or images x positions with positions running fastest.

        Returns:
            coupling coefficients of the same shape, between 0 and 1.
        """
        if self.present is not None:
            there = self.present[..., None]
            if self.axis == "children":
                logits = logits.masked_fill(~there, -torch.inf)
            return self._couple(logits).masked_fill(~there, 0)
        return self._couple(logits)

    def _couple(self, logits: Tensor) -> Tensor:
        if self.axis == "none":
            return torch.ones_like(logits)
        if self.axis == "children":
            return logits.softmax(dim=1)  # over the children of a window
        if self.axis == "types" or self.windows is None:
            return self._over_types(logits)
        return self._over_positions(logits, self.windows)

    def uniform(self, like: Float[Tensor, "lane child _"], parents: int) -> Float[Tensor, "lane child"]:
        """The coupling that equal logits give, which is the same for every parent that sees a child.

        Args:
            like: any values of the children, (lane, child, ...), which give device and type.
            parents: number of parents, or of parent types in a convolutional layer.
        """
        if self.present is not None:
            return self.couple(like.new_zeros(*self.present.shape, parents))[..., 0]
        positions = self.windows.positions if self.windows else 1
        start = self.couple(like.new_zeros(positions, like.shape[1], parents))[..., 0]
        return start.repeat(like.shape[0] // positions, 1)

    def _over_types(self, logits: Tensor) -> Tensor:
        if not self.orphan:
            return softmax_over_parents(logits)
        orphan = logits.new_zeros(*logits.shape[:2], 1)
        return softmax_over_parents(torch.cat([logits, orphan], dim=2))[..., :-1]

    def _over_positions(self, logits: Tensor, windows: Windows) -> Tensor:
        index = windows.index.to(logits.device).flatten()
        grouped = logits.reshape(-1, windows.positions, *logits.shape[1:])  # batch, position, child, parent
        together = self.axis == "types+positions"
        peak = _greatest(grouped.detach(), index, windows.cells, together)
        if self.orphan:
            peak = peak.clamp(min=0)
        shares = (grouped - _at_windows(peak, index, grouped)).exp()
        per_window = shares.sum(dim=-1, keepdim=True) if together else shares
        total = per_window.new_zeros(peak.shape).index_add(
            1, index, per_window.flatten(1, 2)
        )  # batch, cell, parent or 1
        if self.orphan:
            total = total + (-peak).exp()
        return (shares / _at_windows(total, index, grouped)).flatten(0, 1)


def softmax_over_parents(logits: Float[Tensor, "lane child parent"]) -> Float[Tensor, "lane child parent"]:
    """The softmax over the last axis. On a processor, few parents go before children: torch is slow on short rows.

    Args:
        logits: (lane, child, parent); each parent of a lane competes for each child.
    """
    if logits.device.type == "cpu" and logits.shape[2] < REGISTER:
        return logits.transpose(1, 2).softmax(dim=1).transpose(1, 2)
    return logits.softmax(dim=2)


def _greatest(grouped: Tensor, index: Tensor, cells: int, together: bool) -> Tensor:
    """The greatest logit that each child meets, over all windows: (batch, cell, parent), or (batch, cell, 1)."""
    values = (grouped.amax(dim=-1, keepdim=True) if together else grouped).flatten(1, 2)
    peak = values.new_full((values.shape[0], cells, values.shape[2]), -torch.inf)
    return peak.scatter_reduce(1, index[None, :, None].expand_as(values), values, "amax").clamp(min=-1e30)


def _at_windows(of_cells: Tensor, index: Tensor, grouped: Tensor) -> Tensor:
    """Values of children, repeated for every window that a child is in."""
    return of_cells[:, index].reshape(*grouped.shape[:3], of_cells.shape[2])
