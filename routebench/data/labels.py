"""Labels of items, and tensors as messages name them."""

import unicodedata
from collections import Counter

import numpy as np
import torch
from torch import Tensor

from routebench.errors import UserError

LABELS = (torch.int64, 1), (torch.bool, 2)
"""Type and axes of labels: a class for each item, or several."""


def expect_labels(labels: Tensor, count: int) -> None:
    """Looks whether labels fit their items.

    Args:
        labels: int64, (n,), or bool, (n, classes).
        count: number of items.

    Raises:
        UserError: they are of another type, shape or number.
    """
    if (labels.dtype, labels.ndim) not in LABELS or labels.shape[0] != count:
        raise UserError(
            f"expected labels as int64 ({count},), one per item, or as bool ({count}, classes) for several, got "
            f"{described(labels)}"
        )


def expect_classes(names: tuple[object, ...]) -> None:
    """Looks whether classes can be told apart by their names.

    Args:
        names: one for each class.

    Raises:
        UserError: there are none, one is empty, occurs twice, or steers terminals.
    """
    if not names:
        raise UserError("expected a name for each class, got none")
    for name, count in Counter(names).items():
        if not isinstance(name, str) or not name.strip() or any(unicodedata.category(one) == "Cc" for one in name):
            raise UserError(f"expected names of classes that can be read, got {name!r:.60}")
        if count > 1:
            raise UserError(f"expected names of classes that differ, got {name!r:.60} {count} times")


def one_label(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The places of items that have exactly one class, and its number for each of them.

    Args:
        labels: bool, (n, classes).
    """
    alone = (labels.sum(dim=1) == 1).nonzero()[:, 0]
    return alone, labels[alone].to(torch.int64).argmax(dim=1)


def expect_tensor(name: str, values: object) -> None:
    """Refuses NumPy arrays and lists, which have types of their own.

    Args:
        name: name of the argument, for the message.
        values: its value.

    Raises:
        UserError: it is no tensor.
    """
    if isinstance(values, np.ndarray):
        told = f"a NumPy array, {values.dtype} {values.shape}; torch.from_numpy(...) makes a tensor of it"
        raise UserError(f"{name}: expected a torch tensor, got {told}")
    if not isinstance(values, Tensor):
        told = f"{type(values).__name__}; torch.as_tensor(...) makes a tensor of numbers"
        raise UserError(f"{name}: expected a torch tensor, got {told}")
    if values.requires_grad or values.layout != torch.strided:
        told, way = (
            ("one with a gradient", "detach()") if values.requires_grad else (f"a {values.layout} one", "to_dense()")
        )
        raise UserError(f"{name}: expected a plain tensor, got {told}; take its {way}")


def described(tensor: Tensor) -> str:
    """Type and shape of a tensor, such as `uint8 (10, 1, 28, 28)`."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
