"""Heinsen routing of vectors in sequences."""

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, einsum, nn
from torch.nn.functional import layer_norm, logsigmoid

from routebench.arguments import Among, Count
from routebench.capsules import Activations, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed


@routing.register("heinsen", version=2)
class HeinsenRouting(IterativeRouting):
    """Parents predict the poses of their children back; a child goes to those that predict it well.

    What a child gives to a parent and what it withholds are both accounted for, with a learned benefit of each.
    Coefficients are therefore no probabilities and may be negative. A method for poses alone: networks read class
    scores off the poses by one shared linear unit. No tensor of its own is larger than lane x child x parent; votes
    are only added up, in a dense layer without being made (see `routebench.kernels.products`). What limits it is the
    layer's weights, child x parent x pose x pose of them: 0.04 GB from 4,096 children to 10 parents, 4.3 GB to 1,024,
    for poses of 16 in single precision, which the paper's factors avoid.

    Source: Heinsen 2022, arXiv:2211.11754, with the functions of the author's code (`EfficientVectorRouting`).
    Departures: the votes are the layer's own, with a weight per child and parent, where the paper factorises them and
    shares the factors; the bias per parent is the paper's. Poses of children come from the layer below as they are.

    Args:
        iterations: the code uses 2; the first has uniform coupling.
        presence: how much data a child holds: `learned`, the sigmoid of a linear unit on its pose, as in the paper, or
            `activations`, what the layer below says, which the paper's vectors do not have.
        competition: which parents share a child, in convolutional layers, which the paper does not have.
        schedule: the order in which several layers iterate; the paper finishes one layer before the next.
    """

    source = "Heinsen 2022, arXiv:2211.11754"
    claims = (
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )
    gives_activations = False

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 2,
        presence: Annotated[Literal["learned", "activations"], Among(("learned", "activations"))] = "learned",
        competition: Axis = "types",
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.presence = presence
        self.uses_activations = presence == "activations"
        self.competition = competition
        pairs, below, parents, pose = (sizes.children, sizes.parents), sizes.pose_below, sizes.parents, sizes.pose
        if presence == "learned":
            self.score = nn.Parameter(2 * below**-0.5 * torch.randn(sizes.children, below))  # W_A
            self.score_bias = nn.Parameter(torch.zeros(sizes.children))
        self.vote_bias = nn.Parameter(torch.zeros(parents, pose))  # B_F2
        self.predict = nn.Parameter(pose**-0.5 * torch.randn(pose, below))  # W_G1
        self.predict_gain = nn.Parameter(torch.randn(parents, below))  # W_G2
        self.predict_bias = nn.Parameter(torch.zeros(parents, below))
        self.match_gain = nn.Parameter(below**-0.5 * torch.randn(pairs))  # W_S
        self.match_bias = nn.Parameter(torch.zeros(pairs))
        self.beta_use = nn.Parameter(torch.randn(pairs))
        self.beta_ignore = nn.Parameter(torch.randn(pairs))

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """E-step (who predicts a child), D-step (what is used, what is ignored), M-step (new parents)."""
        below = votes.poses_below
        coupling = votes.competition.couple(self._matches(below, None if previous is None else previous.poses))
        data = self._data(votes, below, activations)[..., None]
        used = data * coupling  # D_use
        credit = self.beta_use * used - self.beta_ignore * (data - used)  # phi
        total = votes.aggregate(credit, shown=coupling) / _root(votes.there)
        total = total + credit.sum(dim=1)[..., None] * self.vote_bias  # over children
        iteration = 1 if previous is None else previous.iteration + 1
        return Routed(layer_norm(total, (self.sizes.pose,)), iteration=iteration)

    def _data(
        self, votes: Votes, below: Float[Tensor, "lane child pose_in"], activations: Activations
    ) -> Float[Tensor, "lane child"]:
        """f(a_i), from 0 to 1."""
        if self.presence == "activations":
            return activations
        scaled = below / _root(votes.there)
        data = torch.sigmoid(einsum("lid,id->li", scaled, self.score) + self.score_bias)
        return data if votes.present is None else data * votes.present

    def _matches(
        self, below: Float[Tensor, "lane child pose_in"], parents: Float[Tensor, "lane parent pose"] | None
    ) -> Float[Tensor, "lane child parent"]:
        """S_ij: how well each parent predicts each child; zero while there are no parents."""
        if parents is None:
            return below.new_zeros(*below.shape[:2], self.sizes.parents)
        predicted = (parents @ self.predict) * self.predict_gain + self.predict_bias  # lane parent pose_in
        return logsigmoid(below @ predicted.transpose(1, 2) * self.match_gain + self.match_bias)


def _root(children: int | Tensor) -> float | Float[Tensor, "lane 1 1"]:
    return math.sqrt(children) if isinstance(children, int) else children.sqrt()[..., None]
