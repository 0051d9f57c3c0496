"""Any folder of images as a data set."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from routebench.data._load import told_of_lacking
from routebench.data.dataset import SPLIT_SEED, Dataset, Images, fingerprint, stratified_split
from routebench.data.pictures import read_pictures
from routebench.data.shares import shares, some_of
from routebench.data.unused import ARRAYS, ARRAYS_ADVICE, HIDDEN, counted, hardly_apart, is_system, looks, near, unused
from routebench.errors import UserError, nearest, shown
from routebench.received import permitted
from routebench.registry import datasets

TEST_FRACTION = 0.2
LEAST = 3  # different images of a class that a test part is split off
SUFFIXES = frozenset([".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"])
TRAIN, HELD_OUT, TEST = "train", "val", "test"
PARTS = {TRAIN: ("train", "training"), HELD_OUT: ("val", "valid", "validation"), TEST: ("test", "testing")}
"""Names that the folder of each part may have, see `looks`."""
ENDS = re.compile("(sets?|data|images?|imgs?)$")
"""Ends of words that leave a part what it is, as in `trainset`."""


@datasets.register("folder:PATH")
def folder(path: str) -> Dataset:
    """Your own images: a sub-folder per class, optionally below train/, val/, test/; `folder:PATH?size=28` sets a size.

    Sizes, formats, grey and colour may be mixed (`read_pictures` says how they become one). Images deeper inside a
    class folder belong to it. `left_out` counts and names what lies there and is not used: hidden files and folders,
    files of other kinds, images in no class's folder, further pages of a file, copies. What operating systems write is
    passed over.

    Names of parts may be written as in `PARTS`. With val/ and test/, selection is by val/; with one of them, that is
    the test part, and a stratified tenth of train/ is held out. Without either, a stratified fifth becomes the test
    part first. All of it is the same in every run.

    An image that occurs more than once is used once: in test/ if it is there, else in val/ if it is there, so that no
    image is measured that was trained on. `left_out` says how many, and how many had another class.

    The set is named `folder:` and the last part of the path: a result on a copy of an official set does not carry
    the official name.

    Raises:
        UserError: the folder is missing or empty, it or test/ has a single class, or too few images of one, its classes
            are parts under other names, a class of val/ or test/ is not in train/, a folder or an image cannot be read,
            or the size is no number.
    """
    found = _found(path)
    return told_of_lacking(_read(found, f"{found.count:,} image files in {found.place.resolve()}"))


def _stamp(path: str) -> str:
    """Changes when a file of the folder is added, removed or written, or its time changes; empty without a folder."""
    place = path.partition("?size=")[0]
    try:
        files = _files_below(str(Path(place).expanduser()))
        told = sorted(f"{file.path} {_stat(file)}" for file in files)
    except (OSError, RuntimeError):  # the latter of a home folder that is not there
        return ""
    return hashlib.sha256("\n".join(told).encode(errors="surrogateescape")).hexdigest()


def _files_below(folder: str, links: int = 2) -> Iterator[os.DirEntry[str]]:
    """Files in a folder; as images are read, links to the folders of parts and classes are followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=links > 0) and not entry.name.startswith(HIDDEN):
                yield from _files_below(entry.path, links - 1)
            else:
                yield entry


def _stat(file: os.DirEntry[str]) -> tuple[int, ...]:
    """Size and times; none of a link to nothing."""
    try:
        known = file.stat()
    except OSError:
        return ()
    return known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino


vars(folder)["stamp"] = _stamp


def some_of_folder(path: str, count: int) -> tuple[Dataset | None, int]:
    """The data set `folder:PATH` of `count` of its files, of each part and class its share; and how many files it has.

    The others are not read. None where it has no more.

    Args:
        path: path of the folder.
        count: number of files to read.

    Raises:
        UserError: as for the whole folder.
    """
    found = _found(path)
    if found.count <= count:
        return None, found.count
    counts = shares([len(part) for part in found.parts.values()], count, at_least=1)
    every_class = (LEAST, *(0 for _ in found.parts))
    parts = {
        name: part.some(size, at_least)
        for (name, part), size, at_least in zip(found.parts.items(), counts, every_class, strict=False)
    }
    source = f"{count:,} of {found.count:,} image files in {found.place.resolve()}"
    return _read(replace(found, parts=parts), source), found.count


