"""The inputs of a check: the problems on which a method can be called at all, and the cases that are made of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from routebench.conformance.case import Case
from routebench.conformance.problem import ORDINARY, Shape, draw
from routebench.conformance.subject import Subject

DTYPES = (torch.float64, torch.float32)
SCALES = (1.0, 0.01, 100.0)
"""Of poses, for what is compared. Weights are standard normal, so that these are about the lengths of votes, too."""


@dataclass(frozen=True)
class Inputs:
    """What a method is checked with.

    Args:
        subject: the method.
        seed: of the numbers.
        shapes: on which it raises nothing.
        repeats: whether two equal calls give the same; otherwise nothing can be compared.
    """

    subject: Subject
    seed: int
    shapes: tuple[Shape, ...]
    repeats: bool = True

    def among(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Those of the shapes that the method can be called on."""
        return tuple(shape for shape in shapes if shape in self.shapes)

    def case(self, shape: Shape, *, training: bool = False) -> Case:
        """The plainest input of a shape."""
        return Case(self.subject, draw(shape, self.seed), training=training)

    @cached_property
    def compared(self) -> tuple[Case, ...]:
        """Ordinary shapes in both precisions, at all scales, with 1 and 5 iterations; where that says something."""
        return tuple(case for case in self._ordinary() if case.says_something)

    @cached_property
    def learned(self) -> tuple[Case, ...]:
        """The same with parameters that differ by element: a claim must hold after training, too."""
        return tuple(case.learned for case in self.compared)

    @cached_property
    def trained(self) -> tuple[Case, ...]:
        """Ordinary shapes in training mode."""
        cases = (self.case(shape, training=True).learned for shape in self.among(ORDINARY))
        return tuple(case for case in cases if case.says_something)

    def _ordinary(self) -> Iterator[Case]:
        for shape in self.among(ORDINARY):
            for dtype in DTYPES:
                for scale in SCALES:
                    yield Case(self.subject, draw(shape, self.seed, dtype=dtype, scale=scale))
            if self.subject.iterative:
                for count in (1, 5):
                    yield self.case(shape).with_iterations(count)
