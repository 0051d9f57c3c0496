"""Some images of a data set, so that a preset takes as long whatever data is named."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator

from routebench.data._load import load, reads
from routebench.data.dataset import Compose, Dataset, Images, Part, fingerprint
from routebench.data.folder import some_of_folder
from routebench.data.shares import shares, some_of
from routebench.data_names import FEW, TAKE, whole_name
from routebench.errors import UserError
from routebench.registry import datasets

FOLDER = "folder:"
"""Start of the name of a folder of images."""


@dataclass(frozen=True)
class Taken(Dataset[Part]):
    """Some images of a data set; `whole` is how many it has."""

    whole: int = 0


@datasets.register("take:PATH")
def take(path: str) -> Dataset[Any]:
    """Some images of another set, the same in every run: `take:5000:cifar10`. A set that has no more is taken whole.

    Each part and each class gives its share, to the nearest image. Of a folder, files are chosen before any is read.

    Raises:
        UserError: no number, no such set, or too few images to have one of each class.
    """
    number, colon, name = path.partition(":")
    if not colon or not number.isdecimal() or not int(number) or name.startswith(TAKE):
        raise UserError(f"{TAKE}{path}: expected {TAKE}NUMBER:NAME, such as {TAKE}5000:cifar10")
    return _some(name, int(number))


@datasets.register("few:PATH")
def few(path: str) -> Dataset[Any]:
    """Few training images of another set, and all of its test images: `few:500:cifar10`, the same in every run.

    The number counts held-out images, too. Each class gives its share, to the nearest image.

    Raises:
        UserError: no number, no such set, too few images to have one of each class, or training images that are made
            anew for every epoch.
    """
    number, colon, name = path.partition(":")
    if not colon or not number.isdecimal() or not int(number) or name.startswith((FEW, TAKE)):
        raise UserError(f"{FEW}{path}: expected {FEW}NUMBER:NAME, such as {FEW}500:cifar10")
    data, count = load(name), int(number)
    known = len(data.train) + len(data.held_out)
    if data.compose is not None or count > known:
        found = "images that are made anew for every epoch" if data.compose is not None else f"{known:,} of them"
        raise UserError(f"{FEW}{path}: expected at least {count:,} fixed training images of {name}, got {found}")
    return replace(_some_of_set(data, count, parts=2), name=f"{FEW}{path}")


def at_most(name: str, count: int | None) -> tuple[str, Dataset[Any]]:
    """A data set, or some of its images where it has more than `count`; with the name by which this is loaded.

    A name that says how many to take has the last word.

    Args:
        name: name of the data set.
        count: the most images, training, held-out and test images together; None for all.

    Raises:
        UserError: there is no such data set, or so few images leave a class without one.
    """
    wanted = name if count is None or name.startswith(TAKE) else f"{TAKE}{count}:{name}"
    data = load(wanted)
    return wanted if isinstance(data, Taken) else whole_name(wanted), data


def _some(name: str, count: int) -> Dataset[Any]:
    if name.startswith(FOLDER):
        reads(name)
        few, whole = some_of_folder(name.removeprefix(FOLDER), count)
        return load(name) if few is None else _named(few, count, whole)
    data = load(name)
    whole = len(data.train) + len(data.held_out) + len(data.test)
    return data if whole <= count else _named(_some_of_set(data, count), count, whole)


def _named(data: Dataset[Any], count: int, whole: int) -> Taken[Any]:
    return Taken(**{**vars(data), "name": f"{TAKE}{count}:{data.name}"}, whole=whole)


def _some_of_set(data: Dataset[Any], count: int, parts: int = 3) -> Dataset[Any]:
    """Some images of a set.

    Args:
        data: the set.
        count: how many.
        parts: how many of its parts give their share: training, held-out and test; the rest stay whole.
    """
    all_parts = (data.train, data.held_out, data.test)
    sizes = [len(part) for part in all_parts]
    counts = [*shares(sizes[:parts], count, at_least=1), *sizes[parts:]]
    every_class = 0 if data.train.multi_label else 1
    chosen = [
        some_of(part.labels, size, at_least) if size < len(part) else torch.arange(len(part))
        for part, size, at_least in zip(all_parts, counts, (every_class, 0, 0), strict=True)
    ]
    left = torch.cat([chosen[0], len(data.train) + chosen[1]])
    train, held_out, test = (part.at(indices) for part, indices in zip(all_parts, chosen, strict=True))
    return Dataset(
        name=data.name,
        classes=data.classes,
        train=train,
        held_out=held_out,
        test=test,
        fingerprint=fingerprint(train, held_out, test),
        source=f"{count:,} of these images: {data.source}",
        left_out=data.left_out,
        compose=None if data.compose is None else _Fewer(data.compose, len(train)),
        conditions={name: values[chosen[2]] for name, values in data.conditions.items()},
        objects=None if data.objects is None else data.objects[left],
    )


@dataclass(frozen=True)
class _Fewer:
    """The first `count` of the images that are composed for an epoch."""

    compose: Compose
    count: int

    def __call__(self, generator: Generator) -> Images:
        return self.compose(generator).at(torch.arange(self.count, device=generator.device))
