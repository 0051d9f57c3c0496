"""Data sets that are made from others, and must come out the same everywhere."""

from routebench.data.dataset import Dataset, Images, fingerprint
from routebench.errors import UserError


def pinned(name: str, base: Dataset, parts: tuple[Images, Images, Images], source: str, expected: str) -> Dataset:
    """A data set that is made from another one, and comes out the same on every machine.

    Args:
        name: name of the new data set.
        base: the data set that it is made from, which gives the classes.
        parts: training, held-out and test images.
        source: where the images come from, in words.
        expected: the fingerprint that the parts must have.

    Raises:
        UserError: it did not.
    """
    found = fingerprint(*parts)
    if found != expected:
        raise UserError(
            f"{name}: expected the fingerprint {expected}, got {found}: this installation makes other images, so that "
            "results would not compare; please report it"
        )
    return Dataset(name, base.classes, *parts, fingerprint=found, source=source)
