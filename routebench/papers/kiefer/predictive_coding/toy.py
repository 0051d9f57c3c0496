"""The smallest network in which sparse inference looks like routing: one hidden layer between clamped ends.

Source: Kiefer et al., "Capsule Networks as Generative Models", appendix B and figure 3. The energy is

    F(h) = 1/2 |h - A x|^2 + 1/2 |y - B h|^2 + l1 |h|_1 + l2/2 |h|^2

with input x, target y, input weights A (identity in the paper) and output weights B (all ones). The paper gives neither
the input and the target nor the step size, the number of steps, the strengths of the penalties and the start: all are
arguments, whose defaults were chosen so that its three panels come out.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

EXAMPLE_INPUT, EXAMPLE_TARGET = (1.0, 0.8, 0.6), 1.0
EXAMPLE_L1, EXAMPLE_L2 = 1.8, 1.0
MOST_UNITS = 12
"""Hidden units up to which `at_rest` tries every active set."""


@dataclass(frozen=True)
class Toy:
    """A linear network with one hidden layer, both of its ends held fast, and the penalty on what is between.

    Args:
        x: the clamped input, (inputs).
        y: the clamped target, (outputs).
        l1, l2: strengths of the penalties on hidden activities, 0 for none.
        into: A, (hidden, inputs); None for the identity.
        out: B, (outputs, hidden); None for all ones.
    """

    x: Vector
    y: Vector
    l1: float = 0.0
    l2: float = 0.0
    into: Matrix | None = None
    out: Matrix | None = None

    def __post_init__(self) -> None:
        """Raises ValueError unless shapes fit and strengths are not negative."""
        if min(self.l1, self.l2) < 0:
            raise ValueError(f"l1 and l2 must be at least 0, got {self.l1!r} and {self.l2!r}")
        shapes = [self.from_below.shape, self.above.shape]
        if shapes != [(self.below.size, len(self.x)), (len(self.y), self.below.size)]:
            raise ValueError(f"expected weights (hidden, {len(self.x)}) and ({len(self.y)}, hidden), got {shapes}")

    @cached_property
    def from_below(self) -> Matrix:
        """A."""
        return np.eye(len(self.x)) if self.into is None else np.asarray(self.into, dtype=float)

    @cached_property
    def below(self) -> Vector:
        """A x: what the input predicts of the hidden layer."""
        found: Vector = self.from_below @ np.asarray(self.x, dtype=float)
        return found

    @cached_property
    def above(self) -> Matrix:
        """B."""
        return np.ones((len(self.y), self.below.size)) if self.out is None else np.asarray(self.out, dtype=float)

    @cached_property
    def curvature(self) -> Matrix:
        """Curvature of the smooth part of the energy, `(1 + l2) I + B^T B`."""
        found: Matrix = (1 + self.l2) * np.eye(self.below.size) + self.above.T @ self.above
        return found

    @cached_property
    def pull(self) -> Vector:
        """The pull on hidden activities, `A x + B^T y`."""
        found: Vector = self.below + self.above.T @ np.asarray(self.y, dtype=float)
        return found

    def energy(self, hidden: Vector) -> float:
        """F, penalties included."""
        over, under = hidden - self.below, self.y - self.above @ hidden
        return float(0.5 * (over @ over + under @ under + self.l2 * hidden @ hidden) + self.l1 * np.abs(hidden).sum())

    def gradient(self, hidden: Vector) -> Vector:
        """Gradient of the energy without its L1 term, which has none at 0."""
        found: Vector = self.curvature @ hidden - self.pull
        return found


@dataclass(frozen=True)
class Course:
    """Course of inference: hidden activities (step, hidden) and energies (step), both from before the first step on."""

    hidden: Matrix
    energies: Vector


def example(l1: float = 0.0, l2: float = 0.0) -> Toy:
    """Three features that favour the first object a little, and a label of 1 to explain.

    Args:
        l1, l2: strengths of the penalties, as in `Toy`.
    """
    return Toy(np.array(EXAMPLE_INPUT), np.array([EXAMPLE_TARGET]), l1, l2)


def infer(toy: Toy, *, step_size: float = 0.05, steps: int = 500, start: Vector | None = None) -> Course:
    """Gradient steps on the smooth part of the energy, each followed by the proximal step of L1, a soft threshold.

    Departure from the paper, which only says that activities are updated to lower the energy: with L1, plain
    sub-gradient steps never come to rest, because the sign of an activity near 0 changes at every step
    (`infer_by_subgradient`). Without L1 the two are the same.

    Args:
        toy: the network.
        step_size: below 2 / (largest curvature), which for the paper's weights is 2 / (4 + l2).
        steps: how many.
        start: hidden activities before the first step; None for what the input predicts, the forward pass.

    Raises:
        ValueError: with this step size inference can diverge.
    """
    limit = 2 / float(np.linalg.eigvalsh(toy.curvature)[-1])
    if not 0 < step_size < limit:
        raise ValueError(f"step_size must be above 0 and below {limit:.4g}, or inference diverges; got {step_size!r}")
    hidden = [toy.below if start is None else np.asarray(start, dtype=float)]
    for _ in range(steps):
        moved = hidden[-1] - step_size * toy.gradient(hidden[-1])
        hidden.append(np.sign(moved) * np.maximum(np.abs(moved) - step_size * toy.l1, 0))
    return Course(np.array(hidden), np.array([toy.energy(one) for one in hidden]))


def infer_by_subgradient(toy: Toy, *, step_size: float = 0.05, steps: int = 500, start: Vector | None = None) -> Course:
    """`h <- h - step_size (gradient + l1 sign(h))`: the literal reading of the paper, which chatters around 0.

    Args:
        toy, step_size, steps, start: as for `infer`, but any step size is taken.
    """
    hidden = [toy.below if start is None else np.asarray(start, dtype=float)]
    for _ in range(steps):
        hidden.append(hidden[-1] - step_size * (toy.gradient(hidden[-1]) + toy.l1 * np.sign(hidden[-1])))
    return Course(np.array(hidden), np.array([toy.energy(one) for one in hidden]))


def at_rest(toy: Toy) -> Vector:
    """The one minimum of the energy, where inference ends, by solving equations, not by steps.

    Without L1, `((1 + l2) I + B^T B) h = A x + B^T y`; with the paper's weights `h = (x + e) / (1 + l2)` for
    `e = ((1 + l2) y - sum x) / (4 + l2)`. With L1, every set of active units and of their signs is tried: on it the
    energy is smooth, and the set is right if signs come out as assumed and no other unit is pulled by more than l1.

    Raises:
        ValueError: with L1, more than `MOST_UNITS` hidden units.
    """
    pull, curvature = toy.pull, toy.curvature
    if toy.l1 == 0:
        return np.asarray(np.linalg.solve(curvature, pull), dtype=np.float64)
    if len(pull) > MOST_UNITS:
        raise ValueError(f"at_rest tries every active set of at most {MOST_UNITS} hidden units, got {len(pull)}")
    found, least = np.zeros_like(pull), np.inf
    for choice in itertools.product((0, 1, -1), repeat=len(pull)):
        signs = np.array(choice, dtype=float)
        on = signs != 0
        hidden = np.zeros_like(pull)
        hidden[on] = np.linalg.solve(curvature[np.ix_(on, on)], pull[on] - toy.l1 * signs[on])
        if (hidden[on] * signs[on] > 0).all() and toy.energy(hidden) < least:
            found, least = hidden, toy.energy(hidden)
    return found


def strengths_with_one_winner(x: Vector, y: float) -> tuple[float, float]:
    """The l1 from which, and that below which, only the largest input's unit is active, for the paper's weights.

    The winner then is `(max x + y - l1) / 2`. Below the first another unit is active too; from the second on, none.
    They are the conditions that the pull on every other unit, `x_i + (y - max x + l1) / 2`, is at most l1 either way.
    The first is at least as large as the second where no strength leaves one winner.

    Args:
        x: two inputs or more, of which one is the largest.
        y: the target.
    """
    *others, largest = np.sort(np.asarray(x, dtype=float)).tolist()
    over, under = 2 * others[-1] + y - largest, (largest - y - 2 * others[0]) / 3
    return max(over, under, 0.0), largest + y


def shares(hidden: Vector) -> Vector:
    """`|h| / sum |h|`: what figure 3 presumably calls probability mass. Zeros where nothing is active."""
    size = np.abs(hidden)
    total = size.sum()
    found: Vector = size / total if total > 0 else np.zeros_like(size)
    return found