@dataclass(frozen=True)
class _Listing:
    """The image files of one part, with the numbers of their classes."""

    files: Sequence[Path] = ()
    labels: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.files)

    def some(self, count: int, at_least: int) -> "_Listing":
        """The listing of so many of the files, see `some_of`."""
        if count == len(self):
            return self
        chosen = some_of(torch.tensor(self.labels), count, at_least).tolist()
        return _Listing([self.files[index] for index in chosen], [self.labels[index] for index in chosen])


@dataclass(frozen=True)
class _Found:
    """Content of a folder, before any image is read.

    Args:
        place: the folder.
        side: size of all images, in pixels; None for the common size.
        classes: names.
        parts: `TRAIN`, and those of `HELD_OUT` and `TEST` that are there.
        unused: what else lies there, by kind, in words.
    """

    place: Path
    side: int | None
    classes: tuple[str, ...]
    parts: Mapping[str, _Listing] = field(repr=False)
    unused: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the data set."""
        return f"folder:{self.place.resolve().name}" + (f"?size={self.side}" if self.side else "")

    @property
    def count(self) -> int:
        """Image files in all parts."""
        return sum(map(len, self.parts.values()))


def _found(path: str) -> _Found:
    try:
        place, side = _parsed(path)
        folders = _parts(place)
        files = {part: _images_of_classes(folder) for part, folder in folders.items()}
    except OSError as error:
        told = f"cannot read {error.filename} ({error.strerror}); make it readable, or move it away"
        raise UserError(f"folder:{path}: {told}") from error
    classes = tuple(files[TRAIN])
    if len(classes) == 1:
        raise UserError(f"folder:{folders[TRAIN]}: expected at least two class sub-folders, got only {classes[0]}/")
    parts = {part: _listing(folders[part], found, classes) for part, found in files.items()}
    linked = [*folders.values(), *(folders[part] / name for part, found in files.items() for name in found)]
    used = [file for part in parts.values() for file in part.files]
    return _Found(place, side, classes, parts, tuple(unused(place, used, SUFFIXES, linked)))


def _parsed(path: str) -> tuple[Path, int | None]:
    text, asked, side = path.partition("?size=")
    if asked and not (side.isdecimal() and 1 <= int(side) <= 1024):
        raise UserError(f"folder:{path}: expected a size in pixels from 1 to 1024 after '?size=', got {side!r}")
    try:
        place = Path(text).expanduser()
    except RuntimeError as error:
        raise UserError(f"folder:{path}: {text!r} names a home folder that is not there; write out the path") from error
    if not text or not permitted(place, f"folder:{path}").is_dir():
        what = f"does not exist{near(place.name, place.parent)}"
        if place.is_file():
            what = "is a file" + (f": {ARRAYS_ADVICE}" if place.suffix.lower() in ARRAYS else "")
        raise UserError(f"folder:{path}: expected a folder with one sub-folder per class, but {text!r} {what}")
    return place, int(side) if asked else None


def _parts(place: Path) -> dict[str, Path]:
    """The folder of each part; `place` itself is the training part where classes lie in it."""
    named = {part: [folder for folder in _subfolders(place) if looks(folder.name) in PARTS[part]] for part in PARTS}
    alone = sum(map(len, named.values())) == len(_subfolders(place))  # else a class may be called train
    if not any(_subfolders(train) and (alone or not _images_in(train, deep=False)) for train in named[TRAIN]):
        return {TRAIN: place}
    for several in named.values():
        if len(several) > 1:
            two = " and ".join(f"{folder.name}/" for folder in several[:2])
            raise UserError(f"folder:{place}: expected one folder for each part, got {two}; rename or move one away")
    found = {part: folders[0] for part, folders in named.items() if folders}
    others = [folder.name for folder in _subfolders(place) if folder not in found.values()]
    if others:
        told = f"only val/ and test/ beside {found[TRAIN].name}/, got {others[0]}/; rename or move it away"
        raise UserError(f"folder:{place}: expected {told}")
    if HELD_OUT in found and TEST not in found:
        found[TEST] = found.pop(HELD_OUT)
    return found


def _images_of_classes(part: Path) -> dict[str, list[Path]]:
    """The image files of every class, in the order of their names."""
    found = {folder.name: _images_in(folder, deep=True) for folder in _subfolders(part)}
    if not found:
        got = "images that are in none" if _images_in(part, deep=False) else "no sub-folder"
        others = unused(part, (), SUFFIXES)
        got += f", but {', '.join(others)}" if others and got == "no sub-folder" else ""
        raise UserError(f"folder:{part}: expected one sub-folder of images per class, got {got}{_on_arrays(part)}")
    for name, files in found.items():
        if not files:
            others = unused(part / name, (), SUFFIXES)
            got = f"none, but {', '.join(others)}" if others else "none"
            way = _on_arrays(part / name) or "; add some or remove it"
            raise UserError(f"folder:{part}: expected images in {name}/, got {got}{way}")
    seen = dict[str, str]()
    for name in found:
        if told := hardly_apart(one := seen.setdefault(looks(name), name), name):
            way = "join them, or rename one"
            raise UserError(f"folder:{part}: expected names that look different, got {one}/ and {name}/{told}; {way}")
    _expect_no_parts(part, found)
    return found


def _expect_no_parts(place: Path, found: Mapping[str, Sequence[Path]]) -> None:
    """Raises UserError where the folders of classes are those of parts: by their names, or as all hold the same ones.

    A class may be called `train` beside others, with images of its own.
    """
    names = [*found]
    hollow = [name for name, files in found.items() if all(file.parent != place / name for file in files)]
    inner = [{looks(folder.name) for folder in _subfolders(place / name)} for name in names]
    parts = {name: part for name in names if (part := _part_named(name))}
    if len({parts[name] for name in parts if name in hollow or len(parts) == len(names)}) > 1:
        got = f"{', '.join(f'{name}/' for name in parts)}, whose names are those of parts"
    elif hollow == names and len(names) > 1 and len(inner[0]) > 1 and inner.count(inner[0]) == len(names):
        got = f"{', '.join(f'{name}/' for name in names[:4])}, which all hold {' and '.join(sorted(inner[0])[:2])}"
    else:
        return
    way = "rename parts to train/ and test/, or move images up into the folders of their classes"
    raise UserError(f"folder:{place}: expected train/, val/ and test/, or class folders with images, got {got}; {way}")


def _part_named(name: str) -> str:
    """The part that a name such as `training_set`, `train2017` or `TestImages` is of; empty if none."""
    words = {ENDS.sub("", looks(word)) for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}
    return next((part for part in PARTS if words & {*PARTS[part]}), "")


def _on_arrays(place: Path) -> str:
    """Advice on NumPy arrays, where some lie there; else empty."""
    return f"; {ARRAYS_ADVICE}" if any(file.suffix.lower() in ARRAYS for file in place.rglob("*")) else ""


def _listing(part: Path, found: Mapping[str, Sequence[Path]], classes: Sequence[str]) -> _Listing:
    for name in found:
        if name not in classes:
            same = next(filter(None, (hardly_apart(one, name) for one in classes)), "")
            told = f"{same}; rename it as there" if same else f"; add it there or remove it{nearest(name, classes)}"
            raise UserError(f"folder:{part}: expected only classes of train/, got {name}/{told}")
    labels = [classes.index(name) for name, files in found.items() for _ in files]
    return _Listing([file for files in found.values() for file in files], labels)


def _subfolders(place: Path) -> list[Path]:
    seen = (entry for entry in place.iterdir() if not entry.name.startswith(HIDDEN) and not is_system(entry.name))
    return sorted(entry for entry in seen if entry.is_dir())


def _images_in(place: Path, *, deep: bool) -> list[Path]:
    """Image files by their names. What is no file, such as a pipe, is passed over; a link to nothing is read later."""
    found = []
    for folder, inner, names in os.walk(place, onerror=_raise):
        inner[:] = [name for name in inner if deep and not name.startswith(HIDDEN) and not is_system(name)]
        files = (Path(folder, name) for name in names if not name.startswith("."))
        found += [file for file in files if file.suffix.lower() in SUFFIXES and (file.is_file() or not file.exists())]
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def _read(found: _Found, source: str) -> Dataset:
    """The data set of the files that were found."""
    parts = [found.parts.get(part, _Listing()) for part in PARTS]
    files = [file for part in parts for file in part.files]
    labels = torch.tensor([label for part in parts for label in part.labels])
    pictures = read_pictures(files, found.side)
    images = Images(torch.from_numpy(pictures.pixels), labels)
    owner = torch.arange(len(PARTS)).repeat_interleave(torch.tensor([len(part) for part in parts]))
    copies = _Copies(files, labels, _first_copies(images.pixels, owner), found)
    train, held_out, test = (copies.kept_of(owner == number) for number in range(len(PARTS)))
    if TEST not in found.parts:
        copies.expect_enough(train, owner == 0, at_least=LEAST)
        kept, taken = stratified_split(labels[train], TEST_FRACTION, SPLIT_SEED)
        train, test = train[kept], train[taken]
    told = [*found.unused, *_pages(files, pictures.pages, found.place), *filter(None, [str(copies)])]
    left_out = f"Not used of {found.name}: {', '.join(told)}." if told else ""
    if HELD_OUT not in found.parts:
        copies.expect_enough(train, owner == 0, at_least=2)
        data = Dataset.of(found.name, found.classes, images.at(train), images.at(test), source)
        return replace(data, left_out=left_out)
    copies.expect_enough(train, owner == 0, at_least=1)
    if not len(held_out):
        raise UserError(f"folder:{found.place}: expected images in val/ that are not in test/ too, got none; add some")
    three = images.at(train), images.at(held_out), images.at(test)
    return Dataset(found.name, found.classes, *three, fingerprint=fingerprint(*three), source=source, left_out=left_out)


def _pages(files: Sequence[Path], pages: Sequence[int], place: Path) -> list[str]:
    """Note on files with several pages, of which all but the first are not used."""
    several = [file.relative_to(place) for file, count in zip(files, pages, strict=True) if count > 1]
    more = sum(pages) - len(pages)
    pages_of = f"{counted(more, 'further page', 'further pages')} of {counted(len(several), 'file', 'files')}"
    return [f"{pages_of} (such as {shown(several[0])})"] if several else []


def _first_copies(pixels: Tensor, owner: Tensor) -> Tensor:
    """(n,), for each image the one of all that are equal to it which is kept: in the last part, the first there."""
    digests = [hashlib.sha256(image.data).digest() for image in np.ascontiguousarray(pixels.numpy())]
    seen: dict[bytes, int] = {}
    for index in owner.argsort(descending=True, stable=True).tolist():
        seen.setdefault(digests[index], index)
    return torch.tensor([seen[digest] for digest in digests])


@dataclass(frozen=True)
class _Copies:
    """Images that are the same as others.

    Args:
        files, labels: files and labels of all images.
        first: the number, for each, of the image that is kept in its place; its own if it is kept.
        found: the folder's content that they are from.
    """

    files: Sequence[Path]
    labels: Tensor
    first: Tensor
    found: _Found

    def __str__(self) -> str:
        left_out = self.first != torch.arange(len(self.files))
        contrary = int((self.labels[self.first] != self.labels).sum())
        copies = counted(int(left_out.sum()), "copy", "copies") if left_out.any() else ""
        return copies + (f" ({contrary:,} of them in another class)" if contrary else "")

    def kept_of(self, part: Tensor) -> Tensor:
        """The numbers of the images of a part that are kept."""
        return (part & (self.first == torch.arange(len(self.files)))).nonzero()[:, 0]

    def expect_enough(self, kept: Tensor, part: Tensor, at_least: int) -> None:
        """Raises UserError for a class with fewer images in `kept`, and says which copies in the part are to blame."""
        counts = torch.bincount(self.labels[kept], minlength=len(self.found.classes)).tolist()
        for label, (name, count) in enumerate(zip(self.found.classes, counts, strict=True)):
            if count < at_least:
                told = f"expected {at_least} different images of class {name!r} or more, got {count}"
                raise UserError(f"folder:{self.found.place}: {told}{self._why(part & (self.labels == label))}")

    def _why(self, files: Tensor) -> str:
        copies = (files & (self.first != torch.arange(len(self.files)))).nonzero()[:, 0].tolist()
        if not copies:
            return ""
        pair = copies[0], int(self.first[copies[0]])
        one, other = (self.files[index].relative_to(self.found.place) for index in pair)
        advice = (
            "" if self.labels[pair[0]] == self.labels[pair[1]] else "; an image has one class, remove one of the two"
        )
        return f": {len(copies)} of its {int(files.sum())} files are copies, such as {one} of {other}{advice}"
