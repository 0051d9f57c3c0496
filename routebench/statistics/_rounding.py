"""Makes values equal that differ only by rounding, for every test and every ranking."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

TOLERANCE = 1e-10
"""A share of the largest value: far above rounding, which is 1e-16 an operation, and far below any measurement."""


def settled(values: ArrayLike, largest: float | None = None) -> NDArray[np.float64]:
    """The values, with those equal up to rounding made equal to the last bit, zeros and opposite ones included.

    95.3 - 94.1 and 95.1 - 93.9 are both 1.2, but differ in floating point: a spread of 1e-14, and so a p-value of
    1e-29. Unlike `round`, this never separates neighbours at a rounding edge.

    >>> print(np.ptp([95.3 - 94.1, 95.1 - 93.9]) == 0, np.ptp(settled([95.3 - 94.1, 95.1 - 93.9], 95.3)) == 0)
    False True

    Args:
        values: finite, of any shape.
        largest: size of the numbers that they were computed from, if that is larger.
    """
    given = np.asarray(values, dtype=np.float64)
    sizes, place = np.unique(np.append(0.0, np.abs(given)), return_inverse=True)
    close = TOLERANCE * max(float(sizes[-1]), largest or 0.0)
    starts = np.append(True, np.diff(sizes) > close)
    first = sizes[starts][np.cumsum(starts) - 1]  # of each run of sizes that are close, its smallest
    merged = np.sign(given) * first[place[1:]].reshape(given.shape)
    return np.asarray(merged, dtype=np.float64)
