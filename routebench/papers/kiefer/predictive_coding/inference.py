"""Inference over the class capsules of a trained network, in place of routing.

Source: Kiefer et al., "Capsule Networks as Generative Models", section 3.1 and appendix C. The energy of an image is

    F = 1/2 sum_j |v_j - squash(s_j)|^2 + 1/2 sum_j (t_j - |v_j|)^2 + l1 sum_j |v_j| + l2/2 sum_j |v_j|^2

with class capsules v, sums of votes s and a target length t for each class. The paper does not say what is free where
the output is clamped: its text penalises the output vector, and its appendix measures the output error against the
target. Read together, class capsules are free and their lengths are compared with the label. With children free too,
their poses u are pulled back to the forward pass by `1/2 sum_i |u_i - u_i(forward)|^2`, and s follows them.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from routebench.ops import length, squash
from routebench.ops.squash import EPSILON

from .forward import Forward

FREE = ("classes", "children")
TARGETS = ("none", "predicted", "label")
ROUNDING = 1e-12
"""Share of itself by which an energy may rise and still count as the same."""

Poses = Float[Tensor, "batch classes pose"]
PerImage = Float[Tensor, " batch"]


@dataclass(frozen=True)
class Rule:
    """Settings of inference.

    Args:
        l1: strength of the penalty on the lengths of class capsules, `sum_j |v_j|`. The paper gives none. For a
            network trained by the margin loss, 0.1 is what to begin with: absent classes are trained to be below it.
        l2: strength of the penalty on their squares, which the paper has for its toy network alone.
        free: `classes`, or `children` for these and the capsules below. The second can change what is predicted.
        steps: number of steps, as in the paper.
        step_size: size of a step, as in the paper. A step that would raise an image's energy is not taken, and that
            image's step size is halved from then on.
    """

    l1: float = 0.0
    l2: float = 0.0
    free: str = "classes"
    steps: int = 500
    step_size: float = 0.01

    def __post_init__(self) -> None:
        """Raises ValueError for a value that is not allowed."""
        if min(self.l1, self.l2) < 0:
            raise ValueError(f"l1 and l2 must be at least 0, got {self.l1!r} and {self.l2!r}")
        if self.free not in FREE:
            raise ValueError(f"free must be one of {', '.join(FREE)}, got {self.free!r}")
        if self.steps < 1 or not self.step_size > 0:
            raise ValueError(
                f"steps must be at least 1 and step_size above 0, got {self.steps!r} and {self.step_size!r}"
            )


@dataclass(frozen=True)
class Settled:
    """Result of inference.

    Args:
        poses: poses of the class capsules.
        below: change of the poses below, as coefficients a of `W a`; see `Forward.gram`. Zeros where they were not
            free.
        energies: energy of every image, before the first step and after each.
        residual: length of the last step over its size: how steep the energy still is.
        step_size: step size of every image in the end.
    """

    poses: Poses
    below: Float[Tensor, "batch all"]
    energies: Float[Tensor, "moment batch"]
    residual: PerImage
    step_size: PerImage


@dataclass(frozen=True)
class _State:
    """A point, with what its energy and its gradient share."""

    poses: Tensor  # (batch, classes, pose)
    below: Tensor  # (batch, all)
    pulled: Tensor  # (batch, all): gram a
    sums: Tensor  # (batch, classes, pose)
    error: Tensor  # likewise: v - squash(s)
    lengths: Tensor  # (batch, classes)
    energy: Tensor  # (batch)


def targets_for(kind: str, predicted: Poses, labels: Int[Tensor, " batch"]) -> Float[Tensor, "batch classes"] | None:
    """Target lengths of the classes.

    Args:
        kind: `label`: 1 for the right class and 0 for others, as in the paper, which gives the answer away;
            `predicted`: the same for the class that the forward pass has longest; `none`: the energy has no such term.
        predicted: class capsules of the forward pass.
        labels: the right classes.

    Returns:
        (batch, classes), or None for `none`.

    Raises:
        ValueError: the kind is unknown.
    """
    if kind not in TARGETS:
        raise ValueError(f"targets must be one of {', '.join(TARGETS)}, got {kind!r}")
    if kind == "none":
        return None
    chosen = labels if kind == "label" else length(predicted).argmax(dim=1)
    return torch.nn.functional.one_hot(chosen, predicted.shape[1]).to(predicted.dtype)


@torch.no_grad()
def infer(forward: Forward, targets: Float[Tensor, "batch classes"] | None, rule: Rule) -> Settled:
    """Proximal gradient steps on F, from the forward pass: it never rises, and images do not influence each other.

    After each gradient step the L1 term shortens every class capsule by `step_size l1`, to zero at most: its proximal
    step. The paper's sub-gradient would leave absent classes chattering about zero. At length zero the target term has
    no gradient, and none is taken.

    With children free, no pose below is stored. Their gradient, `u - u(forward) - W (dsquash/ds)^T (v - squash(s))`,
    never leaves the span of W, so that `u = u(forward) + W a` with one coefficient for each element of each class:
    these are the same steps at the cost of a (class x pose) square matrix per image in place of all votes.

    Args:
        forward: the forward pass of a batch.
        targets: targets from `targets_for`.
        rule: the settings.
    """
    if rule.free == "classes":
        return _along(forward, _descend(_lengths_of(forward), targets, rule))
    return _descend(forward, targets, rule)


def _descend(forward: Forward, targets: Tensor | None, rule: Rule) -> Settled:
    at_first = forward.sums.new_zeros(len(forward.sums), len(forward.gram))
    state = _at(forward, targets, rule, forward.poses, at_first)
    sizes = torch.full_like(state.energy, rule.step_size)
    energies, last = [state.energy], rule.steps - 1
    for number in range(rule.steps):
        tried = _step(state, forward, targets, rule, sizes)
        if number == last:
            residual = _distance(tried, state) / sizes
        taken = tried.energy <= state.energy * (1 + ROUNDING)
        if bool(taken.all()):
            state = tried
        else:
            state = _chosen(taken, tried, state)
            sizes = torch.where(taken, sizes, sizes / 2)
        energies.append(state.energy)
    return Settled(state.poses, state.below, torch.stack(energies), residual, sizes)


def _lengths_of(forward: Forward) -> Forward:
    """The same problem with poses of one element: a class capsule that is free alone keeps its direction."""
    return Forward(length(forward.sums)[..., None], forward.gram.new_zeros(0, 0))


def _along(forward: Forward, settled: Settled) -> Settled:
    """Poses of the found lengths, in the directions that they had."""
    poses = torch.nn.functional.normalize(forward.poses, dim=-1) * settled.poses
    return replace(settled, poses=poses, below=poses.new_zeros(len(poses), len(forward.gram)))


def lengths_at_rest(
    lengths: Float[Tensor, "batch classes"], targets: Float[Tensor, "batch classes"] | None, rule: Rule
) -> Float[Tensor, "batch classes"]:
    """Lengths of class capsules at rest if they alone are free: `max(0, |squash(s)| + t - l1) / (2 + l2)`.

    Each keeps its direction, and its length solves an equation of its own. Without targets it is
    `max(0, |squash(s)| - l1) / (1 + l2)`: without a penalty the forward pass, at which all errors are zero already.

    Args:
        lengths: lengths of the class capsules in the forward pass, above zero.
        targets: as for `infer`.
        rule: its strengths are used.

    Raises:
        ValueError: other capsules are free.
    """
    if rule.free != "classes":
        raise ValueError("lengths_at_rest is known for class capsules that are free alone")
    pull, curvature = (lengths, 1.0) if targets is None else (lengths + targets, 2.0)
    return (pull - rule.l1).clamp(min=0) / (curvature + rule.l2)


def _at(forward: Forward, targets: Tensor | None, rule: Rule, poses: Tensor, below: Tensor) -> _State:
    """The energy of a point, and its parts."""
    pulled, sums = below, forward.sums
    if rule.free == "children":
        pulled = below @ forward.gram
        sums = sums + pulled.view_as(sums)
    error = poses - squash(sums)
    lengths = length(poses)
    energy = 0.5 * (error.square().sum(dim=(1, 2)) + (below * pulled).sum(dim=1))
    energy = energy + rule.l1 * lengths.sum(dim=1) + 0.5 * rule.l2 * lengths.square().sum(dim=1)
    if targets is not None:
        energy = energy + 0.5 * (targets - lengths).square().sum(dim=1)
    return _State(poses, below, pulled, sums, error, lengths, energy)


def _step(state: _State, forward: Forward, targets: Tensor | None, rule: Rule, sizes: Tensor) -> _State:
    gradient = state.error + rule.l2 * state.poses
    if targets is not None:
        tiny = torch.finfo(state.poses.dtype).tiny
        gradient = gradient + (1 - targets / state.lengths.clamp(min=tiny))[..., None] * state.poses
    moved = state.poses - sizes[:, None, None] * gradient
    below = state.below
    if rule.free == "children":
        below = below - sizes[:, None] * (below - _through_squash(state.sums, state.error).flatten(1))
    return _at(forward, targets, rule, _shortened(moved, sizes[:, None] * rule.l1), below)


def _shortened(poses: Tensor, by: Tensor) -> Tensor:
    """Each pose with its length less so much, zero at least."""
    lengths = length(poses)
    kept = (lengths - by).clamp(min=0) / lengths.clamp(min=torch.finfo(poses.dtype).tiny)
    return kept[..., None] * poses


def _through_squash(sums: Tensor, error: Tensor) -> Tensor:
    """`(dsquash/ds)^T error`; the derivative is `g I + 2 g' s s^T` for `squash(s) = g(|s|^2) s`, hence symmetric."""
    squared = sums.square().sum(dim=-1, keepdim=True)
    root = torch.rsqrt(squared + EPSILON)
    factor = squared / (1 + squared) * root
    slope = root / (1 + squared).square() - 0.5 * factor * root.square()
    return factor * error + 2 * slope * (sums * error).sum(dim=-1, keepdim=True) * sums


def _distance(one: _State, other: _State) -> Tensor:
    """Distance of two points, poses below included: `|W a|^2 = a^T gram a`."""
    below = ((one.below - other.below) * (one.pulled - other.pulled)).sum(dim=1).clamp(min=0)
    return ((one.poses - other.poses).square().sum(dim=(1, 2)) + below).sqrt()


def _chosen(taken: Tensor, tried: _State, state: _State) -> _State:
    """The new point of images that took the step, the old one of those that did not."""
    parts = {}
    for name in vars(state):
        new, old = getattr(tried, name), getattr(state, name)
        parts[name] = torch.where(taken.view(-1, *[1] * (new.ndim - 1)), new, old)
    return replace(state, **parts)
