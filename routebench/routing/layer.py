"""Routing as a layer of one's own network: tensors in, tensors out."""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from routebench.arguments import Count
from routebench.capsules import Capsules
from routebench.capsules.layers import DenseCapsules
from routebench.given import checked
from routebench.routing.make import factory


class RoutingLayer(nn.Module):
    """Children vote for parents by learned matrices, and a routing method weighs the votes.

    Children are whatever a network gives: tokens of a transformer, places of a grid, parts of an object. They run with
    their own numbers as poses.

    Args:
        method: name of a registered routing method.
        children: number of children; the most, where a mask leaves some out.
        parents: number of parents.
        pose_in: numbers of a child.
        pose: numbers of a parent.
        shared: one matrix for each parent, used by all children, so that their order does not matter; else one for each
            pair of a child and a parent.
        weight_std: standard deviation of the initial matrices; None for the square root of parents / (pose_in x
            children), with which totals of equal shares are as large as children.
        hyperparameters: those of the method, such as `iterations`.

    Raises:
        UserError: there is no such method, or a hyperparameter is not legal.
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
        weight_std: float | None = None,
        **hyperparameters: Any,
    ):
        super().__init__()
        made = factory(method, **hyperparameters)
        below = (children, 1, 1)
        self.layer = DenseCapsules(below, parents, pose_in, pose, made, share=shared, weight_std=weight_std)

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
            mask: the children that are there; None for all. What stands in the others does not matter.
            activations: how present each child is, 0 to 1; None for 1. Some methods weigh children by it.

        Raises:
            ValueError: shapes are others than the layer was made for, or the method takes no mask.
        """
        below: Capsules = self.layer(_on_column(poses, mask, activations))
        return below


def _on_column(poses: Tensor, mask: Tensor | None, activations: Tensor | None) -> Capsules:
    present = poses.new_ones(poses.shape[:2]) if activations is None else activations
    there = None if mask is None else mask[:, :, None, None]
    return Capsules(poses[:, :, None, None], present[:, :, None, None], mask=there)
