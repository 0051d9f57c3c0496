"""Data sets by name."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any

from torch import Tensor

from routebench.data.dataset import Dataset, Images
from routebench.data.official import no_downloads
from routebench.data.seal import expect_unsealed, unsealed
from routebench.data.tokens import Tokens
from routebench.data.unused import ARRAYS, ARRAYS_ADVICE
from routebench.data_names import derived
from routebench.errors import FilesMissing, UserError, shown
from routebench.quantities import few
from routebench.registry import SHIPPED, datasets

LEAST_CLASSES = 2  # among training labels
MOST_KEPT = 4
"""Data sets."""

_declaring: list[set[str]] = []
"""One for each `declared_where_missing` that is open: the names of data sets whose size stood in."""


def load(name: str) -> Dataset[Any]:
    """The data set `name`, kept while nothing changes that it was read from.

    A folder of images is read again when its files or their times do, and a data set of a plug-in with the next plan.
    Official files and what is drawn have checksums and seeds, and are read once per process.

    Args:
        name: a registered name, or `folder:PATH` for a folder of images: what follows the colon goes to the loader
            that is registered as `folder:PATH`.

    Raises:
        UserError: no such data set (the nearest names are given), or it cannot be read, its training labels are of one
            class, or test images are sealed.
        FilesMissing: its files are not there.
    """
    expect_unsealed(name)
    declared = getattr(datasets[name], "declared", None) if _declaring and name in datasets else None
    asked = (name, os.environ.get("ROUTEBENCH_DATA"), Path.cwd())
    with unsealed():
        if declared is None:
            return _loaded(*asked, bool(_declaring))
        try:
            with _truthful():
                return _loaded(*asked, False)
        except FilesMissing:
            _declaring[-1].add(name)
            found: Dataset[Any] = declared(name)
            return found


@contextmanager
def declared_where_missing() -> Iterator[set[str]]:
    """Lets `load` give a data set of the declared size, without a picture, where files are missing; downloads nothing.

    Yields:
        names of data sets, which grow as this happens.
    """
    names: set[str] = set()
    with no_downloads():
        _declaring.append(names)
        try:
            yield names
        finally:
            _declaring.pop()


def stands_in(name: str) -> bool:
    """Tells whether the size of a set may stand in for it now, and notes that it does.

    Args:
        name: name of the data set.
    """
    for names in _declaring[-1:]:
        names.add(name)
    return bool(_declaring)


@contextmanager
def _truthful() -> Iterator[None]:
    """Lets a loader that makes a set of others have no stand-in for these: it is then to have one itself."""
    held = _declaring[:]
    _declaring.clear()
    try:
        yield
    finally:
        _declaring.extend(held)


def _expect_no_path(name: str) -> None:
    """Raises UserError for the path of a file of arrays, or of a folder, in place of a name."""
    if name in datasets:
        return
    if Path(name).suffix.lower() in ARRAYS:
        raise UserError(f"expected the name of a data set, got the file {name!r}; {ARRAYS_ADVICE}")
    if name and os.path.isdir(name):  # noqa: PTH112  # `Path` raises for names too long for any file
        raise UserError(f"unknown data set {name!r}; it is a folder: folder:{name} reads the images in it")


@dataclass(frozen=True)
class _Kept:
    """A data set, and the state of all that it was read from: of its own name, and of each that its loader loaded."""

    data: Dataset[Any]
    states: Mapping[str, object]


_kept: dict[tuple[object, ...], _Kept] = {}
"""Data sets by all that a name's meaning depends on; the last used at the end."""
_reading: list[dict[str, object]] = []
"""One for each loader that runs: the states of what it loads."""
_lock = RLock()
_plans = count(1)
_plan = next(_plans)


def read_again() -> None:
    """Has data sets of plug-ins read again from now on, since nobody knows which files they are read from."""
    global _plan  # noqa: PLW0603  # of the process, as what is kept
    _plan = next(_plans)


def _loaded(name: str, root: str | None, folder: Path, stand_ins: bool) -> Dataset[Any]:
    """The data set, kept while the state of what it was read from stays.

    Args:
        name: name of the data set.
        root: folder of the files of data sets.
        folder: the place where relative paths start.
        stand_ins: whether the size of a set may stand in for it.
    """
    with _lock:
        return _kept_or_read(name, (name, root, folder, stand_ins)).data


def _kept_or_read(name: str, key: tuple[object, ...]) -> _Kept:
    kept = _kept.pop(key, None)
    if kept is None or any(_state(one) != then for one, then in kept.states.items()):
        states = {name: _state(name)}
        _reading.append(states)
        try:
            kept = _Kept(_read(name), states)
        finally:
            _reading.pop()
    for states in _reading[-1:]:
        states.update(kept.states)
    _kept[key] = kept
    for oldest in list(_kept)[:-MOST_KEPT]:
        del _kept[oldest]
    return kept


def reads(name: str) -> None:
    """Tells that the loader which runs reads the files of a data set that it does not load."""
    for states in _reading[-1:]:
        states[name] = _state(name)


def _state(name: str) -> object:
    """State that changes when a data set may have: its loader, and files it tells; of a plug-in, with each plan."""
    kind, path = registered(name)
    loader = datasets.entries[kind] if kind in datasets else None  # not as a look-up wraps it
    stamp = getattr(loader, "stamp", None)
    own = _plan if datasets.origin(kind) != SHIPPED else None
    return loader, own, None if stamp is None else stamp(path)


