"""What coupling sums to one over, seen from outside: the sums over every axis, and the words for them."""

import math

from torch import Tensor

from routebench.capsules import Competition
from routebench.conformance.case import FLOOR, Case
from routebench.conformance.deviation import Deviation
from routebench.conformance.problem import Problem

WORDS = {
    "types": "the parents (of one position)",
    "types+positions": "all parents that see a child",
    "positions": "the positions that see a child",
    "children": "the children",
}
NOTHING_SEEN = "no coupling to look at: use votes.sweep or votes.aggregate, or return Routed(coupling=...)"


def mass_conservation(case: Case) -> Deviation | None:
    """What each child hands out over the method's competition axis; with an orphan, that and not more."""
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
