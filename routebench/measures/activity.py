"""Concentration of a layer's activity: per image over capsules, or per capsule over images.

Activity is not negative: lengths of poses, or activations. Where nothing is active, every share is taken as equal.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

Activity = Float[Tensor, "image capsule"]
PerImage = Float[Tensor, " image"]


def norm_entropy(activity: Activity) -> PerImage:
    """Entropy of each image's activity, over that of an equal one: 1 is spread evenly, 0 is one capsule alone."""
    shares = _shares(activity)
    capsules = activity.shape[1]
    if capsules == 1:
        return torch.zeros_like(shares[:, 0])
    return -torch.xlogy(shares, shares).sum(dim=1) / math.log(capsules)


def hoyer(activity: Activity) -> PerImage:
    """`(sqrt(n) - l1 / l2) / (sqrt(n) - 1)`: 0 is spread evenly, 1 is one capsule alone.

    Source: Hoyer, JMLR 5 (2004), section 3.1.

    Args:
        activity: not negative, (image, capsule).
    """
    root = math.sqrt(activity.shape[1])
    if root == 1:
        return torch.ones_like(activity[:, 0])
    one, two = activity.sum(dim=1), activity.square().sum(dim=1).sqrt()
    ratio = torch.where(two > 0, one / two, root)
    return ((root - ratio) / (root - 1)).clamp(0, 1)


def gini(activity: Activity) -> PerImage:
    """Gini's index: 0 is spread evenly, 1 - 1/n is one capsule alone.

    Source: Hurley and Rickard, IEEE Transactions on Information Theory 55 (2009), table I.

    Args:
        activity: not negative, (image, capsule).
    """
    shares = _shares(activity).sort(dim=1).values
    capsules = activity.shape[1]
    rank = torch.arange(1, capsules + 1, device=activity.device, dtype=activity.dtype)
    return 1 - 2 * (shares * (capsules - rank + 0.5) / capsules).sum(dim=1)


def top_share(activity: Activity) -> PerImage:
    """The share of the most active capsule: 1/n is spread evenly, 1 is one capsule alone.

    Args:
        activity: not negative, (image, capsule).
    """
    return _shares(activity).amax(dim=1)


def active(activity: Activity, threshold: float) -> PerImage:
    """Number of capsules above a threshold.

    Args:
        activity: not negative, (image, capsule).
        threshold: a capsule is active above it.
    """
    return (activity > threshold).sum(dim=1).to(activity.dtype)


def dead_share(activity: Activity, threshold: float) -> float:
    """The share of capsules that are above a threshold in no image.

    Args:
        activity: not negative, (image, capsule).
        threshold: a capsule is active above it.

    Returns:
        between 0 and 1.
    """
    return float((activity.amax(dim=0) <= threshold).double().mean())


def lifetime_sparsity(activity: Activity) -> Float[Tensor, " capsule"]:
    """Sparsity of each capsule over images: 0 is equally active for all, 1 is active for one alone.

    Source: Vinje and Gallant, Science 287 (2000): `(1 - mean^2 / mean of squares) / (1 - 1/n)`, after Treves and Rolls.

    Args:
        activity: not negative, (image, capsule).
    """
    return _treves_rolls(activity.T)


def population_sparsity(activity: Activity) -> PerImage:
    """Sparsity of each image over capsules: 0 is equally active capsules, 1 is one active capsule alone.

    Args:
        activity: not negative, (image, capsule).
    """
    return _treves_rolls(activity)


def spread_over_images(activity: Activity) -> float:
    """The largest standard deviation over images of any capsule: 0 if none tells images apart (D-score).

    Source: Peer, Stabinger and Rodriguez-Sanchez, gamma-capsule networks (arXiv:1812.09707), on lengths.

    Args:
        activity: (image, capsule).
    """
    return float(activity.std(dim=0, correction=0).amax())


def _shares(activity: Activity) -> Activity:
    total = activity.sum(dim=1, keepdim=True)
    return torch.where(total > 0, activity / total, 1 / activity.shape[1])


def _treves_rolls(activity: Float[Tensor, "row column"]) -> Float[Tensor, " row"]:
    columns = activity.shape[1]
    if columns == 1:
        return torch.zeros_like(activity[:, 0])
    mean, square = activity.mean(dim=1), activity.square().mean(dim=1)
    ratio = torch.where(square > 0, mean.square() / square, 1.0)
    return ((1 - ratio) / (1 - 1 / columns)).clamp(0, 1)
