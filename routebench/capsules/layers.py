"""Primary, dense and convolutional capsule layers. A layer owns the weights of its votes and a routing method."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from routebench.arguments import Count, Legal, Positive
from routebench.capsules.coordinates import Coordinates
from routebench.capsules.population import Capsules, Sizes
from routebench.capsules.precision import single_precision
from routebench.capsules.votes import Votes
from routebench.kernels import Convolution, is_transformed
from routebench.ops import ABSENT, Competition, Windows, length, squash

COUNT, POSITIVE = Legal.of(Count), Legal.of(Positive)


@runtime_checkable
class RoutedCapsules(Protocol):
    """Fields that a layer reads of routing's answer; `routebench.routing.Routed` is one."""

    @property
    def poses(self) -> Tensor:
        """(lane, parent, pose)."""

    @property
    def activations(self) -> Tensor | None:
        """(lane, parent)."""

    @property
    def logits(self) -> Tensor | None:
        """(lane, parent)."""

    @property
    def loss(self) -> Tensor | None:
        """(lane,)."""


@runtime_checkable
class Routing(Protocol):
    """Methods that a layer asks of its routing method; `routebench.routing.RoutingMethod` is one."""

    sizes: Sizes
    competition: str
    orphan: bool
    gives_activations: bool
    uses_activations: bool
    layer: int
    layers: int
    schedule: str

    def __call__(self, votes: Votes, activations: Tensor) -> RoutedCapsules:
        """Parents from votes and child activations."""


Answer = TypeVar("Answer", bound=RoutedCapsules)
MakeRouting = Callable[[Sizes], Routing]
"""Makes a layer's routing method from the sizes of its problem."""


class PrimaryCapsules(nn.Module):
    """The first capsules of a network, by a convolution from feature maps.

    The pose of a capsule is made of channels at one position, not of positions of one channel: reshaping
    (channel, row, column) straight to (capsule, pose) would mix them.

    Args:
        channels: feature maps that come in.
        types: capsule types at each position.
        pose: elements of a pose.
        kernel, stride: size and step of the convolution's window.
        presence: how activations arise. `length`: poses are squashed and their length is the activation (Sabour et
            al. 2017). `logistic`: one more channel per type goes through a sigmoid (Hinton et al. 2018). `none`: poses
            are layer-normalised and activations are 1 (Tsai et al. 2020).
        bias: give the convolution a bias.
        layer_norm: normalise poses with `logistic`, too.
        batch_norm: with `logistic`, normalise every channel of the convolution over the batch and all positions, with
            a gain and a bias (Hahn et al. 2019).
    """

    def __init__(
        self,
        channels: int,
        types: int,
        pose: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        presence: str = "length",
        bias: bool = True,
        layer_norm: bool = False,
        batch_norm: bool = False,
    ):
        super().__init__()
        if presence not in ("length", "logistic", "none"):
            raise ValueError(f"presence must be one of length, logistic, none, got {presence!r}")
        if layer_norm and presence == "length":
            raise ValueError("layer_norm would undo the length of poses, which presence 'length' reads")
        if batch_norm and presence != "logistic":
            raise ValueError(f"batch_norm needs the presence logistic, got {presence!r}")
        self.types, self.pose, self.presence = types, pose, presence
        width = types * (pose + 1) if presence == "logistic" else types * pose
        self.convolution = Convolution(channels, width, kernel, stride, bias=bias)
        self.batch_norm = nn.BatchNorm2d(width) if batch_norm else nn.Identity()
        self.norm = nn.LayerNorm(pose) if layer_norm or presence == "none" else nn.Identity()

    def forward(self, features: Float[Tensor, "batch channel height width"]) -> Capsules:
        """Capsules on the grid of the convolution's output."""
        if self.convolution.kernel_size == (1, 1) and not is_transformed():  # vmap knows no layout
            # a matrix product: rearrange its few channels, not all poses
            features = features.contiguous(memory_format=torch.channels_last)
        maps = self.batch_norm(self.convolution(features))
        return self.of_maps(maps.permute(0, 2, 3, 1))  # channels last: they become types and poses

    def of_maps(self, maps: Any) -> Capsules:
        """Capsules from the numbers of each place.

        Args:
            maps: what the convolution gives, (batch, height, width, channel).
        """
        if self.presence == "logistic":
            maps, logits = maps.split([self.types * self.pose, self.types], dim=-1)
            return Capsules(self.norm(maps.unflatten(-1, (self.types, self.pose))), logits.sigmoid())
        poses = maps.unflatten(-1, (self.types, self.pose))
        if self.presence == "none":
            return Capsules(self.norm(poses), poses.new_ones(poses.shape[:-1]))
        poses = squash(poses)
        return Capsules(poses, length(poses))


