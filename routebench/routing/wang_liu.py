"""Dynamic routing as the minimisation of an objective with an entropy."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Float
from torch import Tensor

from routebench.arguments import Among, Count, Range
from routebench.capsules import Activations, Poses, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis, length, squash
from routebench.ops.squash import EPSILON
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed


@routing.register("wang-liu")
class WangLiu(IterativeRouting):
    """Coordinate descent on `-sum_ij c_ij <V_ij, s_j> + alpha sum_ij c_ij ln c_ij` with `sum_j c_ij = 1`, `|s_j| <= 1`.

    Its two steps are `c_ij = softmax_j(<V_ij, s_j> / alpha)` and `s_j = sum_i c_ij V_ij / |sum_i c_ij V_ij|`, each of
    which is the exact minimum while the other stands still, so that the objective never grows. It starts with `s = 0`,
    which makes coupling uniform. Unlike in dynamic routing, logits are not accumulated.

    Source: Wang and Liu, "An Optimization View on Dynamic Routing Between Capsules", ICLR 2018 workshop.
    Departures: the paper's text could not be read when this was written; the method is our reconstruction from what is
    known of its objective, and numbers of it are not numbers of the paper. Unsure are the value of alpha, for which 1
    is our choice, and the final squash. The paper is said to divide votes by the Frobenius norms of their weights,
    which is left out. Children's activations are not used.

    Args:
        iterations: number of both steps. The paper's number is not known to us; 3 is that of dynamic routing.
        alpha: weight of the entropy: the lower, the fewer parents a child feeds.
        output: what parents are, as `s_j` has length 1 and says nothing of presence. Of the sums `S_j = sum_i c_ij
            V_ij`, `relative` makes `S_j / (1 + max_k |S_k|)`, the paper's as far as we know, in which parents of one
            lane depend on the longest; `squash` squashes them as dynamic routing does; both lengths are activations.
            `unit` is `s_j` itself: the method then gives no activations, and class scores are read off poses by one
            shared linear unit.
        competition: which parents share a child, in convolutional layers.
        schedule: the order in which several layers iterate.
    """

    source = "Wang and Liu, ICLR 2018 workshop (reconstructed)"
    title = "Wang-Liu"
    note = "reconstructed: we had no copy of the paper"
    claims = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.POSE_ROTATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        alpha: Annotated[float, Ge(1e-6), Range(0.1, 10.0, "log")] = 1.0,
        output: Annotated[Literal["relative", "squash", "unit"], Among(("relative", "squash", "unit"))] = "relative",
        competition: Axis = "types",
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.alpha = alpha
        self.output = output
        self.gives_activations = output != "unit"
        self.competition = competition

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """The step of the coupling, then that of the parents."""
        query = None if previous is None else previous.memory[0] / self.alpha
        total = votes.sweep(query).first
        unit = total * torch.rsqrt(total.square().sum(dim=-1, keepdim=True) + EPSILON)
        poses = self._parents(total, unit)
        iteration = 1 if previous is None else previous.iteration + 1
        return Routed(poses, length(poses) if self.gives_activations else None, iteration=iteration, memory=(unit,))

    def _parents(self, total: Float[Tensor, "lane parent pose"], unit: Float[Tensor, "lane parent pose"]) -> Poses:
        if self.output == "unit":
            return unit
        return squash(total) if self.output == "squash" else relative(total)


def relative(vectors: Float[Tensor, "lane parent pose"]) -> Float[Tensor, "lane parent pose"]:
    """Divides the vectors of a lane by 1 plus the greatest of their lengths, so that all lie in [0, 1)."""
    return vectors / (1 + length(vectors).amax(dim=1)[:, None, None])
