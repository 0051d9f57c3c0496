"""Folds of the training part of a data set, so that settings are chosen without its test images."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from routebench.data._load import digests, load, occurring, told_of_lacking
from routebench.data.dataset import (
    SPLIT_SEED,
    Dataset,
    Divisible,
    Part,
    fingerprint,
    first_of,
    stratified_split,
)
from routebench.data.extracted import is_users
from routebench.data_names import FOLD
from routebench.errors import UserError, shown
from routebench.quantities import few
from routebench.registry import datasets


@datasets.register("fold:PATH")
def fold(path: str) -> Dataset[Any]:
    """One of several equal parts of another set's training images to test on, the others to train on: `fold:1/3:mnist`.

    None of that set's test images is in it. Every class gives its share to each part; a tenth of what is trained on is
    held out, as of other sets. Where several images show one object, objects are divided, and one of each class is
    held out. Of images that are composed of digits, digits are divided: images to test on are composed of those of the
    fold, and what the set holds out stays. `left_out` names classes that are too rare to be in every part.

    Raises:
        UserError: the name is another, there is no such set, its training images are made anew for every epoch and
            not of digits, some of them are test images, too, or no class has one for each fold.
    """
    part, colon, name = path.partition(":")
    number, slash, count = part.partition("/")
    fits = colon and slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) > 1
    if not fits or FOLD in name:
        raise UserError(f"{FOLD}{path}: expected {FOLD}NUMBER/COUNT:NAME, such as {FOLD}1/3:mnist")
    data = load(name)
    if is_users(name):
        _expect_apart(f"{FOLD}{path}", data)
    source = f"training images of these, fold {number} of {count} to test on: {data.source}"
    if isinstance(data.compose, Divisible):
        kept, tested = _split(data.compose.digits.labels, int(number), int(count))
        compose, images = data.compose.divided(kept, tested, seed=int(number))
        parts = (compose.example(), data.held_out, images)
        return Dataset(
            f"{FOLD}{path}", data.classes, *parts, fingerprint(*parts), source, compose, left_out=data.left_out
        )
    if data.compose is not None:
        raise UserError(
            f"{FOLD}{path}: expected a data set with fixed training images, got {name}, which makes new ones for every "
            "epoch"
        )
    whole = data.train.joined(data.held_out)
    if data.objects is not None:
        parts = _by_object(whole, data.objects, int(number), int(count))
        made = Dataset(f"{FOLD}{path}", data.classes, *parts, fingerprint(*parts), source)
    else:
        kept, tested = _split(whole.labels, int(number), int(count))
        made = Dataset.of(f"{FOLD}{path}", data.classes, whole.at(kept), whole.at(tested), source)
    return _told_of_rare(replace(made, left_out=data.left_out))


def _told_of_rare(made: Dataset[Any]) -> Dataset[Any]:
    """Adds to `left_out` which classes are tested and not trained on, or trained on and not tested or held out."""
    numbers = sorted(occurring(made.test.labels) - occurring(made.train.labels))
    some = few([shown(made.classes[number]) for number in numbers])
    told = f"No training {made.train.kind} of {made.name} show these classes, which are tested: {some}."
    return told_of_lacking(replace(made, left_out=" ".join(filter(None, (made.left_out, told if numbers else "")))))


def _expect_apart(name: str, data: Dataset[Any]) -> None:
    """Raises UserError for a set that hands out test images as training images."""
    tested = set(digests(data.test))
    shared = sum(digest in tested for part in (data.train, data.held_out) for digest in digests(part))
    if shared:
        raise UserError(
            f"{name}: expected training images that are not among the test images of {data.name}, got {shared:,} that "
            "are; settings are not chosen by test images: leave them out of one of the parts"
        )


def _by_object(images: Part, objects: torch.Tensor, number: int, count: int) -> tuple[Part, Part, Part]:
    """Images to train on, held out and to test on, none of which shows an object of another part."""
    which = torch.unique(objects, return_inverse=True)[1]
    labels = images.labels[first_of(which)]  # of each object
    kept, tested = _split(labels, number, count)
    trained, held_out = stratified_split(labels[kept], _held_out(labels, kept), SPLIT_SEED)
    train, held, test = (
        images.at(torch.isin(which, part).nonzero()[:, 0]) for part in (kept[trained], kept[held_out], tested)
    )
    return train, held, test


def _held_out(labels: torch.Tensor, kept: torch.Tensor) -> int:
    """The number of objects to hold out: one of each class; of each set of classes that several of those kept have."""
    if labels.ndim == 1:
        return len(torch.unique(labels))
    return max(1, int((torch.unique(labels[kept], dim=0, return_counts=True)[1] > 1).sum()))


def _split(labels: torch.Tensor, number: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The places of what is trained on, and of the fold."""
    known = labels.numpy()
    groups = known if known.ndim == 1 else np.unique(known, axis=0, return_inverse=True)[1].ravel()
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    groups = np.argsort(np.argsort(first, kind="stable"), kind="stable")[groups]  # by the place of their first item
    most = int(np.bincount(groups).max())
    if most < count:
        got = f"at most {most} of {len(groups):,} in all"
        told = f"expected training items of one class for each of {count} folds, got {got}"
        raise UserError(f"{FOLD}{number}/{count}: {told}; take fewer folds, add items, or leave classes out")
    fold = _stratified(groups, count)
    return torch.from_numpy(np.flatnonzero(fold != number)), torch.from_numpy(np.flatnonzero(fold == number))


def _stratified(groups: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The fold of each item, from 1: those of scikit-learn's `StratifiedKFold`, whose import takes over a second.

    Args:
        groups: (n,), classes, numbered by the place of their first item.
        count: the number of folds.
    """
    random = np.random.RandomState(SPLIT_SEED)  # as in `stratified_split`
    shares = [np.bincount(np.sort(groups)[start::count], minlength=groups.max() + 1) for start in range(count)]
    found = np.empty(len(groups), dtype=np.int64)
    for group, of_group in enumerate(np.transpose(shares)):
        drawn = np.repeat(np.arange(1, count + 1), of_group)
        random.shuffle(drawn)
        found[groups == group] = drawn
    return found
