"""How each claim is measured at one input: what the largest deviation is, and what it looks like in words."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from routebench.claims import Claim
from routebench.conformance.case import Case, difference, where_apart
from routebench.conformance.coupling import mass_conservation, uniform_first
from routebench.conformance.deviation import Deviation
from routebench.conformance.problem import Problem
from routebench.conformance.trial import Trial


@dataclass(frozen=True)
class Measurement:
    """How a claim is measured.

    Args:
        measure: the deviation at one input; None if it cannot be measured there.
        advice: what to look at if the claim does not hold.
    """

    measure: Callable[[Case], Deviation | None]
    advice: str


def child_order(case: Case) -> Deviation | None:
    """Children in another order. On a grid their order is the window's."""
    if case.problem.shape.windows:
        return None
    order = _order(case.problem.shape.children)
    given = case.problem
    shuffled = replace(
        given,
        poses=given.poses[:, order],
        activations=given.activations[:, order],
        weight=given.weight[order],
    )
    return _compared(case, shuffled, case.base, "with its children in another order")


def parent_order(case: Case) -> Deviation | None:
    """Parents in another order, and with each what was learnt for it, as its weights are.

    If one cannot tell whose the elements of a parameter are, they are all the same.
    """
    order = _order(case.problem.shape.parents)
    told = case.subject.tells_parents(case.problem.shape.sizes, case.changes)
    case = case if told else replace(case, apart=False)
    moved = replace(case.problem, weight=case.problem.weight[:, order])
    expected = Trial({name: value[:, order] for name, value in case.base.outputs.items()})
    when = "with its parents in another order"
    return _compared(case, moved, expected, when, parents=order if told else None)


def batch_independence(case: Case) -> Deviation | None:
    """Other images in the batch; and an image alone, unless the method draws numbers, which a batch of one shifts."""
    ends = (0, case.problem.shape.images - 1)
    found = [_others_replaced(case, image) for image in ends]
    if difference(case.trial(seed=1), case.base) == 0:
        found += [alone for image in ends if (alone := _alone(case, image)) is not None]
    return max(found, key=lambda deviation: deviation.excess)


def pose_rotation(case: Case) -> Deviation | None:
    """All votes turned by one random rotation."""
    pose = case.problem.shape.pose
    turn, triangle = torch.linalg.qr(torch.randn(pose, pose, generator=_source(), dtype=torch.float64))
    turn = turn * triangle.diagonal().sign()
    turn[:, 0] *= torch.linalg.det(turn).sign()
    return _turned(case, turn, "when all votes are turned by one rotation")


def pose_signed_permutation(case: Case) -> Deviation | None:
    """Elements of all votes exchanged, some with their signs changed."""
    pose = case.problem.shape.pose
    exchange = torch.eye(pose, dtype=torch.float64).roll(2, dims=1)[torch.randperm(pose, generator=_source())]
    signs = torch.ones(pose, dtype=torch.float64)
    signs[::2] = -1
    return _turned(case, exchange * signs, "when elements of all votes are exchanged or change sign")


def pose_translation(case: Case) -> Deviation | None:
    """All votes moved by one vector."""
    shape = case.problem.shape
    move = case.problem.scale * torch.randn(shape.pose, generator=_source(), dtype=torch.float64).to(case.problem.dtype)
    moved = replace(case.problem, offset=move.repeat(shape.children, 1))
    return _compared(case, moved, _posed(case.base, case.base.outputs["poses"] + move), "when all votes are moved")


MEASUREMENTS: dict[Claim, Measurement] = {
    Claim.CHILD_ORDER: Measurement(
        child_order, "whatever uses a child's number: an index, a cumsum, a weight of its own"
    ),
    Claim.PARENT_ORDER: Measurement(
        parent_order, "whatever uses a parent's number: an index, an arange, a fixed coupling"
    ),
    Claim.BATCH_INDEPENDENCE: Measurement(
        batch_independence, "sums, means, softmax or normalisation over the first axis (lanes), and batch statistics"
    ),
    Claim.MASS_CONSERVATION: Measurement(
        mass_conservation, "the `dim` of the softmax: logits are (lane, child, parent); or use votes.competition.couple"
    ),
    Claim.POSE_ROTATION: Measurement(
        pose_rotation, "whatever treats pose elements apart: norms by element, biases, tanh"
    ),
    Claim.POSE_TRANSLATION: Measurement(
        pose_translation, "whatever depends on where zero is: lengths, squashing, dot products, sums that are no means"
    ),
    Claim.POSE_SIGNED_PERMUTATION: Measurement(
        pose_signed_permutation, "whatever uses an element's number or sign: biases, learned gains, cumsum, relu"
    ),
    Claim.UNIFORM_FIRST: Measurement(uniform_first, "what the first pass makes coupling of, before there are parents"),
}


def _compared(case: Case, changed: Problem, expected: Trial, when: str, parents: Tensor | None = None) -> Deviation:
    found = case.trial(changed, parents=parents)
    if found.error:
        return Deviation(float("inf"), case.allowed, f"it raises {when}: {found.error}", str(case))
    size, where = difference(found, expected), where_apart(found, expected)
    return Deviation(size, case.allowed, f"{where} differ by {size:.1g} of the largest value {when}", str(case))


def _turned(case: Case, matrix: Tensor, when: str) -> Deviation | None:
    if case.problem.shape.side:  # a vote's elements are not its weights' columns
        return None
    matrix = matrix.to(case.problem.dtype)
    turned = replace(case.problem, weight=case.problem.weight @ matrix)
    return _compared(case, turned, _posed(case.base, case.base.outputs["poses"].to(matrix) @ matrix), when)


def _posed(trial: Trial, poses: Tensor) -> Trial:
    return Trial({**trial.outputs, "poses": poses})


def _others_replaced(case: Case, image: int) -> Deviation:
    """An image among others must be as it was. Random draws are the same, because the shapes are."""
    given = case.problem
    poses, activations = given.poses.flip(1) * -3, given.activations.flip(1) * 0.5
    poses[image], activations[image] = given.poses[image], given.activations[image]
    found = case.trial(replace(given, poses=poses, activations=activations))
    return _own(case, image, found.own(_lanes(case, image)), "when the other images of its batch change")


def _alone(case: Case, image: int) -> Deviation | None:
    """None where a batch of one raises, which is a fault of its own."""
    found = case.trial(case.problem.image(image))
    return None if found.error else _own(case, image, found, "when it is alone and not in a batch")


def _own(case: Case, image: int, found: Trial, when: str) -> Deviation:
    expected = case.base.own(_lanes(case, image))
    size, where = difference(found, expected), where_apart(found, expected)
    if found.error:
        return Deviation(size, case.allowed, f"it {where} {when}", str(case))
    words = f"{where} of an image differ by {size:.1g} of the largest value {when}"
    return Deviation(size, case.allowed, words, str(case))


def _lanes(case: Case, image: int) -> slice:
    return slice(image * case.problem.lanes, (image + 1) * case.problem.lanes)


def _order(count: int) -> Tensor:
    """Another order, in which nobody has the same place."""
    return torch.arange(count).roll(1).flip(0) if count % 2 else torch.arange(count).roll(1)


def _source() -> torch.Generator:
    return torch.Generator().manual_seed(2)
