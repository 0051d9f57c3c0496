"""Variational inference of objects in the model that scenes are drawn from: what routing is a stand-in for.

The model. Objects are there or not, A_j is the pose of one that is. A part of type p is one of object j, with its pose
A_j B_jp and Gaussian noise, or clutter, with a broad Gaussian for its pose; all of these are equally likely. Known are
the arrangements B, the noise, and how poses of objects and parts are spread: here a Gaussian for each element, where
scenes are drawn from turns, scales and shifts. That an object has each part once is not used.

Parents and poses are inferred by mean-field coordinate ascent, as in a Gaussian mixture with a prior on its means.
Which objects are there is inferred by taking out, one after the other, the object without which the bound is highest.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ._kinds import KINDS, PART_REACH, PART_SCALE, PARTS, arrangements
from ._scenes import OBJECT_REACH, OBJECT_SCALE, SLOTS, STEP

SWEEPS, SWEEPS_AFTER = 25, 6
"""Updates before the first object is taken out, and after each."""
SCENES = 50
"""Scenes at once."""
Rows = Float[Tensor, "scene #set kind 2 3"]  # the two rows of a pose are independent


@dataclass(frozen=True)
class Inferred:
    """Beliefs about scenes.

    Args:
        coupling: probability of each parent, and last of clutter; zero in an empty place.
        objects: the expected pose of each kind of object.
        shown: which kinds are there.
    """

    coupling: Float[Tensor, "scene part slot parent"]
    objects: Float[Tensor, "scene kind 2 3"]
    shown: Bool[Tensor, "scene kind"]


def infer(
    poses: Float[Tensor, "scene part slot 2 3"], present: Bool[Tensor, "scene part slot"], noise: float
) -> Inferred:
    """Parents of parts, and poses of objects.

    Args:
        poses, present: poses and presences of parts, as `decoded` gives them.
        noise: standard deviation of pose elements; the rounding of `encoded` is added to it.
    """
    variance = noise**2 + STEP**2 / 12
    found = [
        _inferred(poses[start : start + SCENES].double(), present[start : start + SCENES], variance)
        for start in range(0, len(poses), SCENES)
    ]
    return Inferred(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _inferred(poses: Tensor, present: Tensor, variance: float) -> tuple[Tensor, Tensor, Tensor]:
    mixture = _Mixture(poses.flatten(1, 2), present.flatten(1), variance)
    alive = torch.ones(len(poses), 1, KINDS, dtype=torch.bool)
    means, spread = mixture.start()
    bound, means, spread = mixture.settle(alive, means, spread, SWEEPS)
    without = ~torch.eye(KINDS, dtype=torch.bool)  # a set of objects for each that is taken out
    for _ in range(KINDS):
        sets = alive & without
        bounds, all_means, all_spread = mixture.settle(sets, means, spread, SWEEPS_AFTER)
        bounds = bounds.where(sets.sum(dim=2) < alive.sum(dim=2), -torch.inf)
        best = bounds.argmax(dim=1)
        better = bounds.gather(1, best[:, None]) > bound
        if not better.any():
            break
        rows = torch.arange(len(poses))
        chosen = (sets[rows, best], all_means[rows, best], all_spread[rows, best], bounds[rows, best])
        alive, means, spread, bound = (
            torch.where(better.view(-1, *[1] * (old.ndim - 1)), new[:, None], old)
            for new, old in zip(chosen, (alive, means, spread, bound), strict=True)
        )
    coupling = mixture.coupling(mixture.log_joint(alive, means, spread))[:, 0] * mixture.present[..., None]
    return coupling.reshape(-1, PARTS, SLOTS, KINDS + 1), means[:, 0], alive[:, 0]


class _Mixture:
    """The parts of some scenes: children (scene, child), child = part x slot, slots fastest.

    A set axis stands after the scenes: several sets of objects are tried for each scene.
    """

    def __init__(self, poses: Float[Tensor, "scene child 2 3"], present: Bool[Tensor, "scene child"], variance: float):
        self.poses, self.present, self.variance = poses, present, variance
        self.by_type = (len(poses), 1, PARTS, SLOTS)
        self.parts = arrangements().repeat_interleave(SLOTS, dim=1)  # kind child 3 3
        self.outer = self.parts @ self.parts.mT / variance
        self.prior = torch.diag(1 / _spread_of_objects())
        self.clutter = _log_normal(poses, _spread_of_parts())

    def log_joint(self, alive: Tensor, means: Rows, spread: Float[Tensor, "scene set kind 3 3"]) -> Tensor:
        """log of weight times density, in expectation over poses: (scene, set, child, kind + 1), clutter last."""
        apart = self.poses[:, None, :, None] - torch.einsum("nsjab,jcbd->nscjad", means, self.parts)
        unsure = torch.einsum("jcab,jcdb,nsjad->nscj", self.parts, self.parts, spread)
        density = -0.5 * (apart.square().sum(dim=(-2, -1)) + 2 * unsure) / self.variance
        density = density - 3 * _log_2pi(self.variance)
        of_objects = density.masked_fill(~alive[:, :, None], -torch.inf)
        of_clutter = self.clutter[:, None, :, None].expand(*of_objects.shape[:3], 1)
        return torch.cat([of_objects, of_clutter], dim=-1) - (1 + alive.sum(dim=-1)).log()[..., None, None]

    def coupling(self, log_joint: Tensor) -> Tensor:
        """The E-step."""
        return log_joint.softmax(dim=-1)

    def posterior(self, coupling: Float[Tensor, "scene set child kind"]) -> tuple[Tensor, Tensor]:
        """The M-step: means (scene, set, kind, 2, 3) and covariance of each row (scene, set, kind, 3, 3) of poses."""
        weights = coupling * self.present[:, None, :, None]
        spread = torch.linalg.inv(self.prior + torch.einsum("nscj,jcab->nsjab", weights, self.outer))
        seen = torch.einsum("nscj,ncad,jcbd->nsjab", weights, self.poses, self.parts) / self.variance
        return seen @ spread, spread

    def settle(self, alive: Tensor, means: Tensor, spread: Tensor, sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
        """The bound (scene, set), and the posterior of poses, after so many updates."""
        for _ in range(sweeps):
            coupling = self.coupling(self.log_joint(alive, means, spread))
            means, spread = self.posterior(coupling[..., :-1])
        explained = self.log_joint(alive, means, spread).logsumexp(dim=-1) * self.present[:, None]
        return explained.sum(dim=-1) - (alive * self._divergence(means, spread)).sum(dim=-1), means, spread

    def _divergence(self, means: Tensor, spread: Tensor) -> Tensor:
        """KL from the prior, of both rows: (scene, set, kind)."""
        traces = torch.einsum("ab,nsjba->nsj", self.prior, spread)
        squares = torch.einsum("nsjab,bc,nsjac->nsj", means, self.prior, means)
        volumes = torch.linalg.slogdet(spread)[1] + torch.linalg.slogdet(self.prior)[1]
        divergence: Tensor = 0.5 * (2 * traces + squares - 2 * 3 - 2 * volumes)
        return divergence

    def start(self) -> tuple[Tensor, Tensor]:
        """Each object where the one part puts it that explains most others, in all, better than clutter does."""
        means, spread = self._posterior_of_one()
        scores = torch.stack([self._explained(means[..., kind, :, :], spread, kind) for kind in range(KINDS)], dim=-1)
        best = scores.masked_fill(~self.present[..., None], -torch.inf).argmax(dim=1)  # scene kind
        rows, kinds = torch.arange(len(best))[:, None], torch.arange(KINDS)
        return means[rows, best, kinds][:, None], spread[kinds, best][:, None]

    def _posterior_of_one(self) -> tuple[Float[Tensor, "scene child kind 2 3"], Float[Tensor, "kind child 3 3"]]:
        spread = torch.linalg.inv(self.prior + self.outer)
        seen = torch.einsum("ncad,jcbd->ncjab", self.poses, self.parts) / self.variance
        return torch.einsum("ncjab,jcbd->ncjad", seen, spread), spread

    def _explained(self, means: Tensor, spread: Tensor, kind: int) -> Float[Tensor, "scene child"]:
        """Sum over types of the best part's log density, less that of clutter, if an object is where a child has it."""
        parts = arrangements()[kind]
        predicted = torch.einsum("ncab,pbd->ncpad", means, parts)
        covariance = torch.einsum("pab,cad,pde->cpbe", parts, spread[kind], parts)
        covariance = covariance + self.variance * torch.eye(3, dtype=parts.dtype)
        apart = self.poses.view(*self.by_type, 2, 3) - predicted[:, :, :, None]  # scene child part slot 2 3
        squares = torch.einsum("ncpsab,cpbd,ncpsad->ncps", apart, torch.linalg.inv(covariance), apart)
        volumes = torch.linalg.slogdet(covariance)[1] + 3 * _log_2pi(1.0)
        gain = -0.5 * squares - volumes[..., None] - self.clutter.view(self.by_type)
        gain = gain.masked_fill(~self.present.view(self.by_type), 0)
        explained: Tensor = gain.clamp(min=0).amax(dim=-1).sum(dim=-1)
        return explained


