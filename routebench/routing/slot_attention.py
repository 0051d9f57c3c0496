"""Slot attention, and its two-sided relative by optimal transport."""

import math
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Among, Count, Range
from routebench.capsules import Activations, Poses, Sizes, Votes, is_transformed
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis, sinkhorn
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed

EPSILON = 1e-8
"""Number added to the mass that a mean is divided by."""
Start = Literal["random", "learned", "zeros"]
"""What slots are before the first iteration; see `SlotAttention`."""


@routing.register("slot-attention", version=2)
class SlotAttention(IterativeRouting):
    """Slots compete for inputs by a softmax over slots, take the mean of what they win, and are renewed by a GRU.

    Source: Locatello et al., NeurIPS 2020, Algorithm 1 (arXiv:2006.15055), and the authors' code.
    Departures: a slot is a parent, and its vote `V_ij` is both the key and the value of a child, where the paper has
    one projection of each input for all slots. The paper's slots are exchangeable: nothing says which finds which
    object. Class capsules must know their class, and weights of their own for each pair tell them. Inputs are the
    children as the network has them, without the paper's LayerNorm. In evaluation a random start is its mean, the same
    for all slots, so that a test can be repeated; the votes still tell the slots apart. The paper adds 1e-8 to each
    weight of the mean, here it is added to their sum. LayerNorm and initial weights are torch's. Children's activations
    are not used, and class scores are read off poses by one shared linear unit.

    Inverted attention is this method with `aggregation=sum`, `update=replace`, `start=zeros` and `projection=false`. Of
    these, the aggregation counts with `update=gru` alone: after `replace`, LayerNorm takes the scale out again.

    Warning: Sinkhorn normalisation gives all parents equal mass, which is wrong where objects differ in size or where
    one is absent, as nine of ten class capsules are; see `routebench.ops.sinkhorn`.

    Args:
        iterations: T; the first one reads the start.
        aggregation: `mean` of the votes, weighted by coupling; or their `sum`, as in inverted attention.
        update: `gru`, a gated recurrent unit and then a residual perceptron, with LayerNorm before the attention and
            before the perceptron; or `replace`, by the LayerNorm of the aggregate, as in inverted attention.
        start: `random`, from one Gaussian for all slots with learned mean and standard deviation, by torch's generator;
            `learned`, a vector for each slot; or `zeros`.
        projection: let a learned matrix, shared by all slots, make queries of slots.
        hidden: units of the perceptron's hidden layer.
        temperature: agreements are divided by it and by sqrt(pose).
        sinkhorn: rounds after the softmax, each of which makes the mass of parents equal and then normalises children
            again; 0 is the paper's. It stores votes.
        competition: which parents share a child, in convolutional layers.
        schedule: the order in which several layers iterate; the paper has one.
    """

    source = "Locatello et al., NeurIPS 2020, Algorithm 1"
    claims: tuple[Claim, ...] = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.PADDING,
    )
    gives_activations = False

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        aggregation: Annotated[Literal["mean", "sum"], Among(("mean", "sum"))] = "mean",
        update: Literal["gru", "replace"] = "gru",
        start: Start = "random",
        projection: bool = True,
        hidden: Count = 128,
        temperature: Annotated[float, Ge(1e-6), Range(0.1, 10.0, "log")] = 1.0,
        sinkhorn: Annotated[int, Ge(0)] = 0,
        competition: Axis = "types",
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.aggregation = aggregation
        self.update = update
        self.start = start
        self.projection = projection
        self.hidden = hidden
        self.temperature = temperature
        self.sinkhorn = sinkhorn
        if sinkhorn and competition == "children":
            raise ValueError("sinkhorn needs parents that compete; choose another competition than 'children'")
        self.competition = competition
        self._make_start(sizes)
        self.project = nn.Linear(sizes.pose, sizes.pose, bias=False) if projection else nn.Identity()
        self.norm = nn.LayerNorm(sizes.pose)  # before the attention or, where slots are replaced, after it
        if update == "gru":
            self.cell = nn.GRUCell(sizes.pose, sizes.pose)
            self.mlp_norm = nn.LayerNorm(sizes.pose)
            self.mlp = nn.Sequential(nn.Linear(sizes.pose, hidden), nn.ReLU(), nn.Linear(hidden, sizes.pose))
        elif start == "zeros" and (competition == "types" or not sinkhorn):
            self.claims = (*self.claims, Claim.UNIFORM_FIRST)  # no bias has made zero something else

    def _make_start(self, sizes: Sizes) -> None:
        limit = math.sqrt(6 / (1 + sizes.pose))  # of Glorot and Bengio, as in the authors' code
        if self.start == "learned":
            self.slots = nn.Parameter(torch.empty(sizes.parents, sizes.pose).uniform_(-limit, limit))
        elif self.start == "random":
            self.mean = nn.Parameter(torch.empty(sizes.pose).uniform_(-limit, limit))
            self.log_std = nn.Parameter(torch.empty(sizes.pose).uniform_(-limit, limit))

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """Lines 5 to 10."""
        slots = self._starting_slots(votes) if previous is None else previous.poses
        query = self.project(self.norm(slots) if self.update == "gru" else slots)  # line 6
        aggregate = self._attend(votes, query / (self.temperature * math.sqrt(self.sizes.pose)))  # lines 7 and 8
        iteration = 1 if previous is None else previous.iteration + 1
        return Routed(self._renew(slots, aggregate), iteration=iteration)

    def _starting_slots(self, votes: Votes) -> Poses:
        shape = (votes.lanes, self.sizes.parents, self.sizes.pose)
        if self.start == "zeros":
            return self.norm.weight.new_zeros(shape)
        if self.start == "learned":
            return self.slots.expand(shape)
        if not self.training:
            return self.mean.expand(shape)
        noise = torch.randn(shape, dtype=self.mean.dtype, device=self.mean.device)
        return self.mean + self.log_std.exp() * noise

    def _attend(self, votes: Votes, query: Poses) -> Float[Tensor, "lane parent pose"]:
        """The mean or the sum of the votes that each slot wins."""
        if self.sinkhorn:
            coupling = sinkhorn(votes.agreement(query), votes.competition, self.sinkhorn)
            mass, total = coupling.sum(dim=1), votes.aggregate(coupling)
        else:
            mass, total, _ = votes.sweep(query)
        return total / (mass + EPSILON)[..., None] if self.aggregation == "mean" else total

    def _renew(self, slots: Poses, aggregate: Float[Tensor, "lane parent pose"]) -> Poses:
        """Lines 9 and 10, or what inverted attention does instead."""
        if self.update == "replace":
            normal: Tensor = self.norm(aggregate)
            return normal
        if is_transformed():  # under vmap, torch's cell fails if the images differ and their slots do not
            slots = slots + torch.zeros_like(aggregate)
        rows = self.cell(aggregate.flatten(0, 1), slots.flatten(0, 1))  # line 9; all slots are one batch
        gated = rows.unflatten(0, slots.shape[:2])
        renewed: Tensor = gated + self.mlp(self.mlp_norm(gated))  # line 10
        return renewed
