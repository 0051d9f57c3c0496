"""The distribution of parts given objects: which object a part belongs to, whether it is present, and where."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional

from routebench.arguments import Count, NonNegative, Positive, checked

from ..affine_poses import after
from .concrete import concrete_log_density, concrete_sample

POSE = 6
"""Numbers of an affine pose: the two upper rows of its matrix, concatenated."""


@dataclass(frozen=True)
class Layer:
    """The capsules of one layer for a batch of images.

    Args:
        presences: logits of presences.
        poses: deviations A from the identity: the pose itself is I + A.
    """

    presences: Float[Tensor, "batch capsule"]
    poses: Float[Tensor, "batch capsule 6"]


class PartWhole(nn.Module):
    """The distribution of parts given objects; the choice of object is marginalised.

    A part j belongs to one object i, with probability in proportion to `rho_ij t_i`, or to none: object 0 here stands
    for clutter, is always on and has a fixed rho. It is then there with probability `gamma_ij`, and if it is, its pose
    is normal about `(I + A_i) M_ij`; if not, about the identity with a large deviation.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", equations 3 to 6 and 9. The mean of the
    deviation A_j is printed there without `- I`; it is meant. What the paper leaves open is an argument here.

    Args:
        objects, parts: how many capsules there are.
        temperature: temperature of relaxed presences; theirs is 1.
        least_deviation: lower limit of c_ij, without which the density has no upper bound; theirs is 0.1.
        clutter_affinity: rho of the dummy object. Not given, said to matter little; small beside the others, which
            start at 1.
        clutter_deviation: deviation of poses of clutter; "large", 1 is that of objects.
        off_deviation: deviation of poses of parts that are not there; not given, said to matter little.
        switch: distribution of a pose for a presence t between off and on, which the paper leaves open. `geometric`:
            `N_on^t N_off^(1-t)`, which is linear in t in the log and integrates to at most 1. `arithmetic`: `t N_on +
            (1-t) N_off`, which integrates to 1, and lets a part that is mostly off go anywhere. `anywhere`: `N_on^t
            N_off(0)^(1-t)`: a part that is off may be anywhere at no cost, as if its pose were marginalised. It needs
            point estimates of poses, which then count as known to within `off_deviation`.
        part_size: size of parts in their object when training starts, as a share of the canvas.
        speed: factor by which learned numbers are stored larger than they are, so that Adam, whose steps have one size
            for all parameters, moves them more slowly than weights.
    """

    @checked
    def __init__(
        self,
        objects: Count,
        parts: Count,
        *,
        temperature: Positive = 1.0,
        least_deviation: NonNegative = 0.1,
        clutter_affinity: Positive = 0.1,
        clutter_deviation: Positive = 1.0,
        off_deviation: Positive = 1.0,
        switch: Literal["geometric", "arithmetic", "anywhere"] = "geometric",
        part_size: Positive = 0.5,
        speed: Positive = 1.0,
    ):
        super().__init__()
        self.temperature, self.least_deviation, self.switch = temperature, least_deviation, switch
        self.clutter_affinity, self.clutter_deviation = clutter_affinity, clutter_deviation
        self.off_deviation, self.speed = off_deviation, speed
        self.raw_offsets = nn.Parameter(_start_of_offsets(objects, parts, part_size) / speed)
        self.raw_affinity = nn.Parameter(torch.full((objects, parts), math.log(math.e - 1) / speed))  # softplus is 1
        self.raw_log_odds = nn.Parameter(torch.zeros(objects + 1, parts))
        self.raw_deviation = nn.Parameter(torch.full((objects, parts), -1.0 / speed))

    @property
    def offsets(self) -> Float[Tensor, "object part 6"]:
        """M_ij, as deviations from the identity."""
        return self.speed * self.raw_offsets

    @property
    def log_odds(self) -> Float[Tensor, "choice part"]:
        """Log odds of gamma_ij, clutter first."""
        return self.speed * self.raw_log_odds

    @property
    def deviations(self) -> Float[Tensor, "object part"]:
        """c_ij, as a standard deviation, at least `least_deviation`."""
        return self.least_deviation + functional.softplus(self.speed * self.raw_deviation)

    def expected_poses(self, objects: Float[Tensor, "batch object 6"]) -> Float[Tensor, "batch object part 6"]:
        """Poses in which each object puts each part: `(I + A_i) M_ij - I`."""
        return as_deviation(after(as_matrix(objects)[:, :, None], as_matrix(self.offsets)))

    def selection(self, presences: Float[Tensor, "batch object"]) -> Float[Tensor, "batch choice part"]:
        """The log probability of each part to belong to each object, clutter first."""
        of_objects = (
            functional.softplus(self.speed * self.raw_affinity).log() + functional.logsigmoid(presences)[:, :, None]
        )
        clutter = torch.full_like(of_objects[:, :1], math.log(self.clutter_affinity))
        return torch.cat([clutter, of_objects], dim=1).log_softmax(dim=1)

    def joint(self, objects: Layer, parts: Layer) -> Float[Tensor, "batch choice part"]:
        """log p(t_j, A_j, s_j = i | objects) in nats, clutter first.

        Args:
            objects, parts: capsules of both layers.
        """
        there = concrete_log_density(parts.presences[:, None], self.log_odds, self.temperature)
        return self.selection(objects.presences) + there + self.log_density_of_poses(objects, parts)

    def log_density(self, objects: Layer, parts: Layer) -> Float[Tensor, " batch"]:
        """log p(t_1.., A_1.. | objects) in nats, with the choice of objects marginalised.

        Args:
            objects, parts: capsules of both layers.
        """
        return self.joint(objects, parts).logsumexp(dim=1).sum(dim=1)

    def responsibilities(self, objects: Layer, parts: Layer) -> Float[Tensor, "batch choice part"]:
        """The posterior probability of each part to belong to each object, clutter first; appendix D.

        Args:
            objects, parts: capsules of both layers.
        """
        return self.joint(objects, parts).softmax(dim=1)

    def sample(self, objects: Layer, generator: Generator) -> Layer:
        """Samples parts: chooses an object for each part, then draws its presence and its pose.

        Args:
            objects: capsules of the upper layer.
            generator: a generator on their device.
        """
        choice = self.selection(objects.presences).exp().movedim(1, -1)  # b j i+1
        chosen = torch.multinomial(choice.flatten(0, 1), 1, generator=generator).view(choice.shape[:2])  # b j
        each = torch.arange(choice.shape[1], device=chosen.device)
        presences = concrete_sample(self.log_odds[chosen, each], self.temperature, generator)
        expected = self.expected_poses(objects.poses)  # b i j 6
        means = torch.cat([torch.zeros_like(expected[:, :1]), expected], dim=1)
        mean = means.gather(1, chosen[:, None, :, None].expand(-1, 1, -1, POSE))[:, 0]
        clutter = torch.full_like(self.deviations[:1], self.clutter_deviation)
        deviation = torch.cat([clutter, self.deviations])[chosen, each]
        noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
        return Layer(presences, mean + deviation[..., None] * noise)

    def log_density_of_poses(self, objects: Layer, parts: Layer) -> Float[Tensor, "batch choice part"]:
        """log p(A_j | t_j, s_j = i, objects) in nats, clutter first; equations 5 and 6.

        Args:
            objects, parts: capsules of both layers.
        """
        away = parts.poses[:, None] - self.expected_poses(objects.poses)  # b i j 6
        of_objects = normal_log_density(away.square().sum(dim=-1), self.deviations)
        from_identity = parts.poses.square().sum(dim=-1)[:, None]  # b 1 j
        clutter = normal_log_density(from_identity, self.clutter_deviation)
        on = torch.cat([clutter, of_objects], dim=1)
        off = log_density_off(from_identity, self.off_deviation, self.switch)
        logits = parts.presences[:, None]
        return switched(logits, on, off, self.switch)


def log_density_off(squares: Tensor, deviation: float, switch: str) -> Tensor:
    """Log density of the poses of parts that are off, in nats, from the sums of their squares.

    Args:
        squares: sums over the numbers of each pose.
        deviation: standard deviation of these numbers.
        switch: as for `PartWhole`; with `anywhere`, all poses have the density of 0.
    """
    return normal_log_density(torch.zeros_like(squares) if switch == "anywhere" else squares, deviation)


def switched(logits: Tensor, on: Tensor, off: Tensor, switch: str) -> Tensor:
    """The log density of poses, in nats, between on and off by the logits of their parts' presences.

    Args:
        logits: logits of presences; all three tensors are broadcast.
        on, off: log densities of the poses of parts that are there, and of those that are not, in nats.
        switch: as for `PartWhole`.
    """
    if switch == "arithmetic":
        return torch.logaddexp(functional.logsigmoid(logits) + on, functional.logsigmoid(-logits) + off)
    there = logits.sigmoid()
    return there * on + (1 - there) * off


def normal_log_density(squares: Tensor, deviation: Tensor | float, size: int = POSE) -> Tensor:
    """Log density of independent normal numbers of one standard deviation, from the sum of their squares, in nats.

    Args:
        squares: sums over the numbers.
        deviation: broadcast against the sums.
        size: how many numbers there are.
    """
    log_deviation = deviation.log() if isinstance(deviation, Tensor) else math.log(deviation)
    return -0.5 * squares / deviation**2 - size * (log_deviation + 0.5 * math.log(2 * math.pi))


def as_matrix(deviation: Float[Tensor, "*axes 6"]) -> Float[Tensor, "*axes 2 3"]:
    """The affine pose I + A, without its last row."""
    rows: Tensor = rearrange(deviation, "... (row column) -> ... row column", row=2)
    return rows + torch.eye(2, 3, device=deviation.device, dtype=deviation.dtype)


def as_deviation(matrix: Float[Tensor, "*axes 2 3"]) -> Float[Tensor, "*axes 6"]:
    """The inverse of `as_matrix`."""
    return (matrix - torch.eye(2, 3, device=matrix.device, dtype=matrix.dtype)).flatten(-2)


def _start_of_offsets(objects: int, parts: int, size: float) -> Float[Tensor, "object part 6"]:
    """Random parts of one size, nearly upright, on the inner half of the object's frame."""
    linear = size * torch.eye(2) + 0.1 * torch.randn(objects, parts, 2, 2)
    place = torch.rand(objects, parts, 2, 1) - 0.5
    return as_deviation(torch.cat([linear, place], dim=-1))
