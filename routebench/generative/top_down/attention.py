"""Attention as top-down generation: parents predict children, and each child settles on a prediction it is like.

Source of all: Kiefer et al., "Capsule networks as generative models", section 4.1, equations 5 and 6.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Children = Float[Tensor, "batch child pose"]
Predictions = Float[Tensor, "batch child parent pose"]


class Attended(NamedTuple):
    """Children after attention.

    Args:
        poses: of the children.
        similarity: the logits of the last softmax: what to go on from where they are accumulated.
    """

    poses: Children
    similarity: Float[Tensor, "batch child parent"]


def predict(
    parents: Float[Tensor, "batch parent pose_above"],
    blocks: Float[Tensor, "child parent pose pose_above"],
    bias: Float[Tensor, "child parent pose"] | None = None,
) -> Predictions:
    """Uhat_ij = W~_ij V_j: what each parent predicts each child to be.

    The weight of a dense capsule layer, `DenseCapsules.weight`, has the shape of `blocks`, and its votes are
    `u_i W_ij`. Given here, every block is transposed too, without which the dimensions do not fit; the paper transposes
    the array of blocks, and says nothing of the blocks themselves. Blocks may as well be learned on their own.

    Memory is batch x children x parents x pose numbers, kept once for the gradient of whatever reads the predictions
    (while they are made, another such array is there for a moment). No other function here keeps an array so large.

    Args:
        parents: V_j.
        blocks: of a bottom-up layer, or others of that shape.
        bias: added to the predictions; the paper has none.
    """
    voted = torch.einsum("bje,ijde->bijd", parents, blocks)
    return (voted if bias is None else voted + bias).contiguous()


def attend(
    children: Children,
    predictions: Predictions,
    *,
    beta: float | Tensor = 1.0,
    iterations: int = 1,
    accumulate: bool = False,
    similarity: Float[Tensor, "batch child parent"] | None = None,
) -> Attended:
    """`V_i <- softmax(beta V_i Uhat_i^T) Uhat_i`, over the parents of each child; equation 6 with beta = 1.

    With one parent, the first iteration returns its prediction, and nothing changes afterwards. As one step of a modern
    Hopfield network with the predictions for its memories (Ramsauer et al., ICLR 2021, theorem 1), an iteration never
    raises `energy`, for any beta above 0, unless similarities are accumulated.

    Args:
        children: V_i to begin with. The paper does not say which; see who calls this.
        predictions: Uhat_ij.
        beta: inverse temperature; the paper has no 1 / sqrt(pose), and neither has this.
        iterations: the paper leaves their number open.
        accumulate: add each iteration's similarities to those before, as dynamic routing does with its logits; the
            paper's "additional recurrent state". With it the softmax sharpens from one iteration to the next.
        similarity: accumulated so far; None for zero.

    Memory beyond `predictions` is batch x children x (parents + pose) numbers for each iteration.
    """
    total = similarity
    for _ in range(iterations):
        found = beta * torch.einsum("bid,bijd->bij", children, predictions)
        total = found if total is None or not accumulate else total + found
        children = torch.einsum("bij,bijd->bid", total.softmax(dim=2), predictions)  # over parents
    if total is None:
        total = predictions.new_zeros(predictions.shape[:3])
    return Attended(children, total)


def energy(children: Children, predictions: Predictions, beta: float = 1.0) -> Float[Tensor, "batch child"]:
    """-1/beta log sum_j exp(beta <V_i, Uhat_ij>) + |V_i|^2 / 2: the Hopfield energy that `attend` descends.

    Ramsauer et al., "Hopfield networks is all you need", ICLR 2021 (arXiv:2008.02217), equation 3, without constants.
    """
    similarity = beta * torch.einsum("bid,bijd->bij", children, predictions)
    return 0.5 * children.square().sum(dim=2) - similarity.logsumexp(dim=2) / beta