class CapsuleLayer(nn.Module):
    """The common work of dense and convolutional layers: votes are made, routed, and become the layer's capsules."""

    routing: Routing
    below: tuple[int, int, int] | int
    """Capsules that are expected below: (height, width, types) of a grid, or their number."""

    def votes(self, children: Capsules) -> tuple[Votes, Float[Tensor, "lane child"]]:
        """The votes of the layer below, and its activations as each lane sees them."""
        raise NotImplementedError

    def capsules(self, routed: RoutedCapsules, below: Capsules) -> Capsules:
        """The capsules of a layer from what routing returned; without activations every parent is present.

        Args:
            routed: the parents, by lane.
            below: the capsules that the layer read.
        """
        raise NotImplementedError

    def forward(self, children: Capsules) -> Capsules:
        """One layer's routing, from beginning to end."""
        return self.update(children, self.routing)[1]

    def update(self, children: Capsules, route: Callable[[Votes, Tensor], Answer]) -> tuple[Answer, Capsules]:
        """Makes votes and routes them, by one iteration or all, in single precision even under autocast.

        Args:
            children: the layer below.
            route: a routing method, or one iteration of it.

        Returns:
            what `route` returned, and the capsules of this layer.
        """
        self._check(children)
        with single_precision(children) as given:
            votes, activations = self.votes(given)
            routed = route(votes, activations)
            return routed, self.capsules(routed, given)

    def _check(self, children: Any) -> None:
        """Raises TypeError for what are no capsules, and ValueError for capsules of other sizes than the layer has."""
        name, method = type(self).__name__, self.routing
        if not isinstance(children, Capsules):
            found = type(children).__name__ + (
                f" of shape {tuple(children.shape)}" if isinstance(children, Tensor) else ""
            )
            raise TypeError(f"{name}: expected Capsules(poses, activations), got {found}")
        if children.mask is not None and isinstance(self, ConvCapsules):
            raise ValueError(f"{name}: expected a dense layer for capsules with a mask, got a convolutional one")
        if children.mask is not None and not getattr(method, "masks", False):
            found = type(method).__name__
            raise ValueError(f"{name}: expected capsules without a mask, got one, and {found} does not claim PADDING")
        *place, pose = children.poses.shape[1:]
        if pose != method.sizes.pose_below:
            raise ValueError(f"{name}: expected children with poses of {method.sizes.pose_below} elements, got {pose}")
        grid = self.below if isinstance(self.below, tuple) else None
        if grid is not None and children.on_grid and tuple(place) != grid:
            raise ValueError(f"{name}: expected a grid of {grid} (height, width, types) below, got {tuple(place)}")
        count = self.below if isinstance(self.below, int) else math.prod(self.below)
        if math.prod(place) != count:
            raise ValueError(f"{name}: expected {count} capsules below, got {math.prod(place)}")
        if method.uses_activations and not children.has_activations:
            reason = f"{type(method).__name__} weights children by their activations"
            raise ValueError(f"{name}: expected Capsules(poses, activations), got poses alone, but {reason}")


