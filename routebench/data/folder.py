"""Any folder of images as a data set."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from routebench.data.dataset import SPLIT_SEED, Dataset, Images, stratified_split
from routebench.data.pictures import read_pictures
from routebench.errors import UserError
from routebench.registry import datasets

TEST_FRACTION = 0.2
SUFFIXES = frozenset([".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"])


@datasets.register("folder:PATH")
def folder(path: str) -> Dataset:
    """Your own images: one sub-folder per class, optionally below train/ and test/; `folder:PATH?size=28` sets a size.

    Sizes, formats, grey and colour may be mixed (`read_pictures` says how they become one). Images deeper inside a
    class folder belong to it; hidden files and files of other kinds are passed over. Without test/, a stratified
    fifth becomes the test part, the same in every run. An image that occurs more than once is used once, and one that
    is also in test/ is not trained on, so that no image is measured that was trained on; `source` says how many.

    The set is named `folder:` and the last part of the path: a result on a copy of an official set does not carry
    the official name.

    Raises:
        UserError: the folder is missing or empty, has a single class or too few images of one, a class of test/ is
            not in train/, an image cannot be read, or the size is no number.
    """
    place, side = _parsed(path)
    training, testing = _parts(place)
    train = _listed(training)
    test = _listed(testing, train.classes) if testing else _Listing(train.classes, [], [])
    pixels = torch.from_numpy(read_pictures(train.files + test.files, side))
    images = Images(pixels, torch.tensor(train.labels + test.labels))
    unique = _first_copies(images.pixels, first=range(len(train.files), len(images)))
    copies = len(images) - len(unique)
    of_train, of_test = unique[unique < len(train.files)], unique[unique >= len(train.files)]
    if not testing:
        _expect_enough(images.labels[of_train], train.classes, place, at_least=3)
        kept, taken = stratified_split(images.labels[of_train], TEST_FRACTION, SPLIT_SEED)
        of_train, of_test = of_train[kept], of_train[taken]
    _expect_enough(images.labels[of_train], train.classes, training, at_least=2)
    name = f"folder:{place.resolve().name}" + (f"?size={side}" if side else "")
    source = f"{len(images):,} image files in {place.resolve()}" + (f", {copies:,} copies left out" if copies else "")
    return Dataset.of(name, train.classes, images.at(of_train), images.at(of_test), source)


@dataclass(frozen=True)
class _Listing:
    classes: tuple[str, ...]
    files: list[Path]
    labels: list[int]


def _parsed(path: str) -> tuple[Path, int | None]:
    text, asked, side = path.partition("?size=")
    if asked and not (side.isdecimal() and 1 <= int(side) <= 1024):
        raise UserError(f"folder:{path}: expected a size in pixels from 1 to 1024 after '?size=', got {side!r}")
    try:
        place = Path(text).expanduser()
    except RuntimeError as error:
        raise UserError(f"folder:{path}: {text!r} names a home folder that is not there; write out the path") from error
    if not text or not place.is_dir():
        what = "is a file" if place.is_file() else "does not exist"
        raise UserError(f"folder:{path}: expected a folder with one sub-folder per class, but {text!r} {what}")
    return place, int(side) if asked else None


def _parts(place: Path) -> tuple[Path, Path | None]:
    """The folders of training and test classes; the second is None where the test part is still to be split off."""
    train, test = place / "train", place / "test"
    if not _subfolders(train) or _images_in(train, deep=False):
        return place, None
    others = [folder.name for folder in _subfolders(place) if folder not in {train, test}]
    if others:
        raise UserError(f"folder:{place}: expected only test/ beside train/, got {others[0]}/; rename or move it away")
    return train, test if test.is_dir() else None


def _listed(part: Path, known: tuple[str, ...] = ()) -> _Listing:
    """The images of every class below `part`, in the order of their names."""
    found = {folder.name: _images_in(folder, deep=True) for folder in _subfolders(part)}
    if not found:
        raise UserError(f"folder:{part}: expected one sub-folder of images per class, got no sub-folder")
    if not known and len(found) == 1:
        raise UserError(f"folder:{part}: expected at least two class sub-folders, got only {next(iter(found))}/")
    classes = known or tuple(found)
    for name, files in found.items():
        if not files:
            raise UserError(f"folder:{part}: expected images in {name}/, got none; add some or remove it")
        if name not in classes:
            raise UserError(f"folder:{part}: expected only classes of train/, got {name}/; add it there or remove it")
    labels = [classes.index(name) for name, files in found.items() for _ in files]
    return _Listing(classes, [file for files in found.values() for file in files], labels)


def _subfolders(place: Path) -> list[Path]:
    inside = place.iterdir() if place.is_dir() else ()
    return sorted(entry for entry in inside if entry.is_dir() and not entry.name.startswith((".", "__")))


def _images_in(place: Path, *, deep: bool) -> list[Path]:
    entries = place.rglob("*") if deep else place.iterdir()
    return sorted(file for file in entries if file.suffix.lower() in SUFFIXES and not file.name.startswith("."))


def _first_copies(pixels: torch.Tensor, first: range) -> torch.Tensor:
    """Sorted indices of one image each of all that are equal; those in `first` go before the others."""
    digests = [hashlib.sha256(image.data).digest() for image in np.ascontiguousarray(pixels.numpy())]
    seen: dict[bytes, int] = {}
    for index in [*first, *range(first.start)]:
        seen.setdefault(digests[index], index)
    return torch.tensor(sorted(seen.values()))


def _expect_enough(labels: torch.Tensor, classes: tuple[str, ...], place: Path, at_least: int) -> None:
    for name, count in zip(classes, torch.bincount(labels, minlength=len(classes)).tolist(), strict=True):
        if count < at_least:
            raise UserError(
                f"folder:{place}: expected {at_least} different images of class {name!r} or more, got {count}"
            )
