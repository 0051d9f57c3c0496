"""Rounding of floats: what arithmetic alone has made different counts as equal, in every test and every ranking."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

TOLERANCE = 1e-10
"""As a share of the largest value: far above rounding, which is 1e-16 an operation, and far below any measurement."""


def settled(values: ArrayLike, largest: float | None = None) -> NDArray[np.float64]:
    """The values, those equal but for rounding made equal to the last bit, zero and opposite ones included.

    95.3 - 94.1 and 95.1 - 93.9 are 1.2 to a person and two numbers to a computer, which makes a spread of 1e-14 and of
    that a p-value of 1e-29. Unlike `round`, it has no edge at which neighbours part.

    >>> print(np.ptp([95.3 - 94.1, 95.1 - 93.9]) == 0, np.ptp(settled([95.3 - 94.1, 95.1 - 93.9], 95.3)) == 0)
    False True

    Args:
        values: finite, of any shape.
        largest: the size of what they were computed from, if that is more than they are themselves.
    """
    given = np.asarray(values, dtype=np.float64)
    sizes, place = np.unique(np.append(0.0, np.abs(given)), return_inverse=True)
    close = TOLERANCE * max(float(sizes[-1]), largest or 0.0)
    starts = np.append(True, np.diff(sizes) > close)
    first = sizes[starts][np.cumsum(starts) - 1]  # of each run of sizes that are close, its smallest
    merged = np.sign(given) * first[place[1:]].reshape(given.shape)
    return np.asarray(merged, dtype=np.float64)
