"""Keeps test images from code that chooses settings."""

from collections.abc import Iterator
from contextlib import contextmanager

from routebench.data_names import derived, whole_name
from routebench.errors import UserError

_seals: list[str] = []
"""The data set of each `sealed_test_images` that is open. It holds for all threads of this process."""


@contextmanager
def sealed_test_images(name: str) -> Iterator[None]:
    """Lets no data set but folds of one set's training images be loaded, made, or asked for its test part.

    Folds of another set are refused too: its training images may be the test images of this one. It guards against code
    that looks at test images because it knows no better. Code that reads files itself, or kept images from before, is
    not held back.

    Args:
        name: the data set whose folds may be loaded.
    """
    _seals.append(name)
    try:
        yield
    finally:
        _seals.remove(name)


@contextmanager
def unsealed() -> Iterator[None]:
    """Lets a loader read the set that it takes some images of."""
    held = _seals[:]
    _seals.clear()
    try:
        yield
    finally:
        _seals.extend(held)


def expect_unsealed(name: str) -> None:
    """Raises UserError for a data set with test images, while these are sealed."""
    fold = derived(whole_name(name))
    if any(fold is None or fold.part != "fold" or fold.data != allowed for allowed in _seals):
        raise UserError(
            f"data set {name!r}: its test images are sealed while settings are tuned, a plug-in is imported, or a "
            "network runs, which sees no images but those that it is given"
        )
