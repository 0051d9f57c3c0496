"""Slot attention whose coupling is a transport plan of low entropy (MESH)."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Among, Count, Natural, NonNegative, Positive, Range
from routebench.capsules import Activations, Poses, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.registry import routing
from routebench.routing.base import Routed
from routebench.routing.slot_attention import SlotAttention, Start

LEAST, MOST = 1e-20, 1.0
"""The ends between which a plan's elements count in its entropy."""
SLOPE_FLOOR = 1e-12
"""The least norm that a gradient is divided by."""
FAR = -1e30
"""Logarithm of the supply of a child that is not there."""

ByPair = Float[Tensor, "lane parent child"]
OfChildren = Float[Tensor, "lane 1 child"]
OfParents = Float[Tensor, "lane parent 1"]


class Round(NamedTuple):
    """A round of Sinkhorn's algorithm.

    Args:
        of_children: how each child divides itself among parents; sums to one over parents.
        of_parents: the part of each child in a parent's demand; sums to one over children.
    """

    of_children: ByPair
    of_parents: ByPair


@routing.register("mesh")
class Mesh(SlotAttention):
    """Slots take children by a transport plan, whose costs are first changed by steps that lower its entropy.

    Plain Sinkhorn coupling is soft. That of MESH comes near an assignment, in which a child goes to one slot, and is
    still differentiable. How much a child offers and how much a slot asks for is learned, so that masses need not be
    equal, as they are in `slot-attention` with `sinkhorn`.

    Source: Zhang, Zhang, Lacoste-Julien, Burghouts and Snoek, ICML 2023, arXiv:2301.13197 (MESH), by the authors' code,
    configuration `mesh`. The text of the paper was not at hand.
    Departures: those of `slot-attention`: a vote is key and value, children are not layer-normalised, and slots start
    at their mean in evaluation. There is no noise in evaluation either, so that a test can be repeated. The code has
    it there, to part slots that are equal: here votes part them, but not where slots share their votes, for which
    `start=learned` is. In a convolutional layer each position of the parents is a problem of its own. Gradients that
    are exactly zero stay zero, where the code adds 1e-20 to each element. The mean and the spread of random starts
    begin as in `slot-attention`, up to 1.4 times as far from zero as in the code. What the configuration does not use
    is left out: other costs (cosine, dot product), a learned `rate`, a temperature and a factor of costs other than 1.

    Warning: a step has a fixed length, however small the slope is. Where all children are alike, the slope is zero but
    for rounding: a tie, which noise breaks in training, and rounding in evaluation.

    Args:
        iterations: T; the first one reads the start.
        steps: gradient steps on the costs, in each iteration; 0 is slot attention by Sinkhorn's algorithm alone.
        rate: the length of a step: of all costs of a lane together, since the gradient is normalised.
        rounds: rounds of Sinkhorn's algorithm before each step, and again after the last. Each begins with the
            potentials at which the one before ended.
        noise: standard deviation of the noise on costs in training; drawn once, and the same in all iterations. With 0
            steps there is none.
        detach: take steps as constants in the backward pass, as the authors' code does. Otherwise gradients go through
            them, by derivatives of second order, and are those of finite differences.
        start: as in `slot-attention`; the code has `random`.
        hidden: units of the hidden layers of the perceptrons: of the slot's update, and of both masses.
        schedule: the order in which several layers iterate; the paper has one.
    """

    source = "Zhang, Zhang, Lacoste-Julien, Burghouts and Snoek, ICML 2023, MESH"
    title = "MESH"

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 3,
        steps: Annotated[Natural, Range(1, 8)] = 4,
        rate: Annotated[Positive, Range(0.5, 50.0, "log")] = 8.0,
        rounds: Count = 5,
        noise: NonNegative = 1e-3,
        detach: Annotated[bool, Among((False, True))] = True,
        start: Start = "random",
        hidden: Count = 128,
        schedule: ScheduleName = "sequential",
    ):
        super().__init__(sizes, iterations=iterations, start=start, hidden=hidden, schedule=schedule)
        self.steps = steps
        self.rate = rate
        self.rounds = rounds
        self.noise = noise
        self.detach = detach
        self.supply, self.demand = (
            nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1, bias=False))
            for width in (sizes.pose_below, sizes.pose)
        )

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """The plan at the costs of these slots, after the steps; then the slots' update."""
        slots = self._starting_slots(votes) if previous is None else previous.poses
        noise = self._draw(votes) if previous is None else previous.memory
        normal = self.norm(slots)
        logits = -_distances(votes, self.project(normal))
        if noise:
            logits = logits - noise[0]
        demand = self._demand(normal)
        last = self._transport(logits, self._supply(votes), demand, votes.there)
        plan, shares = (one.transpose(1, 2) for one in (demand.exp() * last.of_parents, last.of_children))
        if votes.present is not None:
            shares = shares * votes.present[..., None]
        aggregate = votes.aggregate(plan, shown=shares)
        iteration = 1 if previous is None else previous.iteration + 1
        return Routed(self._renew(slots, aggregate), iteration=iteration, memory=noise)

    def _draw(self, votes: Votes) -> tuple[Tensor, ...]:
        if not (self.training and self.steps and self.noise):
            return ()
        shape = (votes.lanes, self.sizes.parents, self.sizes.children)
        return (self.noise * torch.randn(shape, dtype=self.norm.weight.dtype, device=self.norm.weight.device),)

    def _supply(self, votes: Votes) -> OfChildren:
        """The logarithm of what each child offers; of all children together, 1."""
        score: Tensor = self.supply(votes.poses_below).squeeze(2)
        if votes.present is not None:
            score = score.masked_fill(~votes.present, FAR)
        return score.log_softmax(dim=1)[:, None]

    def _demand(self, slots: Poses) -> OfParents:
        """The logarithm of what each slot asks for; of all slots together, their number."""
        shares: Tensor = self.demand(slots).log_softmax(dim=1)
        return shares + math.log(self.sizes.parents)

    def _transport(self, logits: ByPair, supply: OfChildren, demand: OfParents, children: int | Tensor) -> Round:
        """The last round after all steps."""
        potential = torch.zeros_like(demand)
        for _ in range(self.steps):
            rounds, potential = sinkhorn_rounds(logits, supply, demand, potential, self.rounds)
            slope = entropy_slope(rounds, demand, children)
            length = torch.linalg.vector_norm(slope, dim=(1, 2), keepdim=True).clamp(min=SLOPE_FLOOR)
            step = self.rate * slope / length
            logits = logits - (step.detach() if self.detach else step)
        rounds, _ = sinkhorn_rounds(logits, supply, demand, potential, self.rounds)
        return rounds[-1]


