"""The votes of children for parents, `V_ij = W_ij u_i`, offered as the few sums that routing needs."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from routebench.capsules.competition import Competition


class Sums(NamedTuple):
    """What one sweep over the children leaves for each parent. With coupling R, weights w and centre c:

    mass: sum_i w_i R_ij, of shape (lane, parent).
    first: sum_i w_i R_ij (V_ij - c_j), of shape (lane, parent, pose).
    second: sum_i w_i R_ij (V_ij - c_j)^2 by elements, of shape (lane, parent, pose); None unless asked for.
    """

    mass: Tensor
    first: Tensor
    second: Tensor | None


class Votes:
    """All votes between two layers, for a batch.

    Poses are multiplied by weights on the right: `V_ij = u_i W_ij` for vector poses, `V_ij = M_i W_ij` for matrices.

    Args:
        children: poses of the children that each lane sees.
        weight: (child, parent, pose in, pose out), or (child, parent, P, P) for P x P matrix poses.
        competition: how logits become coupling.
        offset: added to every vote of a child, (child, pose out); coordinates enter here.
    """

    def __init__(
        self,
        children: Float[Tensor, "lane child pose_in"],
        weight: Float[Tensor, "child parent _ _"],
        competition: Competition,
        *,
        offset: Float[Tensor, "child pose"] | None = None,
    ):
        self.poses_in = children
        self.weight = weight
        self.competition = competition
        self.offset = offset
        self.is_matrix = weight.shape[2] != children.shape[2]
        self.watch: Callable[[Tensor], None] | None = None
        """Called with the coupling (lane, child, parent) of every sweep, for analyses and tests."""
        self._stored: Tensor | None = None

    @property
    def lanes(self) -> int:
        """Independent routing problems: images, or images x parent positions."""
        return self.poses_in.shape[0]

    @property
    def children(self) -> int:
        """Children that a lane sees."""
        return self.weight.shape[0]

    @property
    def parents(self) -> int:
        """Parents that they vote for."""
        return self.weight.shape[1]

    @property
    def pose(self) -> int:
        """Elements of a vote."""
        return self.weight.shape[3] ** 2 if self.is_matrix else self.weight.shape[3]

    def dense(self) -> Float[Tensor, "lane child parent pose"]:
        """Every vote, stored. A method that uses it pays lanes x children x parents x pose elements of memory."""
        return self._by_parent().transpose(1, 2)

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
    ) -> Sums:
        """One iteration's work: logits, coupling, and the weighted moments of the votes.

        `logit_ij = <V_ij - c_j, query_j> - 1/2 <(V_ij - c_j)^2, curvature_j> + bias_j`, from which the competition
        makes the coupling R. Without query, curvature and bias it is uniform.

        Args:
            query, curvature, bias: of the logits; None means zero.
            centre: c, about which votes are taken; None means zero. Near the mean of the votes it avoids cancellation.
            weights: w, of the children; None means one.
            moments: 1, or 2 to have the second moment too.
            constant_coupling: stop the gradient at the coupling.
        """
        if query is None and curvature is None and bias is None:
            return self._uniform_sweep(centre, weights, moments)
        votes = self._about(centre)
        squares = votes.square() if curvature is not None or moments == 2 else None
        logits = votes.new_zeros(votes.shape[:3]) if query is None else _dot(votes, query)
        if curvature is not None and squares is not None:
            logits = logits - 0.5 * _dot(squares, curvature)
        if bias is not None:
            logits = logits + bias[:, :, None]
        coupling = self.competition.couple(logits.transpose(1, 2))
        if constant_coupling:
            coupling = coupling.detach()
        if self.watch is not None:
            self.watch(coupling)
        weighted = coupling if weights is None else coupling * weights[..., None]
        second = _weigh(weighted, squares) if moments == 2 and squares is not None else None
        return Sums(weighted.sum(dim=1), _weigh(weighted, votes), second)

    def aggregate(self, coupling: Float[Tensor, "#lane child parent"]) -> Float[Tensor, "lane parent pose"]:
        """sum_i R_ij V_ij for a coupling that the method made itself."""
        coupling = coupling.expand(self.lanes, -1, -1)
        if self.watch is not None:
            self.watch(coupling)
        return _weigh(coupling, self._by_parent())

    def agreement(self, poses: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane child parent"]:
        """The dot product of each vote with its parent's pose."""
        return _dot(self._by_parent(), poses).transpose(1, 2)

    def _uniform_sweep(self, centre: Tensor | None, weights: Tensor | None, moments: int) -> Sums:
        """Equal coupling makes the first moment one matrix product, without any votes."""
        share = self.competition.uniform(self.poses_in, self.parents)  # lane, child
        if self.watch is not None:
            self.watch(share[..., None].expand(-1, -1, self.parents))
        weighted = share if weights is None else share * weights
        mass = weighted.sum(dim=1, keepdim=True).expand(-1, self.parents)
        first = self._weighted_sum(weighted)
        if centre is not None:
            first = first - mass[..., None] * centre
        shares = weighted[..., None].expand(-1, -1, self.parents)
        return Sums(mass, first, _weigh(shares, self._about(centre).square()) if moments == 2 else None)

    def _weighted_sum(self, weighted: Float[Tensor, "lane child"]) -> Float[Tensor, "lane parent pose"]:
        children = self.poses_in * weighted[..., None]
        if self.is_matrix:
            side = self.weight.shape[2]
            matrices = children.reshape(*children.shape[:2], side, side)
            total: Tensor = einsum(
                matrices, self.weight, "lane child p q, child parent q r -> lane parent p r"
            ).flatten(2)
        else:
            total = einsum(children, self.weight, "lane child d, child parent d pose -> lane parent pose")
        return total if self.offset is None else total + (weighted @ self.offset)[:, None]

    def _about(self, centre: Tensor | None) -> Float[Tensor, "lane parent child pose"]:
        votes = self._by_parent()
        return votes if centre is None else votes - centre[:, :, None]

    def _by_parent(self) -> Float[Tensor, "lane parent child pose"]:
        """Every vote, laid out so that all sums over children or pose elements are matrix products."""
        if self._stored is None:
            votes = self._multiply()
            self._stored = (votes if self.offset is None else votes + self.offset).contiguous()
        return self._stored

    def _multiply(self) -> Float[Tensor, "lane parent child pose"]:
        lanes, children, parents = self.lanes, self.children, self.parents
        by_child = self.poses_in.transpose(0, 1)  # child first: one matrix product per child
        if self.is_matrix:
            side = self.weight.shape[2]
            matrices = by_child.reshape(children, lanes * side, side)
            products = torch.bmm(matrices, self.weight.transpose(1, 2).reshape(children, side, parents * side))
            return products.view(children, lanes, side, parents, side).permute(1, 3, 0, 2, 4).flatten(3)
        rows = self.weight.transpose(1, 2).flatten(2)  # child, pose in, parent x pose out
        return torch.bmm(by_child, rows).view(children, lanes, parents, self.pose).permute(1, 2, 0, 3)


def _dot(votes: Tensor, poses: Tensor) -> Float[Tensor, "lane parent child"]:
    """The dot product of every vote (lane, parent, child, pose) with its parent's vector (lane, parent, pose)."""
    return torch.matmul(votes, poses[..., None])[..., 0]


def _weigh(weighted: Tensor, votes: Tensor) -> Float[Tensor, "lane parent pose"]:
    """The sum over children of votes (lane, parent, child, pose) times coupling (lane, child, parent)."""
    return torch.matmul(weighted.permute(0, 2, 1)[:, :, None], votes)[:, :, 0]