def registered(name: str) -> tuple[str, str]:
    """The name of a loader, and what it is given, if it takes anything."""
    kind, colon, path = name.partition(":")
    return (f"{kind}:PATH", path) if colon and f"{kind}:PATH" in datasets else (name, "")


def loader_of(name: str) -> tuple[str, str]:
    """The loader, and what it is given, of the set whose items these are: of `few:500:mnist` that of `mnist`.

    Args:
        name: name of a data set.
    """
    found = derived(name)
    return loader_of(found.data) if found and found.part else registered(name)


def _read(name: str) -> Dataset[Any]:
    kind, path = registered(name)
    if kind == name:
        _expect_no_path(name)
    loader = datasets[kind]
    try:
        data = loader() if kind == name else loader(path)
    except UserError as error:  # of what a plug-in builds, which does not know its name
        if type(error) is not UserError or datasets.origin(kind) == SHIPPED or repr(name) in str(error):
            raise
        raise UserError(f"data set {name!r}: {error}") from error
    if not isinstance(data, Dataset):
        raise UserError(f"data set {name!r}: expected its loader to return a routebench.data.Dataset, got {data!r:.80}")
    if datasets.origin(kind) != SHIPPED:
        data = data.looked_at(name)
        data = data if any(_declaring) else told_of_test(data)  # black images stand in for others
    if data.compose is None and not _declaring:  # of a composed set, `train` is one example; of a stand-in, no data
        _expect_classes(name, data)
    return data


def told_of_test(data: Dataset[Any]) -> Dataset[Any]:
    """Adds to `left_out` how many test items are in other parts, too, and which classes are not tested or held out.

    Args:
        data: a user's own set.

    Raises:
        UserError: all test items are of one class.
    """
    return told_of_lacking(_told_of_copies(data))


def told_of_lacking(data: Dataset[Any]) -> Dataset[Any]:
    """Adds to `left_out` which classes of the training part the test or the held-out part lacks.

    Raises:
        UserError: all test items are of one class.
    """
    train, test = occurring(data.train.labels), occurring(data.test.labels)
    if len(test) < LEAST_CLASSES <= len(train) and data.test.labels.ndim == 1:
        got = f"{shown(data.classes[next(iter(test))])} alone" if test else "none"
        told = f"expected test {data.test.kind} of two classes at least, got {got}; add some of the others"
        raise UserError(f"data set {data.name!r}: {told}")
    every = [data.left_out]
    for name, part in (("test", data.test), ("held-out", data.held_out)):
        lacking = [shown(data.classes[number]) for number in sorted(train - occurring(part.labels))]
        if lacking and len(part) and len(train) >= LEAST_CLASSES:  # of one class, `load` tells
            of = f"these of its {len(data.classes):,} classes"
            every.append(f"No {name} {part.kind} of {data.name} show {of}: {few(lacking)}.")
    return replace(data, left_out=" ".join(filter(None, every)))


def occurring(labels: Tensor) -> set[int]:
    """The numbers of the classes of some items.

    Args:
        labels: (n,) numbers of classes, or (n, classes) truth values.
    """
    return {*(labels.any(dim=0).nonzero()[:, 0] if labels.ndim == 2 else labels).tolist()}


def _told_of_copies(data: Dataset[Any]) -> Dataset[Any]:
    """The same set, which tells in `left_out` how many of its test items are in other parts, too.

    Nothing is taken out: the set is the user's, and others may have its fingerprint.
    """
    tested = [*digests(data.test)]
    parts = {"training": {*digests(data.train)}, "held-out": {*digests(data.held_out)}}
    counts = {part: sum(digest in known for digest in tested) for part, known in parts.items()}
    if not any(counts.values()):
        return data
    kind = data.test.kind
    found = " and ".join(f"{count:,} are {part} {kind}, too" for part, count in counts.items() if count)
    told = (
        f"Of {len(tested):,} test {kind} of {data.name}, {found}: what is measured on these does not hold for new ones."
    )
    return replace(data, left_out=" ".join(filter(None, (data.left_out, told))))


def digests(part: Images | Tokens) -> Iterator[bytes]:
    """A digest of each item, the same for those that are equal.

    Args:
        part: a part of a data set.
    """
    return (hashlib.sha256(item).digest() for item in part.each())


def _expect_classes(name: str, data: Dataset[Any]) -> None:
    """Raises UserError for labels in a form for several classes where each item has one, and for a single class.

    Of the latter, every network is right.
    """
    parts, labels = (data.train, data.held_out, data.test), data.train.labels
    if all(part.labels.ndim == 2 and bool((part.labels.sum(dim=1) == 1).all()) for part in parts):
        raise UserError(
            f"data set {name!r}: expected labels (n,), for each item has one class, got one-hot rows; write the number "
            "of each class, as in labels.argmax(1)"
        )
    trained = [*occurring(labels)]
    if len(trained) < LEAST_CLASSES:
        got = f"{trained[0]} alone" if trained else "none"
        raise UserError(f"data set {name!r}: expected training labels of at least two classes, got {got}")
