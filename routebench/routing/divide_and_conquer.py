"""Divide-and-conquer routing: dynamic routing within groups of children."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, einsum, nn
from torch.nn.functional import pad

from routebench.arguments import Among, Count
from routebench.capsules import Activations, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed


@routing.register("divide-and-conquer")
class DivideAndConquerRouting(IterativeRouting):
    """Dynamic routing within groups of children: a child follows the parents of its own group, which are then added.

    A parent is a sum of short vectors, one for each group, where dynamic routing squashes one long sum. All votes are
    stored.

    Source: Yuan and Ren, PLOS One 20(7), 2025 (doi:10.1371/journal.pone.0329202), as in the authors' code: the primary
    capsules of one type are a group, logits start at learned numbers, and parents of groups are added up.
    Departures: a parent can be as long as there are groups, and the code takes this length for a probability. Here the
    activation is `1 - exp(-length)`, which is the length where it is small, and stays below 1. One group alone makes
    parents of a length below 1, and so activations of at most 0.632: poses are then those of dynamic routing, scores
    are not, and the margin loss of the right class is at least 0.072.

    Args:
        iterations: number within each group.
        members: children in a group. There are as many groups as this takes, G, and child i is in group `i mod G`. In
            CapsNet a type has 36 cells on a grid where types run fastest, so that 36 makes a group of each type.
        learned_start: learn the logits of the first iteration, one for each child and parent. They start at zero.
        schedule: the order in which several layers iterate; the paper has one capsule layer.
    """

    source = "Yuan and Ren, PLOS One 2025, divide-and-conquer routing (doi:10.1371/journal.pone.0329202)"
    claims: tuple[Claim, ...] = (
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.POSE_ROTATION,
    )
    settles = False  # logits grow for ever

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        members: Annotated[Count, Among((9, 36, 144))] = 36,
        learned_start: bool = True,
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.members = members
        self.groups = -(-sizes.children // members)  # rounded up
        self.learned_start = learned_start
        self.start = nn.Parameter(torch.zeros(sizes.children, sizes.parents)) if learned_start else None
        if not learned_start:
            self.claims = (*self.claims, Claim.UNIFORM_FIRST)

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """One iteration in every group. An absent child casts a short vote, so its activation is not used again."""
        dense = self._in_groups(votes.dense())
        if previous is not None:
            logits, parts = previous.memory
            logits = logits + einsum("lmgjp,lgjp->lmgj", dense, parts).flatten(1, 2)[:, : votes.children]
        elif self.start is not None:
            logits = self.start.expand(votes.lanes, -1, -1)
        else:
            logits = dense.new_zeros(votes.lanes, votes.children, votes.parents)
        coupling = votes.competition.couple(logits)
        if votes.watch is not None:
            shown = votes.watch(coupling)
            coupling = coupling if shown is None else shown
        parts = squash(einsum("lmgj,lmgjp->lgjp", self._in_groups(coupling), dense))  # the parents of each group
        poses = parts.sum(dim=1)  # over groups
        presence = -torch.expm1(-length(poses))
        iteration = 1 if previous is None else previous.iteration + 1
        return Routed(poses, presence, iteration=iteration, memory=(logits, parts))

    def _in_groups(self, of_children: Float[Tensor, "lane child *axes"]) -> Float[Tensor, "lane member group *axes"]:
        """Children by group, with zeros for members that some groups lack: their votes are zero."""
        missing = -self.sizes.children % self.groups
        whole = pad(of_children, (0, 0) * (of_children.ndim - 2) + (0, missing))
        return whole.view(len(whole), whole.shape[1] // self.groups, self.groups, *whole.shape[2:])
