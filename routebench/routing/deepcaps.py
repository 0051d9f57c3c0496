"""3-D routing, the routing of DeepCaps' convolutional capsules."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Count
from routebench.capsules import Activations, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed

FIRST_BIAS = 0.1


@routing.register("deepcaps")
class DeepCapsRouting(IterativeRouting):
    """Dynamic routing in which a type of children votes as one: its cells in a window share their coupling.

    A type shares itself out among all parents at all positions, which compete together. Without windows, each child is
    a type of its own, and this is dynamic routing with a bias.

    Source: Rajasegaran et al., "DeepCaps", CVPR 2019 (arXiv:1904.09546), 3-D routing; equations as in the authors'
    code.
    Departures: in the code all types of children share the kernel of their votes; here the layer decides. In the code's
    dense layer, which is dynamic routing, the bias starts at random. The squash has a gradient at zero.

    Args:
        iterations: number of routing iterations.
        bias: learn a bias per parent and pose element, which starts at 0.1, and is added before squashing.
        squash_over: `map` squashes the poses of one parent at all positions as one long vector, as the code does;
            `position` squashes each alone.
        schedule: the order in which several layers iterate; the paper routes in one convolutional layer.
    """

    source = "Rajasegaran et al., CVPR 2019, DeepCaps, 3-D routing (arXiv:1904.09546)"
    claims: tuple[Claim, ...] = (Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.PADDING)
    settles = False  # logits grow for ever

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        bias: bool = True,
        squash_over: Literal["map", "position"] = "map",
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.squash_over = squash_over
        self.bias = nn.Parameter(torch.full((sizes.parents, sizes.pose), FIRST_BIAS)) if bias else None
        if not bias:
            self.claims = (*self.claims, Claim.POSE_ROTATION)

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """Uniform coupling, or what the last parents attract. An absent child casts a short vote."""
        windows = votes.competition.windows
        positions, types = (1, votes.children) if windows is None else (windows.positions, windows.types)
        if previous is None:
            logits = activations.new_zeros(votes.lanes // positions, positions, types, votes.parents)
        else:
            pull = votes.agreement(previous.poses).view(-1, positions, votes.children // types, types, votes.parents)
            logits = previous.memory[0] + pull.sum(dim=2)  # over cells of a window
        shares = logits.transpose(1, 2).flatten(2).softmax(dim=-1)  # image type position*parent
        of_lanes = shares.view(-1, types, positions, votes.parents).transpose(1, 2).flatten(0, 1)  # lane type parent
        total = votes.aggregate(of_lanes.repeat(1, votes.children // types, 1))
        if self.bias is not None:
            total = total + self.bias
        poses = self._squash(total, positions)
        iteration = 1 if previous is None else previous.iteration + 1
        return Routed(poses, length(poses), iteration=iteration, memory=(logits,))

    def _squash(self, total: Float[Tensor, "lane parent pose"], positions: int) -> Float[Tensor, "lane parent pose"]:
        if self.squash_over == "position":
            return squash(total)
        maps = total.view(-1, positions, *total.shape[1:]).transpose(1, 2)  # image parent position pose
        return squash(maps.flatten(2)).view(maps.shape).transpose(1, 2).reshape(total.shape)
