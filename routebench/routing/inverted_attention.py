"""Inverted dot-product attention routing."""

import math
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Lt
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from routebench.arguments import Among, Count
from routebench.capsules import Activations, Sizes, Votes
from routebench.capsules.schedules import ScheduleName
from routebench.claims import Claim
from routebench.ops import Axis, description_length_logit
from routebench.registry import routing
from routebench.routing.base import IterativeRouting, Routed

VARIANCE_FLOOR = 5e-4
"""Number added to variances under `activations`, as in EM routing."""
Start = Literal["zeros", "learned", "random"]


@routing.register("inverted-attention")
class InvertedAttention(IterativeRouting):
    """Parents attend to children, but compete for them: coupling is a softmax over parents of pose-vote agreements.

    Source: Tsai, Srivastava, Goh and Salakhutdinov, ICLR 2020, Procedure 1.
    Departures: agreements are divided by sqrt(pose), which the paper leaves out and both of the authors' code bases,
    hence the published numbers, have; `scale=False` is the printed equation. A method for poses alone: activations of
    children are not used, and networks read class scores off poses by one shared linear unit.

    Args:
        iterations: number of updates, the first of which is uniform where parents start at zero.
        scale: divide agreements by sqrt(pose).
        layer_norm: normalise each parent's pose, with a gain and a bias shared by all parents; ablation A without.
        activations: ablation C, with activations "as in Hinton et al.". The paper does not say how they enter; here
            they weight children, and parents get theirs from the M-step of EM routing with lambda = 1 / children.
        start: poses of the parents before the first iteration (footnote 1). `zeros`. `learned`: a pose for each parent,
            the same at all positions; it begins as normal numbers, because from zeros it would begin as `zeros` does.
            `random`: normal numbers, others in each forward pass of training; the paper does not say what testing
            does, and here it always takes the same ones, drawn with the weights.
        dropout: share of pose elements set to zero before normalisation in training; the authors' code has 0.
        competition: which parents share a child, in convolutional layers; the authors' code has `types`.
        schedule: `concurrent`, the paper's: in each iteration all layers are updated together; ablation B is
            `sequential`. Networks of one capsule layer are the same with both.
    """

    source = "Tsai, Srivastava, Goh and Salakhutdinov, ICLR 2020, Procedure 1"
    colour = "green"
    claims: tuple[Claim, ...] = (
        Claim.CHILD_ORDER,
        Claim.PARENT_ORDER,
        Claim.BATCH_INDEPENDENCE,
        Claim.MASS_CONSERVATION,
        Claim.UNIFORM_FIRST,
        Claim.PADDING,
    )

    def __init__(
        self,
        sizes: Sizes,
        *,
        iterations: Count = 2,
        scale: bool = True,
        layer_norm: Annotated[bool, Among((False, True))] = True,
        activations: Annotated[bool, Among((False, True))] = False,
        start: Start = "zeros",
        dropout: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0,
        competition: Axis = "types",
        schedule: ScheduleName = "concurrent",
    ):
        super().__init__(sizes, iterations=iterations, schedule=schedule)
        self.scale = scale
        self.layer_norm = layer_norm
        self.activations = self.gives_activations = self.uses_activations = activations
        self.start = start
        self.dropout = dropout
        self.competition = competition
        self.norm = nn.LayerNorm(sizes.pose) if layer_norm else nn.Identity()
        if activations:
            self.beta_u = nn.Parameter(torch.zeros(sizes.parents))
            self.beta_a = nn.Parameter(torch.zeros(sizes.parents))
        self.first: Tensor | None = _first_parents(start, sizes)
        self.claims = tuple(claim for claim in self.claims if claim not in self._not_kept())

    def _not_kept(self) -> set[Claim]:
        lost = set() if self.start == "zeros" else {Claim.UNIFORM_FIRST}
        if self.start == "random":
            lost |= {Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE}  # numbers go by place
        return lost | {Claim.BATCH_INDEPENDENCE} if self.dropout else lost

    def iterate(self, votes: Votes, activations: Activations, previous: Routed | None) -> Routed:
        """Agreements, softmax over parents, weighted sum, layer normalisation."""
        query = self._start(votes.lanes) if previous is None else previous.poses
        if query is not None and self.scale:
            query = query / math.sqrt(self.sizes.pose)
        sums = votes.sweep(
            query, weights=activations if self.activations else None, moments=2 if self.activations else 1
        )
        logits = None
        if self.activations:
            assert sums.second is not None  # two moments were asked for
            mass = sums.mass[..., None] + torch.finfo(sums.mass.dtype).tiny
            variance = (sums.second / mass - (sums.first / mass).square()).clamp(min=0) + VARIANCE_FLOOR
            cost = description_length_logit(sums.mass, variance, self.beta_u, self.beta_a)
            logits = cost / votes.there
        iteration = 1 if previous is None else previous.iteration + 1
        parent_activations = None if logits is None else logits.sigmoid()
        poses = self.norm(functional.dropout(sums.first, self.dropout, self.training))
        return Routed(poses, parent_activations, logits, iteration=iteration)

    def _start(self, lanes: int) -> Float[Tensor, "lane parent pose"] | None:
        if self.first is None:
            return None
        poses = self.first.expand(lanes, -1, -1)
        return torch.randn_like(poses) if self.start == "random" and self.training else poses


def _first_parents(start: str, sizes: Sizes) -> Float[Tensor, "parent pose"] | None:
    """Normal numbers, as spread as poses are after layer normalisation."""
    if start == "zeros":
        return None
    drawn = torch.randn(sizes.parents, sizes.pose)
    return nn.Parameter(drawn) if start == "learned" else nn.Buffer(drawn)