class DenseCapsules(CapsuleLayer):
    """Capsules that see every capsule below.

    Args:
        children: capsules below: a number, or (height, width, types) of a grid.
        parents: capsules of this layer.
        pose_in, pose: elements of a child's and of a parent's pose.
        routing: makes the routing method.
        matrix: poses are square matrices, and weights act on them from the right.
        share: positions of one type share weights; needs `children` as a grid.
        coordinates: what is added to the votes of a child for its place (Hinton et al. 2018, section 4); a number is
            the scale by which the centre of its cell, measured from the centre of the grid in cells, is added to two
            elements (row to element P - 1, column to 2P - 1 of a P x P pose); None for nothing.
        weight_std: standard deviation of the initial weights; None for sqrt(parents / (fan x children)) with fan = P
            for matrices and the child's pose for vectors, as in the code of Tsai et al. 2020.
    """

    def __init__(
        self,
        children: int | tuple[int, int, int],
        parents: int,
        pose_in: int,
        pose: int,
        routing: MakeRouting,
        *,
        matrix: bool = False,
        share: bool = False,
        coordinates: Coordinates | float | None = None,
        weight_std: float | None = None,
    ):
        super().__init__()
        self.below = _below(children)
        if (share or coordinates is not None) and isinstance(self.below, int):
            raise ValueError("share and coordinates need children as (height, width, types), got a number")
        self.grid = (1, 1, self.below) if isinstance(self.below, int) else self.below
        self.parents, self.pose, self.share = parents, pose, share
        grid = None if isinstance(self.below, int) else self.below
        sizes = Sizes(math.prod(self.grid), parents, pose, COUNT.take("pose_in", pose_in), grid)
        self.weight = _weights(self.grid[2] if share else sizes.children, sizes, matrix, weight_std)
        self.routing = _made(routing, sizes)
        if isinstance(coordinates, float | int):
            coordinates = _from_centre(self.grid, pose, coordinates)
        offset = None if coordinates is None else coordinates.offset(self.grid[2], pose)
        self.register_buffer("offset", offset, persistent=False)
        self.offset: Tensor | None

    def votes(self, children: Capsules) -> tuple[Votes, Tensor]:
        """Lanes are images."""
        flat = children.flat()
        poses, there, present = flat.poses, flat.activations, flat.mask
        if present is not None:
            poses, there = poses.masked_fill(~present[..., None], 0), there.masked_fill(~present, 0)
            present = present | ~present.any(dim=1, keepdim=True)  # of none, all are zero: methods divide by a number
        competition = Competition(self.routing.competition, orphan=self.routing.orphan, present=present)
        return Votes(poses, self.weight, competition, offset=self.offset), there

    def capsules(self, routed: RoutedCapsules, below: Capsules) -> Capsules:
        """(batch, parent, pose), of zero where there is nothing below."""
        poses, present, logits, loss = routed.poses, _present(routed), routed.logits, routed.loss
        if below.mask is not None:
            empty = ~below.mask.flatten(1).any(dim=1)
            poses, present = poses.masked_fill(empty[:, None, None], 0), present.masked_fill(empty[:, None], 0)
            logits = None if logits is None else logits.masked_fill(empty[:, None], ABSENT)
            loss = None if loss is None else loss.masked_fill(empty, 0)
        return Capsules(poses, present, logits, _mean(loss))


