"""Right or wrong per test image, as raw outputs have it, held against what the record says."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.engine.results._record import Record

CORRECT = "correct"
ALIKE = 1e-3
"""Points by which an accuracy may differ from the share of right answers: it is one of float32, perhaps."""


def right_of(record: Record, arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.bool_] | None, str]:
    """(n_test,) whether each test image is right, and no fault; or None, and why it cannot be told from the array.

    Args:
        record: the run's.
        arrays: its raw outputs. Without answers there is no fault: not every protocol keeps some.
    """
    found, said = arrays.get(CORRECT), [value for value in record.accuracies if math.isfinite(value)]
    if found is None or (found.ndim == 1 and not found.size and not said):  # of a network that says no class
        return None, ""
    return outcomes(found, said)


def outcomes(found: NDArray[Any], said: Iterable[float]) -> tuple[NDArray[np.bool_] | None, str]:
    """(n,) the outcomes of images, and no fault; or None, and why these are none.

    Args:
        found: 1 for each image that is right, 0 for each other.
        said: the shares of right ones that the record has, in %.
    """
    if found.ndim != 1 or not found.size:
        return None, f"expected one answer per test image, got shape {list(found.shape)}"
    if not np.isin(found, (0, 1)).all():
        return None, "expected 1 and 0 for right and wrong, got other numbers"
    share = 100 * float(found.mean(dtype=np.float64))
    other = next((value for value in said if abs(share - value) > ALIKE), None)
    if other is not None:
        return None, f"{share:.2f} % of it is right, and the record says {other:.2f} %"
    return found.astype(bool), ""
