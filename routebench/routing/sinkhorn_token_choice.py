"""Token choice after Sinkhorn's balance: children choose their parents, and parents get equal shares."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import nn

from routebench.arguments import Among, Count
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.ops import highest, sinkhorn
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod

TIE = 1e-4
"""Largest part by which a gate raises a share in the choice: among equal shares, as an only child has, it decides."""


@routing.register("sinkhorn-token-choice")
class SinkhornTokenChoice(RoutingMethod):
    """Each child goes to the parent where its share in a balanced plan is largest, weighted by its gate.

    One pass, without agreement, and a hard rule: most coupling coefficients are zero. The plan is near the gates, a
    softmax over parents, but gives all parents equal mass: entropic optimal transport. It decides where a child goes,
    and not how much of it. The choice that follows need not be balanced to the last child.

    Exact: a child is a token, a parent an expert, and coupling is the combine weight of a pair that is chosen, else
    zero. With `rounds=0` nothing is balanced, and the rule is softmax token choice without a balancing loss.

    Source: Liu, Blondel, Riquelme and Puigcerver, "Routers in vision mixture of experts", 2024 (arXiv:2401.15969),
    Sinkhorn token choice, which follows S-BASE of Clark et al., "Unified scaling laws for routed language models", ICML
    2022 (arXiv:2202.01169). Of neither was the text at hand, but the abstract of the first: the equations are those of
    the code that its authors published with "Sparsity-constrained optimal transport", ICLR 2023 (google-research/vmoe),
    for the same rule.
    Departures: experts are linear, and each child may have a matrix of its own for each expert, where the papers'
    experts are perceptrons that treat all tokens alike. The papers add the outputs of a token's experts up, and give
    the sum to the token; here the outputs of a parent's children are added up, and that is the parent. The plan is of
    one image, in a convolutional layer of one window, and there between parent types. Experts have no limit beyond
    which the code drops tokens. Noise and auxiliary losses, options of the code, are not here. Where the plan has a
    gradient, it is that through all rounds, and not that of the limit. In the choice a share counts 1 + gate / 10,000
    times, so that the gate decides between equal ones, as between all of an only child; if gates are equal, too, the
    first parent is taken. Parents are layer-normalised, as tokens are before the next layer reads them.

    Warning: equal mass is wrong where objects differ in size or where one is absent, as nine of ten class capsules are.

    Args:
        rounds: number of rounds of Sinkhorn's algorithm, each of which makes the mass of parents equal and then
            normalises children again; the code has 20.
        parents_per_child: k, how many parents a child chooses; beyond their number it is all.
        weight: what weighs a chosen vote: the `gate`, so that the plan has no gradient, as by default in the code; or
            the `plan`.
    """

    source = "Liu, Blondel, Riquelme and Puigcerver 2024 (arXiv:2401.15969), Sinkhorn token choice"
    claims = (Claim.CHILD_ORDER, Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.PADDING)
    gives_activations = False

    def __init__(
        self,
        sizes: Sizes,
        *,
        rounds: Annotated[int, Ge(0)] = 20,
        parents_per_child: Annotated[Count, Among((1, 2))] = 1,
        weight: Annotated[Literal["gate", "plan"], Among(("gate", "plan"))] = "gate",
    ):
        super().__init__(sizes)
        self.rounds = rounds
        self.parents_per_child = parents_per_child
        self.weight = weight
        self.gate = nn.Parameter(sizes.pose_below**-0.5 * torch.randn(sizes.pose_below, sizes.parents))
        self.norm = nn.LayerNorm(sizes.pose)

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """Gates and plan, the choice of each child, and the sum of the chosen votes, normalised."""
        logits = votes.poses_below @ self.gate  # lane child parent
        gates = votes.competition.couple(logits)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.weight == "plan"):
            plan = sinkhorn(logits, votes.competition, self.rounds)
        chosen = highest(plan * (1 + TIE * gates), self.parents_per_child)
        return Routed(self.norm(votes.aggregate((gates if self.weight == "gate" else plan) * chosen)))
