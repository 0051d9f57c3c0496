"""Some of the images of a data set: of each part and class its share."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from routebench.data.dataset import SPLIT_SEED
from routebench.errors import UserError


def shares(sizes: Sequence[int], count: int, at_least: int = 0) -> list[int]:
    """Numbers to take of each group so that `count` are taken in all, each group giving its share.

    Shares are rounded down, and the groups with the largest remainders give one more. No group gives fewer than
    `at_least`, or than it has.

    Args:
        sizes: sizes of the groups; more than `count` in all.
        count: how many to take.
        at_least: smallest number of each group.

    Raises:
        UserError: `count` is too small for `at_least` of each group.
    """
    have = np.array(sizes)
    floor = np.minimum(have, at_least)
    if floor.sum() > count:
        least = f"at least {floor.sum():,} of {have.sum():,} images, so that no class is left out"
        raise UserError(f"expected to take {least}, got {count:,}")
    exact = count * have / have.sum()
    given = np.maximum(np.floor(exact).astype(int), floor)
    while given.sum() < count:
        given[np.argmax(np.where(given < have, exact - given, -np.inf))] += 1
    while given.sum() > count:
        given[np.argmax(np.where(given > floor, given - exact, -np.inf))] -= 1
    return [int(number) for number in given]


def some_of(
    labels: Int[Tensor, " image"] | Bool[Tensor, "image classes"], count: int, at_least: int = 0
) -> Int[Tensor, " taken"]:
    """Sorted numbers of `count` images, each class its share; the same on every machine and version.

    Args:
        labels: where an image may show several classes, each set of classes that occurs counts as one.
        count: how many to take, fewer than there are.
        at_least: smallest number of each class.

    Raises:
        UserError: as in `shares`.
    """
    groups = labels.numpy() if labels.ndim == 1 else np.unique(labels.numpy(), axis=0, return_inverse=True)[1].ravel()
    classes, sizes = np.unique(groups, return_counts=True)
    # The legacy generator: NumPy promises that its stream never changes (NEP 19), which `default_rng` does not.
    random = np.random.RandomState(SPLIT_SEED)
    shuffled = [random.permutation(np.flatnonzero(groups == label)) for label in classes]
    given = shares(sizes.tolist(), count, at_least)
    return torch.from_numpy(np.sort(np.concatenate([some[:size] for some, size in zip(shuffled, given, strict=True)])))
