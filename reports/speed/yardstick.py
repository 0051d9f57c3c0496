"""Routing layers in the way of published PyTorch code: votes stored, one operation after another, under autograd.

They are what `measure.py` compares with. Each takes over the weights of a routebench layer and is the same function of
the same capsules; how it gets there is how the code that its docstring names does. Weights are kept in the order of
axes of that code, so that no yardstick pays for ours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from routebench.capsules import Capsules
from routebench.capsules.layers import CapsuleLayer, ConvCapsules, DenseCapsules
from routebench.ops import length, squash

TINY = 1e-10
"""What the authors of inverted attention add to a sum of coupling that is one already."""
EPSILON = 1e-8
"""Added to a mass before dividing by it."""


class Yardstick(CapsuleLayer, ABC):
    """A capsule layer that has its own order of axes in `weight`. Its other parameters come in the order of ours."""

    weight: nn.Parameter

    @abstractmethod
    def in_our_order(self, weight: Tensor) -> Tensor:
        """A tensor like `weight`, with axes as routebench has them: (child, parent, ...)."""


class Attention(Yardstick):
    """A layer of inverted attention, which can be stopped between iterations."""

    iterations: int

    @abstractmethod
    def iterate(self, children: Capsules, parents: Capsules | None) -> Capsules:
        """One iteration; parents are None in the first."""

    def forward(self, children: Capsules) -> Capsules:
        """All iterations."""
        parents = self.iterate(children, None)
        for _ in range(self.iterations - 1):
            parents = self.iterate(children, parents)
        return parents


class DenseDynamic(Yardstick):
    """Dynamic routing as in XifengGuo/CapsNet-Pytorch and danielhavir/capsule-network.

    Votes by a broadcast `matmul`, logits stored, softmax over parents. Those two stop the gradient at the votes of all
    iterations but the last; here it goes through, as in the authors' own code and in ours.
    """

    def __init__(self, layer: DenseCapsules):
        super().__init__()
        settings: Any = layer.routing
        self.iterations: int = settings.iterations
        self.weight = _parameter(layer.weight.permute(1, 0, 3, 2))  # parent, child, pose, pose in

    def in_our_order(self, weight: Tensor) -> Tensor:
        """From (parent, child, pose, pose in)."""
        return weight.permute(1, 0, 3, 2)

    def forward(self, children: Capsules) -> Capsules:
        """Sabour et al. 2017, Procedure 1."""
        below = children.flat().poses
        votes = torch.matmul(self.weight, below[:, None, :, :, None]).squeeze(-1)  # batch, parent, child, pose
        logits = below.new_zeros(votes.shape[:3])
        for iteration in range(self.iterations):
            coupling = logits.softmax(dim=1)  # over parents
            parents = squash((coupling[..., None] * votes).sum(dim=2, keepdim=True))
            if iteration < self.iterations - 1:
                logits = logits + (parents * votes).sum(dim=-1)
        poses = parents.squeeze(2)
        return Capsules(poses, length(poses))


class ConvAttention(Attention):
    """Inverted attention as in yaohungt/Capsules-Inverted-Attention-Routing: three-operand einsums over patches.

    `torch.einsum` multiplies from left to right, so that each of the two per iteration makes all votes, and autograd
    stores them. The second normalisation of the coupling, which changes nothing, is theirs.
    """

    def __init__(self, layer: ConvCapsules):
        super().__init__()
        settings: Any = layer.routing
        self.iterations: int = settings.iterations
        self.scale = 1 / math.sqrt(layer.pose) if settings.scale else 1.0
        self.kernel, self.stride, self.side = layer.windows.kernel, layer.windows.stride, math.isqrt(layer.pose)
        apart = layer.weight.unflatten(0, (self.kernel, self.kernel, layer.windows.types))
        self.weight = _parameter(apart.permute(0, 1, 2, 4, 5, 3))  # row, column, child type, pose, pose, parent type
        self.norm = _norm(settings.norm)

    def in_our_order(self, weight: Tensor) -> Tensor:
        """From (row, column, child type, pose, pose, parent type)."""
        return weight.permute(0, 1, 2, 5, 3, 4).flatten(0, 2)

    def iterate(self, children: Capsules, parents: Capsules | None) -> Capsules:
        """Tsai et al. 2020, Procedure 1.

        Letters: b image, n and m child and parent type, h w position, k l cell of a window, p q r pose.
        """
        patches = self._patches(children.poses)
        if parents is None:
            shape = (self.weight.shape[2], self.kernel, self.kernel, self.weight.shape[5])
            coupling = patches.new_zeros(shape).softmax(dim=3)
            total = torch.einsum("nklm,bnklhwpq,klnqrm->bmhwpr", coupling, patches, self.weight)
        else:
            above = parents.poses.permute(0, 3, 1, 2, 4).unflatten(-1, (self.side, self.side))
            agreement = torch.einsum("bnklhwpq,klnqrm,bmhwpr->bnklmhw", patches, self.weight, above)
            coupling = agreement.mul_(self.scale).softmax(dim=4)  # over parent types
            coupling = coupling / (coupling.sum(dim=4, keepdim=True) + TINY)
            total = torch.einsum("bnklmhw,bnklhwpq,klnqrm->bmhwpr", coupling, patches, self.weight)
        poses = self.norm(total.flatten(4)).permute(0, 2, 3, 1, 4)
        return Capsules(poses, poses.new_ones(poses.shape[:-1]))

    def _patches(self, poses: Tensor) -> Tensor:
        windows = poses.permute(0, 3, 1, 2, 4).unfold(2, self.kernel, self.stride).unfold(3, self.kernel, self.stride)
        return windows.permute(0, 1, 5, 6, 2, 3, 4).contiguous().unflatten(-1, (self.side, self.side))


class DenseAttention(Attention):
    """The dense layer of the same code: matrix poses, three-operand einsums."""

    def __init__(self, layer: DenseCapsules):
        super().__init__()
        settings: Any = layer.routing
        self.iterations: int = settings.iterations
        self.scale = 1 / math.sqrt(layer.pose) if settings.scale else 1.0
        self.side = math.isqrt(layer.pose)
        self.weight = _parameter(layer.weight.permute(0, 2, 3, 1))  # child, pose, pose, parent
        self.norm = _norm(settings.norm)

    def in_our_order(self, weight: Tensor) -> Tensor:
        """From (child, pose, pose, parent)."""
        return weight.permute(0, 3, 1, 2)

    def iterate(self, children: Capsules, parents: Capsules | None) -> Capsules:
        """As in `ConvAttention`. Letters: b image, n child, m parent, p q r pose."""
        below = children.flat().poses.unflatten(-1, (self.side, self.side))
        if parents is None:
            coupling = below.new_zeros(self.weight.shape[0], self.weight.shape[3]).softmax(dim=1)
            total = torch.einsum("nm,bnpq,nqrm->bmpr", coupling, below, self.weight)
        else:
            above = parents.poses.unflatten(-1, (self.side, self.side))
            agreement = torch.einsum("bnpq,nqrm,bmpr->bnm", below, self.weight, above)
            coupling = agreement.mul_(self.scale).softmax(dim=2)  # over parents
            coupling = coupling / (coupling.sum(dim=2, keepdim=True) + TINY)
            total = torch.einsum("bnm,bnpq,nqrm->bmpr", coupling, below, self.weight)
        poses = self.norm(total.flatten(2))
        return Capsules(poses, poses.new_ones(poses.shape[:-1]))


class ConvEM(Yardstick):
    """EM routing as in yl-1993/Matrix-Capsules-EM-PyTorch: poses and weights repeated for every vote, R stored.

    The structure is theirs, parents of one position competing. The formulas are those of the paper, which ours has too:
    that code divides the children's activations out again, takes lambda = 0.001 throughout and has another floor.
    """

    def __init__(self, layer: ConvCapsules):
        super().__init__()
        settings: Any = layer.routing
        if settings.competition != "types":
            raise ValueError(f"this yardstick has parents of one position compete, got {settings.competition!r}")
        self.iterations: int = settings.iterations
        self.inverse_temperature = settings.inverse_temperature
        self.variance_floor: float = settings.variance_floor
        self.kernel, self.stride, self.grid = layer.windows.kernel, layer.windows.stride, layer.windows.grid
        self.side = math.isqrt(layer.pose)
        self.weight = _parameter(layer.weight)
        self.beta_u, self.beta_a = _parameter(settings.beta_u), _parameter(settings.beta_a)

    def in_our_order(self, weight: Tensor) -> Tensor:
        """As it is."""
        return weight

    def forward(self, children: Capsules) -> Capsules:
        """Hinton et al. 2018, Procedure 1, with lanes = images x positions as the first axis."""
        images, parents = len(children.poses), self.weight.shape[1]
        seen = self._patches(children.poses.flatten(3)).unflatten(-1, (-1, self.side**2)).flatten(1, 3)
        present = self._patches(children.activations).flatten(1)[..., None]
        votes = self._votes(seen)
        assigned = torch.full_like(votes[..., 0], 1 / parents)
        for iteration in range(1, self.iterations + 1):
            activations, mean, variance = self._m_step(present * assigned, votes, iteration)
            if iteration < self.iterations:
                assigned = self._e_step(mean, variance, activations, votes)
        shape = (images, *self.grid, parents)
        return Capsules(mean.reshape(*shape, -1), activations.reshape(shape))

    def _patches(self, cells: Tensor) -> Tensor:
        """(image, height, width, feature) to (lane, row, column, feature)."""
        inside = torch.arange(self.kernel)
        rows, columns = (self.stride * torch.arange(count)[:, None] + inside for count in self.grid)
        return cells[:, rows][:, :, :, columns].permute(0, 1, 3, 2, 4, 5).contiguous().flatten(0, 2)

    def _votes(self, seen: Tensor) -> Tensor:
        """(lane, child, pose) to (lane, child, parent, pose)."""
        matrices = seen.unflatten(-1, (self.side, self.side))[:, :, None].repeat(1, 1, self.weight.shape[1], 1, 1)
        weight = self.weight[None].repeat(len(seen), 1, 1, 1, 1)
        return torch.matmul(matrices, weight).flatten(3)

    def _m_step(self, weighted: Tensor, votes: Tensor, iteration: int) -> tuple[Tensor, Tensor, Tensor]:
        mass = weighted.sum(dim=1, keepdim=True)
        share = (weighted / (mass + EPSILON))[..., None]
        mean = (share * votes).sum(dim=1, keepdim=True)
        variance = (share * (votes - mean) ** 2).sum(dim=1, keepdim=True) + self.variance_floor
        cost = (self.beta_u[:, None] + torch.log(variance.sqrt())) * mass[..., None]
        activations = torch.sigmoid(self.inverse_temperature(iteration) * (self.beta_a - cost.sum(dim=3)))
        return activations, mean, variance

    def _e_step(self, mean: Tensor, variance: Tensor, activations: Tensor, votes: Tensor) -> Tensor:
        by_element = -((votes - mean) ** 2) / (2 * variance) - torch.log(variance.sqrt()) - 0.5 * math.log(2 * math.pi)
        return (by_element.sum(dim=3) + torch.log(activations)).softmax(dim=2)  # over parent types


def concurrent(layers: Sequence[Attention], primary: Capsules) -> list[Capsules]:
    """The schedule of Tsai et al. 2020, Procedure 2: after the first iteration, all layers take their step at once."""
    found = [primary]
    for layer in layers:
        found.append(layer.iterate(found[-1], None))
    for _ in range(layers[0].iterations - 1):
        pairs = list(pairwise(found))
        found = [primary, *(layer.iterate(*pair) for layer, pair in zip(layers, pairs, strict=True))]
    return found


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """The gradient of every parameter by its number, with axes as routebench has them."""
    owners = {id(part.weight): part for part in module.modules() if isinstance(part, Yardstick)}
    found = {}
    for number, parameter in enumerate(module.parameters()):
        if parameter.grad is None:
            raise ValueError(f"parameter {number} of {type(module).__name__} has no gradient")
        owner = owners.get(id(parameter))
        found[f"parameter {number}"] = parameter.grad if owner is None else owner.in_our_order(parameter.grad)
    return found


def _parameter(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values.detach().clone(memory_format=torch.contiguous_format))


def _norm(norm: nn.LayerNorm) -> nn.LayerNorm:
    copied = nn.LayerNorm(norm.normalized_shape, eps=norm.eps)
    copied.load_state_dict(norm.state_dict())
    return copied
