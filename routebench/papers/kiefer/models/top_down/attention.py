"""Attention as top-down generation: parents predict children, and each child moves towards similar predictions.

Source: Kiefer et al., "Capsule networks as generative models", section 4.1, equations 5 and 6.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from routebench.ops import softmax_over_parents

Children = Float[Tensor, "batch child pose"]
Predictions = Float[Tensor, "batch child parent pose"]


class Attended(NamedTuple):
    """Children after attention.

    Args:
        poses: poses of the children.
        similarity: the logits of the last softmax: the next start, where they accumulate.
    """

    poses: Children
    similarity: Float[Tensor, "batch child parent"]


def predict(
    parents: Float[Tensor, "batch parent pose_above"],
    blocks: Float[Tensor, "child parent pose pose_above"],
    bias: Float[Tensor, "child parent pose"] | None = None,
) -> Predictions:
    """Uhat_ij = W~_ij V_j: each parent's prediction of each child.

    The weight of a dense capsule layer, `DenseCapsules.weight`, has the shape of `blocks`, and its votes are `u_i
    W_ij`. Here every block is transposed too; otherwise the dimensions do not fit. The paper transposes the array of
    blocks and does not mention the blocks. Blocks can also be learned separately.

    Memory: batch x children x parents x pose numbers, kept once for the gradient, and a second such array while the
    predictions are made. No other function here keeps an array of this size.

    Args:
        parents: V_j.
        blocks: weights of a bottom-up layer, or others of that shape.
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

    With one parent, the first iteration returns its prediction, and later ones change nothing. An iteration is one step
    of a modern Hopfield network whose memories are the predictions (Ramsauer et al., ICLR 2021, theorem 1). It never
    raises `energy`, for any beta above 0, unless similarities accumulate.

    Args:
        children: V_i at the start. The paper does not say which; callers choose.
        predictions: Uhat_ij.
        beta: inverse temperature; there is no 1 / sqrt(pose), as in the paper.
        iterations: the paper does not give their number.
        accumulate: add each iteration's similarities to those before, as dynamic routing adds logits: the paper's
            "additional recurrent state". The softmax then sharpens with each iteration.
        similarity: accumulated before; None for zero.

    Memory beyond `predictions` is batch x children x (parents + pose) numbers for each iteration.
    """
    total = similarity
    for _ in range(iterations):
        found = beta * torch.einsum("bid,bijd->bij", children, predictions)
        total = found if total is None or not accumulate else total + found
        children = torch.einsum("bij,bijd->bid", softmax_over_parents(total), predictions)
    if total is None:
        total = predictions.new_zeros(predictions.shape[:3])
    return Attended(children, total)


def energy(children: Children, predictions: Predictions, beta: float = 1.0) -> Float[Tensor, "batch child"]:
    """-1/beta log sum_j exp(beta <V_i, Uhat_ij>) + |V_i|^2 / 2: the Hopfield energy that `attend` descends.

    Ramsauer et al., "Hopfield networks is all you need", ICLR 2021 (arXiv:2008.02217), equation 3, without constants.

    Args:
        children: V_i.
        predictions: Uhat_ij.
        beta: inverse temperature, above 0.
    """
    similarity = beta * torch.einsum("bid,bijd->bij", children, predictions)
    return 0.5 * children.square().sum(dim=2) - similarity.logsumexp(dim=2) / beta