def _distances(votes: Votes, query: Poses) -> ByPair:
    """The costs: how far each vote is from its parent's query."""
    apart = votes.dense().transpose(1, 2) - query[:, :, None]
    found: Tensor = torch.linalg.vector_norm(apart, dim=3)  # over elements of poses
    return found


def sinkhorn_rounds(
    logits: ByPair, supply: OfChildren, demand: OfParents, potential: OfParents, rounds: int
) -> tuple[list[Round], OfParents]:
    """Scales the plan by child and by parent in turn, so that parents come last and get all that they ask for.

    Args:
        logits: minus the costs, (lane, parent, child).
        supply, demand: logarithms of the masses, (lane, 1, child) and (lane, parent, 1).
        potential: logarithm of the parents' scaling to begin with.
        rounds: how many rounds.

    Returns:
        the rounds, and the potential after the last. The plan is the demand times what the last has of parents.
    """
    found = []
    for _ in range(rounds):
        shares = (logits + potential).log_softmax(dim=1)
        offered = supply + shares
        mass = offered.logsumexp(dim=2, keepdim=True)
        potential = potential + demand - mass
        found.append(Round(shares.exp(), (offered - mass).exp()))
    return found, potential


def entropy_slope(rounds: Sequence[Round], demand: OfParents, children: int | Float[Tensor, "lane 1"]) -> ByPair:
    """The gradient of the plan's entropy for the logits of its rounds, written out from the last round to the first.

    Written out, it is there without autograd, too, and can be differentiated by it like everything else. The potential
    at which the rounds began counts as a constant.

    Args:
        rounds: those of `sinkhorn_rounds`.
        demand: logarithm of the parents' masses, (lane, parent, 1).
        children: how many there are; the entropy is the mean of `-P log P` over all pairs.
    """
    plan = demand.exp() * rounds[-1].of_parents
    pairs = plan.shape[1] * (children if isinstance(children, int) else children[..., None].clamp(min=1))
    counts = (plan >= LEAST) & (plan <= MOST)
    slope = torch.where(counts, -plan * (plan.clamp(LEAST, MOST).log() + 1), 0.0) / pairs  # for the plan's logarithm
    to_parents, to_children = slope.sum(dim=2, keepdim=True), slope.sum(dim=1, keepdim=True)
    for one in reversed(rounds):
        of_parents = one.of_parents * to_parents
        of_children = one.of_children * (to_children - of_parents.sum(dim=1, keepdim=True))
        slope = slope - of_parents - of_children
        to_parents, to_children = -of_children.sum(dim=2, keepdim=True), torch.zeros_like(to_children)
    return slope
