"""Dynamic routing by agreement."""

from typing import Annotated

import torch
from torch import nn

from routebench.arguments import Among, Count
from routebench.capsules import Activations, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis, length, squash
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed


@routing.register("dynamic")
class DynamicRouting(IterativeRouting):
    """Strengthens a child's coupling to the parents that its vote agrees with.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, Procedure 1 (arXiv:1710.09829).
    Departures: none in the default. The logit `b_ij`, to which the paper adds `<V_ij, v_j>` after each iteration, is
    the dot product of the vote with the running sum of the parents, which is what is kept here.

    Args:
        iterations: r in the paper.
        detach: stop the gradient at the coupling, as widely used code does; the authors' code does not.
        bias: learn a bias per parent and pose element, added before squashing, as the authors' code does. It starts at
            0; theirs starts at 0.1, as a CapsNet with `start="authors"` has it.
        leaky: let an orphan parent with logit 0 and no output compete, as the authors' code can.
        competition: which parents share a child, in convolutional layers; see `routebench.capsules.AXES`.
        schedule: the order in which several layers iterate; the paper has one capsule layer.
    """

    source = "Sabour, Frosst and Hinton, NeurIPS 2017, Procedure 1 (arXiv:1710.09829)"
    colour = "blue"
    first_is = "uniform"
    claims: tuple[Claim, ...] = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.POSE_ROTATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )
    settles = False  # the running sum grows for ever

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        detach: Annotated[bool, Among((False, True))] = False,
        bias: bool = False,
        leaky: bool = False,
        competition: Axis = "types",
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.detach = detach
        self.leaky = self.orphan = leaky
        if leaky and competition == "children":
            raise ValueError("leaky needs parents that compete; choose another competition than 'children'")
        self.competition = competition
        self.bias = nn.Parameter(torch.zeros(sizes.parents, sizes.pose)) if bias else None
        if bias:  # a direction of its own, which does not turn with the votes
            self.claims = tuple(claim for claim in self.claims if claim is not Claim.POSE_ROTATION)

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """Lines 4 to 7. An absent child casts a short vote, so its activation is not used again here."""
        parents_so_far = None if previous is None else previous.memory[0]
        total = votes.sweep(parents_so_far, constant_coupling=self.detach).first  # lines 4 and 5
        if self.bias is not None:
            total = total + self.bias
        poses = squash(total)  # line 6
        running_sum = poses if parents_so_far is None else parents_so_far + poses  # line 7
        return Routed(
            poses, length(poses), iteration=1 if previous is None else previous.iteration + 1, memory=(running_sum,)
        )
