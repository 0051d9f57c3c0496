"""Every claim, measured on every input, whether the method makes it or not."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from routebench.capsules import Competition
from routebench.claims import Claim
from routebench.conformance._calls import FLOOR, Case, CheckInputs, Trial, difference, where_apart
from routebench.conformance._findings import (
    NO_INPUT,
    NOT_REPEATED,
    Deviation,
    Finding,
    Kind,
    Status,
    finding_of,
    worst_of,
)
from routebench.conformance._problems import Problem

WORDS = {
    "types": "the parents (of one position)",
    "types+positions": "all parents that see a child",
    "positions": "the positions that see a child",
    "children": "the children",
}
MORE, LONG = 2, 1e3
"""Children that are added and not there, and how much longer their poses are."""
NOTHING_SEEN = "no coupling to look at: use votes.sweep or votes.aggregate, or return Routed(coupling=...)"


@dataclass(frozen=True)
class ClaimTest:
    """The test of a claim.

    Args:
        measure: the deviation at one input; None if it cannot be measured there.
        advice: what to look at if the claim does not hold.
    """

    measure: Callable[[Case], Deviation | None]
    advice: str


def claims(inputs: CheckInputs) -> list[Finding]:
    """One finding per claim; that of a batch is about training, because in evaluation it is required."""
    return [measured(claim, inputs) for claim in Claim]


def measured(claim: Claim, inputs: CheckInputs) -> Finding:
    """Measures one claim."""
    claimed, advice = claim in inputs.subject.claims, TESTS[claim].advice
    name = claim.name.lower().replace("_", " ") + (" in training" if _is_about_training(claim) else "")
    kind = Kind.CLAIMED if claimed else Kind.MEASURED
    if not inputs.repeats:
        return Finding(name, kind, Status.NOT_CHECKED, NOT_REPEATED)
    worst = worst_seen(claim, inputs)
    if worst is None:
        return Finding(name, kind, Status.NOT_CHECKED, NO_INPUT)
    if claimed:
        return finding_of(name, kind, worst, advice)
    if claim is Claim.MASS_CONSERVATION and worst.wrong and any(other_axes(case) for case in inputs.compared):
        return finding_of(name, Kind.REQUIRED, worst, advice)  # what is said of the axis is wrong, claim or none
    words = f"does not hold: {worst.words}" if worst.wrong else f"holds: {worst.words}"
    return Finding(name, kind, Status.BESIDES, words, worst.at, deviation=worst.size)


def worst_seen(claim: Claim, inputs: CheckInputs) -> Deviation | None:
    """The worst deviation from a claim; None where no input says anything about it."""
    cases = inputs.trained if _is_about_training(claim) else inputs.learned
    return worst_of(TESTS[claim].measure(case) for case in cases)


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
    expected = Trial({name: value[:, order] for name, value in _of_parents(case.base).outputs.items()})
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


def mass_conservation(case: Case) -> Deviation | None:
    """The amount that each child hands out over the method's competition axis; with an orphan, that and not more."""
    method = case.subject.make(case.problem.shape.sizes, changes=case.changes)
    axis, orphan = method.competition, method.orphan
    passes = case.trial(watch=True).coupling
    if not passes:
        return Deviation(float("inf"), 1.0, NOTHING_SEEN, str(case))
    allowed = FLOOR[case.problem.dtype]
    if axis == "none":
        return Deviation(1.0, allowed, "competition = 'none': every parent gets every child, whole", str(case))
    sizes = [_from_one(sums_over(coupling, axis, case.problem), orphan) for coupling in passes]
    worst = max(range(len(sizes)), key=sizes.__getitem__)
    words = _in_words(passes[worst], axis, case.problem, allowed)
    return Deviation(sizes[worst], allowed, words, str(case))


def other_axes(case: Case) -> tuple[str, ...]:
    """The axes over which some pass's coupling sums to one, though it does not over the one that is declared."""
    declared = case.subject.make(case.problem.shape.sizes, changes=case.changes).competition
    if declared == "none":
        return ()
    allowed, found = FLOOR[case.problem.dtype], set()
    for coupling in case.trial(watch=True).coupling:
        one = _axes_of_one(coupling, case.problem, allowed)
        asked = declared if case.problem.shape.windows or declared == "children" else "types"
        found |= set() if asked in one else set(one)
    return tuple(axis for axis in WORDS if axis in found)


def uniform_first(case: Case) -> Deviation | None:
    """The coupling of one iteration; a method without iterations is one."""
    if case.subject.iterative:
        case = case.with_iterations(1)
    passes = case.trial(watch=True).coupling
    if not passes:
        return Deviation(float("inf"), 1.0, NOTHING_SEEN, str(case))
    method = case.subject.make(case.problem.shape.sizes, changes=case.changes)
    axis = "types" if method.competition == "none" else method.competition
    share = Competition(axis, windows=case.problem.shape.windows, orphan=method.orphan)
    size = max(float((_expected(share, coupling) - coupling).abs().max()) for coupling in passes)
    words = f"the coupling of one iteration is {size:.1g} from an equal share"
    return Deviation(size, FLOOR[case.problem.dtype], words, str(case))


