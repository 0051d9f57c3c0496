"""Scenes of objects that are arrangements of parts, as poses of these parts: what a layer of parents is made for."""

from routebench.data import Dataset, Images, facts, pinned
from routebench.registry import datasets

from ..constellations import KINDS, PARTS, SLOTS, Constellation, draw, encoded

NAME = "constellations"
TRAIN, TEST = 20_000, 2_000
FINGERPRINT = "d5b1cae667f6f6fb"
TRAIN_SEED, TEST_SEED = 1, 2


@datasets.register(NAME, version=1)
@facts(train=18_000, held_out=2_000, test=TEST, shape=(7, PARTS, SLOTS), classes=KINDS)
def constellations() -> Dataset:
    """One object or two of eight kinds, as poses of their five parts in bytes, 5x8 of 7 channels; several labels.

    Every kind is another arrangement of the same five parts, so that the poses of parts alone tell objects apart.
    A row has the parts of one type in a random order, a channel one of six pose elements; the last is presence.
    """
    found = _dataset(NAME, Constellation())
    return pinned(NAME, found, (found.train, found.held_out, found.test), found.source, FINGERPRINT)


@datasets.register(f"{NAME}:PATH", version=1)
def others(path: str) -> Dataset:
    """`constellations` with other numbers: `constellations:objects=3&clutter=2&noise=0.05`, any of the three.

    `objects` is the most in a scene, `clutter` the number of parts in each scene that belong to none, `noise` the
    standard deviation of pose elements, of objects about 1 in size.

    Raises:
        UserError: a key is unknown, or a number is out of its range.
    """
    return _dataset(f"{NAME}:{path}", Constellation.of(path))


def _dataset(name: str, known: Constellation) -> Dataset:
    train, test = (_images(known, count, seed) for count, seed in ((TRAIN, TRAIN_SEED), (TEST, TEST_SEED)))
    kinds = tuple(f"kind {kind}" for kind in range(KINDS))
    return Dataset.of(name, kinds, train, test, "drawn by routebench from arrangements of its own")


def _images(known: Constellation, count: int, seed: int) -> Images:
    scenes = draw(known, count, seed)
    return Images(encoded(scenes), scenes.shown)
