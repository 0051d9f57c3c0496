"""The work that every kernel does: one iteration of routing, from poses and weights to sums for each parent."""

import math
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from routebench.ops import Competition, Windows

INPUTS = ("children", "weight", "offset", "query", "curvature", "bias", "centre", "weights")
"""The tensors of a sweep, in the order in which kernels take them and return their gradients."""

Packed = MutableMapping[Tensor, tuple[int, Tensor]]
"""Tensors with their version and what a kernel has made of them."""


class Sums(NamedTuple):
    """Sums that one sweep over the children leaves for each parent. With coupling R, weights w and centre c:

    mass: sum_i w_i R_ij, of shape (lane, parent).
    first: sum_i w_i R_ij (V_ij - c_j), of shape (lane, parent, pose).
    second: sum_i w_i R_ij (V_ij - c_j)^2 by elements, of shape (lane, parent, pose); None unless asked for.
    """

    mass: Tensor
    first: Tensor
    second: Tensor | None


@dataclass(frozen=True)
class Sweep:
    """One sweep over the children, as `Votes.sweep` describes it. What is None is left out.

    A lane is a routing problem of its own: an image in a dense layer, an image at one position of the parents in a
    convolutional one, where positions run fastest. Children are given by image and cell, not yet repeated by window.

    Args:
        children: u, poses of the layer below. In a dense layer every cell is a child.
        weight: W, (child, parent, pose in, pose out), or (child, parent, P, P) for P x P matrix poses. In a dense layer
            they can be those of fewer children, which others share: child i has those of i modulo their number.
        competition: how logits become coupling; its windows say which cells a position sees.
        offset: added to every vote of a child.
        query, curvature, bias: terms of the logits; without all three, coupling is uniform.
        centre: c, about which votes are taken.
        weights: w, the children's.
        moments: 1 or 2.
        constant_coupling: no gradient goes through the coupling.
        packed: where a kernel may keep children in its own layout for other sweeps; it must not outlive the routing of
            these children, because not every change of a tensor can be seen. None to keep nothing.
    """

    children: Float[Tensor, "batch cell pose_in"]
    weight: Float[Tensor, "owner parent _ _"]
    competition: Competition
    offset: Float[Tensor, "child pose"] | None = None
    query: Float[Tensor, "lane parent pose"] | None = None
    curvature: Float[Tensor, "lane parent pose"] | None = None
    bias: Float[Tensor, "lane parent"] | None = None
    centre: Float[Tensor, "lane parent pose"] | None = None
    weights: Float[Tensor, "lane child"] | None = None
    moments: int = 1
    constant_coupling: bool = False
    packed: Packed | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises ValueError for a tensor whose shape is another, or empty; kernels would read beyond its end."""
        _expect_votes(self.children.shape, self.weight.shape, self.competition.windows)
        if self.moments not in (1, 2):
            raise ValueError(f"sweep: expected 1 or 2 moments, got {self.moments!r}")
        seen, parents = self.seen, self.weight.shape[1]
        expected = {
            "offset": (seen, self.pose),
            **dict.fromkeys(("query", "curvature", "centre"), (self.lanes, parents, self.pose)),
            "bias": (self.lanes, parents),
            "weights": (self.lanes, seen),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and tuple(value.shape) != shape:
                raise ValueError(f"sweep: expected {name} of shape {shape}, got {tuple(value.shape)}")

    def weighed(self) -> "Sweep":
        """The same for kernels that know no absent children: these have a weight of zero, and no gradient of it."""
        if self.competition.present is None:
            return self
        present = self.competition.present.to(self.children.dtype)
        return replace(self, weights=present if self.weights is None else self.weights * present)

    def spread(self) -> "Sweep":
        """The same with weights for each child, for kernels that know no shared ones."""
        if not self.is_shared:
            return self
        return replace(self, weight=self.weight.repeat(self.seen // len(self.weight), 1, 1, 1))

    @property
    def seen(self) -> int:
        """Children that a lane sees."""
        windows = self.competition.windows
        return self.children.shape[1] if windows is None else windows.seen

    @property
    def is_shared(self) -> bool:
        """Tells whether several children of a lane have the same weights."""
        return len(self.weight) < self.seen

    @property
    def is_uniform(self) -> bool:
        """Tells whether no logits are asked for."""
        return self.query is None and self.curvature is None and self.bias is None

    @property
    def is_matrix(self) -> bool:
        """Tells whether poses are matrices, which weights multiply from the right."""
        return self.weight.shape[2] != self.children.shape[2]

    @property
    def pose(self) -> int:
        """Elements of a vote."""
        return self.weight.shape[3] ** 2 if self.is_matrix else self.weight.shape[3]

    @property
    def positions(self) -> int:
        """Lanes of one image."""
        windows = self.competition.windows
        return 1 if windows is None else windows.positions

    @property
    def lanes(self) -> int:
        """Routing problems in the batch."""
        return self.children.shape[0] * self.positions

    @property
    def settings(self) -> dict[str, Any]:
        """All that is no tensor."""
        return {
            "competition": self.competition,
            "moments": self.moments,
            "constant_coupling": self.constant_coupling,
            "packed": self.packed,
        }


def _expect_votes(children: torch.Size, weight: torch.Size, windows: Windows | None) -> None:
    """Raises ValueError unless children of this shape vote through weights of that."""
    found = f"{tuple(children)} and {tuple(weight)}"
    if len(children) != 3 or len(weight) != 4:
        raise ValueError(f"sweep: expected children with three axes and weights with four, got {found}")
    if 0 in (*weight, *children[1:]):
        raise ValueError(f"sweep: expected children and weights of at least one of everything, got {found}")
    _, cells, pose = children
    owners, _, rows, columns = weight
    expected = (owners, owners) if windows is None else (windows.cells, windows.seen)
    if (cells, owners) != expected and (windows is not None or cells % owners):
        wanted = f"{expected[0]} cells below and weights for {expected[1]} children"
        raise ValueError(f"sweep: expected {wanted}, got {cells} cells below and weights for {owners} children")
    side = math.isqrt(pose)
    if rows != pose and (rows, columns, rows * columns) != (side, side, pose):
        square = f", or {side} x {side}" if side**2 == pose else ""
        raise ValueError(f"sweep: expected weights of {pose} rows{square} for poses of {pose}, got {rows} x {columns}")
