"""Parts of a measurement that may fail without the rest: their values are missing, with the reason."""

from collections.abc import Iterator
from contextlib import contextmanager

from routebench.atomic import StoreFull
from routebench.errors import one_line
from routebench.protocols.base import Metric

ABSENT = "absent"
"""The metric that stands for what could not be measured: `what` it is and `why` are its coordinates."""


@contextmanager
def spared(missing: list[Metric], what: str, test_iterations: int | None = None) -> Iterator[None]:
    """Lets what is measured within fail alone: what it raises becomes a metric `ABSENT`.

    Args:
        missing: gets that metric.
        what: name of what is measured, in words.
        test_iterations: number with which it is measured, where these may differ from training.

    Raises:
        StoreFull: the disk takes no more, which ends everything.
    """
    try:
        yield
    except StoreFull:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a method does costs this value and no other
        where: dict[str, int | str] = {"what": what, "why": one_line(error)}
        missing.append(Metric.of(ABSENT, "", 1, test_iterations=test_iterations, where=where))