class ConvCapsules(CapsuleLayer):
    """Capsules on a grid, each of which sees the capsules in a window below; weights are shared over positions.

    Args:
        grid: (height, width, types) below.
        types: capsule types of this layer.
        pose_in, pose: elements of a child's and of a parent's pose.
        routing: makes the routing method.
        kernel, stride: size and step of the windows; no padding.
        matrix: poses are square matrices.
        weight_std: as in `DenseCapsules`, where the children of one window count.
    """

    def __init__(
        self,
        grid: tuple[int, int, int],
        types: int,
        pose_in: int,
        pose: int,
        routing: MakeRouting,
        *,
        kernel: int = 3,
        stride: int = 1,
        matrix: bool = False,
        weight_std: float | None = None,
    ):
        super().__init__()
        self.below = grid = _grid(grid)
        if min(grid[:2]) < kernel:
            raise ValueError(f"expected a grid of at least {kernel} x {kernel} children, got {grid[0]} x {grid[1]}")
        self.windows = Windows(grid[0], grid[1], kernel, stride, grid[2])
        self.types, self.pose = types, pose
        sizes = Sizes(self.windows.seen, types, pose, COUNT.take("pose_in", pose_in), (kernel, kernel, grid[2]))
        self.weight = _weights(sizes.children, sizes, matrix, weight_std)
        self.routing = _made(routing, sizes)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Height, width and types of this layer."""
        return (*self.windows.grid, self.types)

    def votes(self, children: Capsules) -> tuple[Votes, Tensor]:
        """Lanes are images x positions, positions fastest; children of a window run by row, column, type."""
        flat = children.flat()
        competition = Competition(self.routing.competition, windows=self.windows, orphan=self.routing.orphan)
        return Votes(flat.poses, self.weight, competition), self.windows.gather(flat.activations)

    def capsules(self, routed: RoutedCapsules, below: Capsules) -> Capsules:
        """(batch, height, width, type, pose)."""
        shape = (below.poses.shape[0], *self.windows.grid, self.types)
        logits = None if routed.logits is None else routed.logits.reshape(shape)
        poses, present = routed.poses.reshape(*shape, self.pose), _present(routed).reshape(shape)
        return Capsules(poses, present, logits, _mean(routed.loss))


def _present(routed: RoutedCapsules) -> Tensor:
    return routed.poses.new_ones(routed.poses.shape[:-1]) if routed.activations is None else routed.activations


def _mean(loss: Tensor | None) -> Tensor | None:
    return None if loss is None else loss.mean()


def _weights(owners: int, sizes: Sizes, matrix: bool, std: float | None) -> nn.Parameter:
    """Initial weights, (owner, parent, pose in, pose out) or (owner, parent, P, P)."""
    block, fan = _block(sizes.pose_below, sizes.pose, matrix)
    std = math.sqrt(sizes.parents / (fan * sizes.children)) if std is None else POSITIVE.take("weight_std", std)
    drawn = torch.randn(owners, sizes.parents, *block)
    return nn.Parameter(drawn.mul_(std))  # in place: the product of a tensor on `meta` has torch import its compiler


def _below(children: Any) -> tuple[int, int, int] | int:
    """A number or a grid, in Python's own integers."""
    return int(children) if isinstance(children, Integral) else _grid(children)


def _grid(sizes: Any) -> tuple[int, int, int]:
    height, width, types = map(int, sizes)
    return height, width, types


def _made(routing: Any, sizes: Sizes) -> Routing:
    """The routing method. Raises TypeError for what makes none, such as a name or a method that is made already."""
    if isinstance(routing, str | nn.Module) or not callable(routing):
        found = repr(routing) if isinstance(routing, str) else f"an instance of {type(routing).__name__}"
        raise TypeError(f"expected routing such as routebench.routing.factory('dynamic'), got {found}")
    made: Routing = routing(sizes)
    return made


def _block(pose_in: int, pose: int, matrix: bool) -> tuple[tuple[int, int], int]:
    """Shape of one child-parent weight, and its fan: how many products add up to one element of a vote."""
    if not matrix:
        return (pose_in, pose), pose_in
    side = math.isqrt(pose)
    if side * side != pose or pose_in != pose:
        raise ValueError(f"matrix poses need one square number of elements below and above, got {pose_in} and {pose}")
    return (side, side), side


def _from_centre(grid: tuple[int, int, int], pose: int, scale: float) -> Coordinates:
    height, width, _ = grid
    side = math.isqrt(pose)
    rows = scale * (torch.arange(height) - (height - 1) / 2)
    columns = scale * (torch.arange(width) - (width - 1) / 2)
    return Coordinates(rows, columns, (side - 1, 2 * side - 1))  # last column of the matrix, first and second row
