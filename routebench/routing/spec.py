"""Checks of a method that a user names, with hyperparameters."""

from typing import Any

from routebench.errors import UserError, nearest
from routebench.notation import Spec
from routebench.routing.make import hyperparameters_of

MOST_ITERATIONS = 10_000
"""Largest T: nothing converges so slowly, and memory for gradients grows with it."""


def expect_known(spec: Spec) -> None:
    """Raises UserError for an unknown method, for a hyperparameter that it lacks, and for too many iterations.

    `make` passes on what it is given, and takes arguments of its own that are no hyperparameters.
    """
    known = hyperparameters_of(spec.name)
    for key in spec.params:
        if key not in known:
            raise UserError(f"method {spec.name!r} has no hyperparameter {key!r}{nearest(key, known)}")
    expect_few_iterations(f"method {spec.name!r}", spec.params.get("iterations"))


def expect_few_iterations(where: str, steps: Any) -> None:
    """Raises UserError for a T that no machine gets through; what is no integer is refused elsewhere.

    Args:
        where: the place of the value, for the message.
        steps: T, as given.
    """
    if isinstance(steps, int) and steps > MOST_ITERATIONS:
        raise UserError(f"{where}: expected at most {MOST_ITERATIONS:,} iterations, got {steps:,}")
