"""Random sweeps of every kind that methods use, and how far a kernel is from the reference on them."""

from dataclasses import replace

import torch

from routebench.kernels import Sweep, reference
from routebench.kernels.sweep import INPUTS
from routebench.kernels.trust import differences, evaluate
from routebench.ops import Competition, Windows

KINDS = ("uniform", "uniform about a centre", "query", "query, two moments", "Gaussian")
POSES = {"vectors": (8, 16, 0), "odd vectors": (3, 5, 0), "matrices": (16, 16, 4), "odd matrices": (9, 9, 3)}
"""Elements of a child's pose and of a vote, and the side of matrices."""


def random_sweep(
    kind="query",
    poses="odd vectors",
    *,
    images=5,
    children=6,
    parents=4,
    windows=None,
    axis="types",
    orphan=False,
    offset=False,
    constant=False,
    scale=1.0,
    absent=False,
):
    """A sweep in single precision. In a convolutional layer, `windows` says how many children there are.

    With `absent`, every third child of every image is not there.
    """
    child_pose, pose, side = POSES[poses]
    cells, seen = (children, children) if windows is None else (windows.cells, windows.seen)
    lanes = images * (1 if windows is None else windows.positions)
    block = (side, side) if side else (child_pose, pose)
    like_parents = (lanes, parents, pose)
    there = (torch.arange(cells) + torch.arange(images)[:, None]) % 3 > 0
    weights = {"weights": torch.rand(lanes, seen)}
    given = {
        "uniform": weights,
        "uniform about a centre": {"centre": torch.randn(like_parents), **weights, "moments": 2},
        "query": {"query": torch.randn(like_parents)},
        "query, two moments": {"query": torch.randn(like_parents), **weights, "moments": 2},
        "Gaussian": {
            "curvature": torch.rand(like_parents) + 0.1,
            "bias": torch.randn(lanes, parents),
            "centre": torch.randn(like_parents),
            **weights,
            "moments": 2,
        },
    }[kind]
    return Sweep(
        scale * 0.5 * torch.randn(images, cells, child_pose),
        0.4 * torch.randn(seen, parents, *block),
        Competition(axis, windows=windows, orphan=orphan, present=there if absent else None),
        torch.randn(seen, pose) if offset else None,
        constant_coupling=constant,
        **given,
    )


def leaves(given, dtype=None):
    """The sweep with tensors of its own that want gradients."""
    found = {name: value for name in INPUTS if (value := getattr(given, name)) is not None}
    own = {name: value.detach().to(dtype or value.dtype, copy=True).requires_grad_() for name, value in found.items()}
    return replace(given, **own)


def largest_error(kernel, given):
    """In sums and all gradients, from the stored votes in double precision; a share of each tensor's largest value."""
    exact = evaluate(reference.dense, leaves(given, torch.float64))
    return max(differences(evaluate(kernel, leaves(given)), exact))


SMALL_GRID = Windows(5, 4, 3, 1, 3)
STRIDED_GRID = Windows(6, 6, 2, 2, 2)
UNEVEN_GRID = Windows(7, 5, 3, 2, 3)
"""Cells that one, two or four positions see."""