def padding(case: Case) -> Deviation | None:
    """Two more children that are not there, with long poses and weights of their own; on a grid there are no others."""
    given = case.problem
    if given.shape.windows:
        return None
    wider = replace(given.shape, children=given.shape.children + MORE)
    images, source = given.shape.images, _source()

    def longer(value: Tensor, size: tuple[int, ...], axis: int, factor: float) -> Tensor:
        more = factor * torch.randn(size, generator=source, dtype=torch.float64)
        return torch.cat([value, more.to(value.dtype)], dim=axis)

    padded = replace(
        given,
        shape=wider,
        poses=longer(given.poses, (images, MORE, given.shape.pose_in), 1, LONG * given.scale),
        activations=longer(given.activations, (images, MORE), 1, 1.0),
        weight=longer(given.weight, (MORE, *given.weight.shape[1:]), 0, 1.0),
        present=(torch.arange(wider.children) < given.shape.children).expand(images, -1),
    )
    when = "when there are two more children that are not there"
    found = case.trial(padded, like=given.shape.sizes)
    if found.error:
        return Deviation(float("inf"), case.allowed, f"it raises {when}: {found.error}", str(case))
    return case.deviation(_of_parents(found), _of_parents(case.base), case.allowed, when)


def sums_over(coupling: Tensor, axis: str, problem: Problem) -> Tensor:
    """Sums of coupling (lane, child, parent) over an axis of competition, each of which ought to be one."""
    windows = problem.shape.windows
    if axis == "children":
        return coupling.sum(dim=1)
    if axis == "types" or windows is None:
        return coupling.sum(dim=2)
    images = coupling.shape[0] // windows.positions
    grouped = coupling.reshape(images, -1, coupling.shape[2])  # image, position x child, parent
    by_cell = coupling.new_zeros(images, windows.cells, coupling.shape[2])
    by_cell.index_add_(1, windows.index.flatten(), grouped)
    return by_cell.sum(dim=2) if axis == "types+positions" else by_cell


TESTS: dict[Claim, ClaimTest] = {
    Claim.CHILD_ORDER: ClaimTest(
        child_order, "whatever uses a child's number: an index, a cumsum, a weight of its own"
    ),
    Claim.PARENT_ORDER: ClaimTest(
        parent_order, "whatever uses a parent's number: an index, an arange, a fixed coupling"
    ),
    Claim.BATCH_INDEPENDENCE: ClaimTest(
        batch_independence, "sums, means, softmax or normalisation over the first axis (lanes), and batch statistics"
    ),
    Claim.MASS_CONSERVATION: ClaimTest(
        mass_conservation, "the `dim` of the softmax: logits are (lane, child, parent); or use votes.competition.couple"
    ),
    Claim.POSE_ROTATION: ClaimTest(
        pose_rotation, "whatever treats pose elements apart: norms by element, biases, tanh"
    ),
    Claim.POSE_TRANSLATION: ClaimTest(
        pose_translation, "whatever depends on where zero is: lengths, squashing, dot products, sums that are no means"
    ),
    Claim.POSE_SIGNED_PERMUTATION: ClaimTest(
        pose_signed_permutation, "whatever uses an element's number or sign: biases, learned gains, cumsum, relu"
    ),
    Claim.PADDING: ClaimTest(
        padding, "sums, means and softmax over children of votes.dense(), and the number of children: votes.there"
    ),
    Claim.UNIFORM_FIRST: ClaimTest(uniform_first, "what the first pass makes coupling of, before there are parents"),
}


def _is_about_training(claim: Claim) -> bool:
    """Independence of the batch, which in evaluation is required, and a finding of its own."""
    return claim is Claim.BATCH_INDEPENDENCE


def _expected(share: Competition, coupling: Tensor) -> Tensor:
    return share.uniform(coupling, coupling.shape[2])[..., None]


def _from_one(sums: Tensor, orphan: bool) -> float:
    off = (sums - 1).clamp(min=0) if orphan else (sums - 1).abs()
    value = float(off.max())
    return float("inf") if math.isnan(value) else value


def _axes_of_one(coupling: Tensor, problem: Problem, allowed: float) -> list[str]:
    axes = WORDS if problem.shape.windows else ("types", "children")
    return [axis for axis in axes if _from_one(sums_over(coupling, axis, problem), False) <= allowed]


def _in_words(coupling: Tensor, axis: str, problem: Problem, allowed: float) -> str:
    axis_here = axis if problem.shape.windows or axis == "children" else "types"
    sums = sums_over(coupling, axis, problem)
    low, high, off = float(sums.min()), float(sums.max()), float((sums - 1).abs().max())
    asked = f"over {WORDS[axis_here]}, as `competition = {axis!r}` says"
    ones = _axes_of_one(coupling, problem, allowed)
    if not ones:
        return f"coupling sums to between {low:.2g} and {high:.2g} {asked}, and to one over no axis"
    if axis_here in ones:
        return f"coupling sums to one {asked}: largest deviation {off:.1g}"
    others = " and over ".join(WORDS[one] for one in ones)
    return f"coupling sums to one over {others}, not {asked}: largest deviation {off:.2g}"


def _compared(case: Case, changed: Problem, expected: Trial, when: str, parents: Tensor | None = None) -> Deviation:
    found = case.trial(changed, parents=parents)
    if found.error:
        return Deviation(float("inf"), case.allowed, f"it raises {when}: {found.error}", str(case))
    return case.deviation(_of_parents(found), _of_parents(expected), case.allowed, when)


def _of_parents(trial: Trial) -> Trial:
    """The outputs that claims are about: all but a loss that the method adds."""
    return replace(trial, outputs={name: value for name, value in trial.outputs.items() if name != "loss"})


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
