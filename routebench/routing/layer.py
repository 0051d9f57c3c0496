"""Routing as a layer of one's own network: tensors in, tensors out."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from routebench.arguments import Count, Positive
from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.capsules.precision import SHORT, under_autocast
from routebench.given import checked
from routebench.routing.make import factory


class RoutingLayer(nn.Module):
    """Children vote for parents by learned matrices, and a routing method weighs the votes.

    Children are whatever a network gives: tokens of a transformer, places of a grid, parts of an object. They run with
    their own numbers as poses. It computes in single or double precision, that of its weights (`layer.double()`); under
    autocast in single precision, also from children of 16 bits.

    Args:
        method: name of a registered routing method.
        children: number of children; the most, where a mask leaves some out: items with fewer are padded.
        parents: number of parents.
        pose_in: numbers of a child.
        pose: numbers of a parent.
        shared: one matrix for each parent, used by all children, so that their order does not matter; else one for each
            pair of a child and a parent.
        weight_std: standard deviation of the initial matrices; None for the square root of parents / (pose_in x
            children), with which totals of equal shares are as large as children.
        hyperparameters: those of the method, such as `iterations`.

    Raises:
        UserError: there is no such method, or a size or a hyperparameter is not legal.
    """

    @checked
    def __init__(
        self,
        method: str,
        children: Count,
        parents: Count,
        pose_in: Count,
        pose: Count,
        *,
        shared: bool = False,
        weight_std: Positive | None = None,
        **hyperparameters: Any,
    ):
        super().__init__()
        made = factory(method, **hyperparameters)
        self.layer = DenseCapsules((children, 1, 1), parents, pose_in, pose, made, share=shared, weight_std=weight_std)

    def forward(
        self,
        poses: Float[Tensor, "batch child pose_in"],
        mask: Bool[Tensor, "batch child"] | None = None,
        *,
        activations: Float[Tensor, "batch child"] | None = None,
    ) -> Float[Tensor, "batch parent pose"]:
        """Poses of the parents; arguments as for `capsules`."""
        return self.capsules(poses, mask, activations=activations).poses

    def capsules(
        self,
        poses: Float[Tensor, "batch child pose_in"],
        mask: Bool[Tensor, "batch child"] | None = None,
        *,
        activations: Float[Tensor, "batch child"] | None = None,
    ) -> Capsules:
        """The parents with activations, and their logits where the method has them.

        Args:
            poses: the children.
            mask: true for the children that are there; None for all. What stands in the others does not matter. An item
                without any has parents with poses and activations of zero, and gives no gradient.
            activations: how present each child is, 0 to 1; None for 1. Some methods weigh children by it. Values are
                not looked at, as a GPU would have to be waited for: others give numbers without meaning.

        Raises:
            TypeError: one is no tensor.
            ValueError: shapes or types of numbers are others than the layer was made for, or the method takes no mask.
        """
        self._check(poses, mask, activations)
        present = poses.new_ones(poses.shape[:2]) if activations is None else activations
        there = None if mask is None else mask[:, :, None, None]
        parents: Capsules = self.layer(Capsules(poses[:, :, None, None], present[:, :, None, None], mask=there))
        return parents

    def _check(self, poses: Any, mask: Any, activations: Any) -> None:
        """Raises TypeError or ValueError for what `capsules` does not take."""
        kinds: tuple[torch.dtype, ...] = (self.layer.weight.dtype,)
        if kinds[0] not in (torch.float32, torch.float64):
            raise ValueError(
                f"RoutingLayer: expected weights in float32 or float64, got {_words(kinds)}; keep this layer in "
                "float32 (`layer.float()`), and use torch.autocast for the others"
            )
        if isinstance(poses, Tensor) and kinds[0] == torch.float32 and under_autocast(poses.device.type):
            kinds += SHORT
        sizes = self.layer.routing.sizes
        _expect("poses", poses, (None, sizes.children, sizes.pose_below), kinds)
        if activations is not None:
            _expect("activations", activations, (len(poses), sizes.children), kinds)
        if mask is not None:
            _expect("mask", mask, (len(poses), sizes.children), (torch.bool,))


def _expect(name: str, given: Any, shape: tuple[int | None, ...], kinds: Sequence[torch.dtype]) -> None:
    known = ", ".join("batch" if size is None else str(size) for size in shape)
    expected = f"RoutingLayer: expected {name} as a tensor ({known}) in {_words(kinds)}"
    if not isinstance(given, Tensor):
        raise TypeError(f"{expected}, got {type(given).__name__}")
    found = f"got {tuple(given.shape)} in {_words([given.dtype])}"
    if given.ndim != len(shape) or not all(one in (None, size) for one, size in zip(shape, given.shape, strict=True)):
        hint = (
            "; pad items with fewer children, and give a mask" if name == "poses" and given.ndim == len(shape) else ""
        )
        raise ValueError(f"{expected}, {found}{hint}")
    if given.dtype not in kinds:
        hint = "true where a child is there" if name == "mask" else f"convert it with .to(torch.{_words(kinds[:1])})"
        raise ValueError(f"{expected}, {found}; {hint}")


def _words(kinds: Sequence[torch.dtype]) -> str:
    return " or ".join(str(kind).removeprefix("torch.") for kind in kinds)
