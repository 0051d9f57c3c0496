"""The votes of children for parents, `V_ij = W_ij u_i`, offered as the few sums that routing needs."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from routebench.kernels import Sums, Sweep, products, reference, sweep
from routebench.ops import Competition


class Votes:
    """All votes between two layers, for a batch.

    Poses are multiplied by weights on the right: `V_ij = u_i W_ij` for vector poses, `V_ij = M_i W_ij` for matrices.

    A lane is a routing problem of its own: an image, or in a convolutional layer an image at one position of the
    parents, with positions running fastest.

    Args:
        children: poses of the layer below. In a dense layer every cell is a child; in a convolutional one, each lane
            sees the cells of its window, in the order row, column, type.
        weight: (child, parent, pose in, pose out), or (child, parent, P, P) for P x P matrix poses. In a dense layer it
            can be that of fewer children, which others share: child i has that of i modulo their number.
        competition: how logits become coupling; its windows make the layer a convolutional one, and its `present` says
            which children are there.
        offset: added to every vote of a child, (child, pose out); coordinates enter here.
    """

    def __init__(
        self,
        children: Float[Tensor, "batch cell pose_in"],
        weight: Float[Tensor, "owner parent _ _"],
        competition: Competition,
        *,
        offset: Float[Tensor, "child pose"] | None = None,
    ):
        self.competition = competition
        """Turns logits of one's own into coupling."""
        given = Sweep(children, weight, competition, offset, packed=WeakTensorKeyDictionary())
        if (present := competition.present) is not None:
            _expect("the children that are there", present, children.shape[:2])
            given = replace(given, children=children.masked_fill(~present[..., None], 0))
        self._given = given
        self._stored: Tensor | None = None  # lane, parent, child, pose
        self.watch: Callable[[Tensor], Tensor | None] | None = None
        """Function of the coupling (lane, child, parent) of every sweep, for analyses and tests, which may give another
        one in its place; votes are stored, and those that `dense` has stored are used. Of `aggregate` it only sees the
        coupling."""

    @property
    def lanes(self) -> int:
        """Independent routing problems: images, or images x parent positions."""
        return self._given.lanes

    @property
    def children(self) -> int:
        """Children that a lane sees."""
        return self._given.seen

    @property
    def present(self) -> Bool[Tensor, "lane child"] | None:
        """The children that are there; None where all are. The others have poses of zero, and no weight in sums."""
        return self.competition.present

    @property
    def there(self) -> int | Float[Tensor, "lane 1"]:
        """The number of children that are there; of each lane, where lanes differ in it."""
        if self.present is None:
            return self.children
        return self.present.sum(dim=1, keepdim=True).to(self._given.children.dtype)

    @property
    def parents(self) -> int:
        """Parents that they vote for."""
        return self._given.weight.shape[1]

    @property
    def pose(self) -> int:
        """Elements of a vote."""
        return self._given.pose

    @property
    def poses_below(self) -> Float[Tensor, "lane child pose_in"]:
        """Poses of the children that each lane sees, repeated where windows overlap."""
        return reference.in_lanes(self._given)

    def competing_over(self, axis: str) -> "Votes":
        """The same votes, with coupling that sums to one over another axis of `routebench.capsules.AXES`.

        Args:
            axis: one of `AXES`.
        """
        own = copy(self)
        own.competition = self.competition.over(axis)
        own._given = replace(self._given, competition=own.competition)
        return own

    def dense(self) -> Float[Tensor, "lane child parent pose"]:
        """Every vote, stored. A method that uses it pays lanes x children x parents x pose elements of memory."""
        if (stored := self._kept) is None:
            stored = self._stored = reference.votes(self._given)
        return stored.transpose(1, 2)

    @property
    def _kept(self) -> Tensor | None:
        """The stored votes, unless they were made without the gradients that are wanted now."""
        stored, given = self._stored, self._given
        if stored is None or stored.requires_grad or not torch.is_grad_enabled():
            return stored
        wanted = any(one is not None and one.requires_grad for one in (given.children, given.weight, given.offset))
        return None if wanted else stored

    def misfit(self, means: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent pose_in"]:
        """Distances of children from what their parents' means predict for them: `(V_ij - mean_j) W_ij^-1`, stored.

        For weights that are square matrices. Source: Hinton, Sabour and Frosst, ICLR 2018, appendix A.2.

        Args:
            means: the mean of the votes for each parent, (lane, parent, pose).
        """
        self._expect_like_poses("means", means)
        apart, inverse = self.dense() - means[:, None], torch.linalg.inv(self._given.spread().weight)
        if self._given.is_matrix:
            rows = apart.reshape(*apart.shape[:3], *inverse.shape[2:])
            return torch.matmul(rows, inverse).flatten(-2)
        return torch.matmul(apart[..., None, :], inverse).squeeze(-2)

    def sweep(
        self,
        query: Float[Tensor, "lane parent pose"] | None = None,
        *,
        curvature: Float[Tensor, "lane parent pose"] | None = None,
        bias: Float[Tensor, "lane parent"] | None = None,
        centre: Float[Tensor, "lane parent pose"] | None = None,
        weights: Float[Tensor, "lane child"] | None = None,
        moments: int = 1,
        constant_coupling: bool = False,
        watched: bool = True,
    ) -> Sums:
        """One iteration's work: logits, coupling, and the weighted moments of the votes.

        `logit_ij = <V_ij - c_j, query_j> - 1/2 <(V_ij - c_j)^2, curvature_j> + bias_j`, from which the competition
        makes the coupling R. Without query, curvature and bias, coupling is uniform.

        Args:
            query, curvature, bias: terms of the logits; None means zero.
            centre: c, about which votes are taken; None means zero. Near the mean of the votes it avoids cancellation.
            weights: w, the children's; None means one.
            moments: 1, or 2 to have the second moment too.
            constant_coupling: stop the gradient at the coupling.
            watched: whether `watch` is called; not for a sweep whose coupling the next one makes again.
        """
        given = replace(
            self._given,
            query=query,
            curvature=curvature,
            bias=bias,
            centre=centre,
            weights=weights,
            moments=moments,
            constant_coupling=constant_coupling,
        )
        if self.watch is None:
            return sweep(given)
        return reference.dense(given, self.watch if watched else None, self._kept)

    def aggregate(
        self,
        coupling: Float[Tensor, "#lane child parent"],
        *,
        shown: Float[Tensor, "lane child parent"] | None = None,
    ) -> Float[Tensor, "lane parent pose"]:
        """sum_i R_ij V_ij for a coupling that the method made itself.

        Votes are made some images at a time, and anew in backward; those that `dense` has stored are used. For one
        coupling common to all lanes, there are none: it is a matrix product.

        Args:
            coupling: the coefficients.
            shown: what `watch` is called with, where coefficients are made of coupling and not that itself.
        """
        lanes = 1 if coupling.shape[:1] == (1,) else self.lanes
        _expect("coupling", coupling, (lanes, self.children, self.parents))
        if self.present is not None:
            coupling = coupling * self.present[..., None]
        if self.watch is not None:
            self.watch(coupling.expand(self.lanes, -1, -1) if shown is None else shown)
        if (stored := self._kept) is not None:
            return reference.weigh(coupling.expand(self.lanes, -1, -1), stored)
        return products.aggregate(self._given, coupling)

    def agreement(self, poses: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent"]:
        """The dot product of each vote with its parent's pose. Votes are made as in `aggregate`.

        Args:
            poses: poses of the parents, (lane, parent, pose).
        """
        self._expect_like_poses("poses", poses)
        if (stored := self._kept) is not None:
            return reference.dot(stored, poses).transpose(1, 2)
        return products.agreement(self._given, poses)

    def _expect_like_poses(self, name: str, values: Tensor) -> None:
        _expect(name, values, (self.lanes, self.parents, self.pose))


def _expect(name: str, value: Tensor, shape: Sequence[int]) -> None:
    """Raises ValueError for another shape, which might be repeated silently."""
    if tuple(value.shape) != tuple(shape):
        raise ValueError(f"expected {name} of shape {tuple(shape)}, got {tuple(value.shape)}")