def _log_2pi(variance: float) -> float:
    return float(torch.tensor(2 * torch.pi * variance, dtype=torch.float64).log())


def _log_normal(poses: Float[Tensor, "*n 2 3"], variances: Float[Tensor, " 3"]) -> Float[Tensor, "*n"]:
    """Log density of a pose whose elements are independent, with mean zero."""
    return -0.5 * (poses.square() / variances + (2 * torch.pi * variances).log()).sum(dim=(-2, -1))


def _spread_of_objects() -> Float[Tensor, " 3"]:
    """Variance of the elements of a row of an object's pose."""
    square = _mean_square(OBJECT_SCALE)
    return torch.tensor([square / 2, square / 2, OBJECT_REACH**2 / 3], dtype=torch.float64)


def _spread_of_parts() -> Float[Tensor, " 3"]:
    """The same of a part."""
    square = _mean_square(OBJECT_SCALE)
    turned = square * _mean_square(PART_SCALE) / 2
    shifted = OBJECT_REACH**2 / 3 + square * PART_REACH**2 / 3
    return torch.tensor([turned, turned, shifted], dtype=torch.float64)


def _mean_square(scale: tuple[float, float]) -> float:
    """The mean square of a number whose logarithm is uniform between those of two others."""
    low, high = torch.tensor(scale, dtype=torch.float64)
    return float((high**2 - low**2) / (2 * (high / low).log()))
