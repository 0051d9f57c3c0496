"""Expert choice: parents choose their children, as experts choose their tokens."""

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from routebench.arguments import Positive, Range
from routebench.capsules import Activations, Sizes, Votes
from routebench.claims import Claim
from routebench.ops import highest
from routebench.registry import routing
from routebench.routing.base import Routed, RoutingMethod


@routing.register("expert-choice")
class ExpertChoice(RoutingMethod):
    """Each parent takes the same number of children, those whose gates for it are the highest, and no others.

    One pass, without agreement, and a hard rule: most coupling coefficients are zero. Parents have equally many
    children; a child may have several parents, or none.

    Exact: a child is a token, a parent an expert, and coupling is the gate of a pair that is chosen, else zero.

    Source: Zhou et al., "Mixture-of-experts with expert choice routing", NeurIPS 2022 (arXiv:2202.09368), section 3;
    by two public codes (google/flaxformer, google-research/vmoe); the text was not at hand.
    Departures: experts are linear, and each child may have a matrix of its own for each expert, where the paper's
    experts are perceptrons that treat all tokens alike. The paper adds the outputs of a token's experts up, and gives
    the sum to the token; here the outputs of a parent's children are added up, and that is the parent. Hence a gate
    weighs a child against the parent's other children, and not an expert against the token's other experts. Parents
    choose among the children of one image, in a convolutional layer of one window, and not among the tokens of a batch,
    so that images do not influence each other. Children that are not there are not counted, and never chosen. The
    capacity is rounded up. Parents are layer-normalised, as tokens are before the next layer reads them. The paper's
    variant with a limit on the experts of a token is not here.

    Equal gates go to the first child. In this alone does the order of children count.

    Args:
        capacity: c, by how many parents a child is taken on average; each parent takes c x children / parents of them,
            or all if there are fewer. The paper has 2, and 1 beside it.
    """

    source = "Zhou et al., NeurIPS 2022, section 3 (arXiv:2202.09368)"
    claims = (Claim.CHILD_ORDER, Claim.PARENT_ORDER, Claim.BATCH_INDEPENDENCE, Claim.PADDING)
    gives_activations = False

    def __init__(self, sizes: Sizes, *, capacity: Annotated[Positive, Range(0.5, 4.0, "log")] = 2.0):
        super().__init__(sizes)
        self.capacity = capacity
        self.gate = nn.Parameter(sizes.pose_below**-0.5 * torch.randn(sizes.pose_below, sizes.parents))  # W_g
        self.norm = nn.LayerNorm(sizes.pose)
        taken = [
            math.ceil(min(children, children * capacity / sizes.parents)) for children in range(sizes.children + 1)
        ]
        self.register_buffer("taken", torch.tensor(taken), persistent=False)  # k, of so many children
        self.taken: Tensor

    def route(self, votes: Votes, activations: Activations) -> Routed:
        """Gates, the choice of each parent, and the sum of the chosen votes, normalised."""
        gates = votes.competition.couple(votes.poses_below @ self.gate)  # S: lane child parent
        chosen = highest(self._scores(votes, gates).transpose(1, 2), self._number(votes)).transpose(1, 2)
        return Routed(self.norm(votes.aggregate(gates * chosen)))

    def _number(self, votes: Votes) -> Tensor:
        """k: how many children a parent takes; of each lane, where lanes differ in it."""
        if votes.present is None:
            return self.taken[-1]
        return self.taken[votes.present.sum(dim=1)][:, None, None]

    def _scores(self, votes: Votes, gates: Tensor) -> Tensor:
        return gates if votes.present is None else gates.masked_fill(~votes.present[..., None], -torch.inf)
