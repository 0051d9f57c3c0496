"""Features of a data set in one file, written so that an extraction can be killed at any time and goes on."""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from routebench.atomic import StoreFull, alone, clear_unfinished, made_folder, write_text
from routebench.data.backbones import Pretrained
from routebench.data.dataset import Dataset, Images
from routebench.data.mapped import mapped
from routebench.data.origins import DIGEST, ORIGIN, UNKNOWN, as_begun, facts_of
from routebench.errors import FULL, UserError, shown
from routebench.quantities import spoken
from routebench.received import from_json, open_plain, read_plain
from routebench.terminal import note

BATCH = 64
"""Images in a pass of the network."""
EVERY = 16
"""Batches between two notes of how far it is, at most."""
PATIENCE = 10
"""Seconds between two lines that tell so; and between two notes, where batches take long."""
NOTE = 8192
"""Bytes that a note of how far it is takes on a disk at most, beside the header."""
TYPES = {"float16": "F16", "float32": "F32", "int64": "I64", "uint8": "U8"}
"""Types as safetensors names them."""


class _Progress:
    """Tells on standard error how far an extraction is: at once, then every ten seconds, and at the end."""

    def __init__(self) -> None:
        self._began, self._first, self._last = time.monotonic(), -1, -math.inf

    def __call__(self, done: int, total: int) -> None:
        """Tells that so many images are done of all."""
        now = time.monotonic()
        if self._first < 0:
            self._began, self._first = now, done
        if now - self._last < PATIENCE and done < total:
            return
        self._last = now
        speed = (done - self._first) / max(now - self._began, 1e-9)
        left = f", {spoken((total - done) / speed)} left" if speed > 0 and done < total else ""
        note(f"features: {done:,} of {total:,} images{left}", err=True)


class _NoFeature(UserError):
    """A feature that is not finite, or too large for its type: the same call gives it again."""


@dataclass(frozen=True)
class _Layout:
    """The place of each array in a safetensors file.

    Args:
        arrays: type and shape by name, in the order in which they lie.
        notes: the file's metadata.
    """

    arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    notes: Mapping[str, str]

    def header(self, digest: str = UNKNOWN) -> bytes:
        """The first bytes of the file: their number, and JSON.

        Args:
            digest: the SHA-256 of the features.
        """
        known: dict[str, Any] = {"__metadata__": {**self.notes, DIGEST: digest}}
        place = 0
        for name, (kind, shape) in self.arrays.items():
            size = math.prod(shape) * np.dtype(kind).itemsize
            known[name] = {"dtype": TYPES[kind], "shape": list(shape), "data_offsets": [place, place + size]}
            place += size
        text = json.dumps(known).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        content = sum(math.prod(shape) * np.dtype(kind).itemsize for kind, shape in self.arrays.values())
        return len(self.header()) + content

    @property
    def room(self) -> int:
        """Bytes that the disk needs for the file, and for the note beside it while it grows."""
        return self.size + 2 * (len(self.header()) + NOTE)

    def mapped(self, file: Path) -> dict[str, NDArray[Any]]:
        """The arrays of a file of this size, to be written to."""
        place, found = len(self.header()), dict[str, NDArray[Any]]()
        for name, (kind, shape) in self.arrays.items():
            found[name] = mapped(file, kind, "r+", shape, offset=place)
            place += math.prod(shape) * np.dtype(kind).itemsize
        return found


def extract(
    backbone: Pretrained,
    data: Dataset[Any],
    file: Path,
    *,
    kind: str = "float16",
    batch: int = BATCH,
) -> None:
    """Writes the features of all images of a data set, with labels and where they come from.

    The file appears when it is whole. Until then `FILE.partial` grows in place, which takes no more room than the file
    will, and `FILE.partial.json` says how far it is: the same call goes on there, and gives the same bytes.

    Args:
        backbone: the frozen network.
        data: pictures; features are not extracted again.
        file: the file to write, which ends in `.safetensors`.
        kind: type of the numbers, `float16` or `float32`.
        batch: images in a pass.

    Raises:
        UserError: the data are no pictures, the network does not take them, the disk has less room than is needed,
            what is there is of another extraction, or a feature is not finite or too large for its type.
    """
    expect_pictures(data)
    _tell_left_out(data)
    extraction = _Extraction(backbone, data, file, kind, batch)
    with _told_unwritten(file), made_folder(file.parent), alone(extraction.beside(".lock"), extraction.waits):
        if file.exists():  # since another has just written it
            extraction.expect_own(file, _header_of(file))
        else:
            extraction.write()


def expect_pictures(data: Dataset[Any]) -> None:
    """Raises UserError for a data set without fixed pictures: of tokens, or of images that are made for each epoch."""
    if not isinstance(data.train, Images):
        raise UserError(f"features: expected a data set of pictures, got {data.name}, which has tokens already")
    if data.compose is not None:
        raise UserError(
            f"features: expected fixed training images, got {data.name}, which makes new ones for every epoch"
        )


def _tell_left_out(data: Dataset[Any]) -> None:
    """Tells what a file of features does not have of its data set."""
    if data.left_out:
        note(f"features: {data.name}: {data.left_out}", err=True)
    if data.conditions:
        known = ", ".join(map(shown, data.conditions))
        note(f"features: {data.name}: not in the file: how test images were made ({known})", err=True)


@contextlib.contextmanager
def _told_unwritten(file: Path) -> Iterator[None]:
    """Tells in one line that the system does not let a file be written."""
    try:
        yield
    except (OSError, StoreFull) as error:
        full = isinstance(error, StoreFull) or error.errno in FULL
        reason = error.reason if isinstance(error, StoreFull) else error.strerror or type(error).__name__
        way = "what is done is kept: make room, then give the same command again" if full else "write elsewhere"
        told = f"features cannot be written to {shown(file)!r}: {reason}; {way}"
        raise (StoreFull if full else UserError)(told) from error


def _header_of(file: Path) -> bytes:
    with open_plain(file, named=True) as opened:
        length = opened.read(8)
        return length + opened.read(min(int.from_bytes(length, "little"), file.stat().st_size))


def _told_by(header: bytes) -> dict[str, Any]:
    """All that the header of a file tells of its extraction; nothing, of a file that is none."""
    with contextlib.suppress(ValueError, TypeError, LookupError):
        known = from_json(header[8:])
        return {**from_json(known["__metadata__"][ORIGIN]), "numbers": known["train_features"]["dtype"]}
    return {}


@dataclass(frozen=True)
class _Extraction:
    """One extraction; arguments as in `extract`."""

    backbone: Pretrained
    data: Dataset[Any]
    file: Path
    kind: str
    batch: int

    def beside(self, ending: str) -> Path:
        """The file whose name has that ending more."""
        return self.file.with_name(f"{self.file.name}{ending}")

    def waits(self) -> None:
        """Tells that another process writes the file, unless that is known to be of another extraction."""
        if (known := self.beside(".partial.json")).exists():
            self.expect_own(self.beside(".partial"), _Note.read(known).header, "another process writes it now: ")
        note(f"features: waiting for another process, which writes {shown(self.file)}", err=True)

    def expect_own(self, where: Path, header: bytes, way: str = "remove it first, or ") -> None:
        """Looks whether a file, or its beginning, is of this extraction.

        Args:
            where: the file, for the message.
            header: its first bytes, or those that it is to have.
            way: what else to do than to write elsewhere, or why nothing else is to be done.

        Raises:
            UserError: it is of another.
        """
        if as_begun(header) == self.layout.header():
            return
        own, other = _told_by(self.layout.header()), _told_by(header)
        key = next((key for key in own if other and own[key] != other.get(key)), "")
        told = f" ({key} {other.get(key) or 'by default'!s:.60}, not {own[key] or 'by default'!s:.60})" if key else ""
        raise UserError(f"{shown(where)}: expected this extraction, got another{told}; {way}write elsewhere")

    @property
    def parts(self) -> Mapping[str, Images]:
        return {"train": self.data.train, "val": self.data.held_out, "test": self.data.test}

    @property
    def objects(self) -> Mapping[str, Tensor]:
        """The objects on training and held-out images, where several show the same."""
        if self.data.objects is None:
            return {}
        train = len(self.data.train)
        return {"train": self.data.objects[:train], "val": self.data.objects[train:]}

    def write(self) -> None:
        """Goes on where it was, and puts the file in place when all is done; what can never be done leaves nothing."""
        partial, known = self.beside(".partial"), self.beside(".partial.json")
        clear_unfinished(known)
        done = self._begun(partial, known)
        try:
            digest = self._fill(known, self.layout.mapped(partial), done)
        except _NoFeature:  # the same call would come to the same end
            partial.unlink()
            known.unlink()
            raise
        with partial.open("r+b") as opened:
            opened.write(self.layout.header(digest))
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(partial, self.file)
        known.unlink()

    def _fill(self, known: Path, arrays: Mapping[str, NDArray[Any]], done: int) -> str:
        """Writes the arrays from so many images on; returns the SHA-256 of all features."""
        told, total, before, noted = _Progress(), sum(map(len, self.parts.values())), 0, time.monotonic()
        digest = self._digest(arrays, done)
        for name, images in self.parts.items():
            arrays[f"{name}_labels"][:] = images.labels.numpy()
            if name in self.objects:
                arrays[f"{name}_objects"][:] = self.objects[name].numpy()
            for start in range(0, len(images), self.batch):
                stop = min(start + self.batch, len(images))
                if before + stop <= done:
                    continue
                found = self._features(images, slice(start, stop))
                arrays[f"{name}_features"][start:stop] = found
                digest.update(found.tobytes())
                if start // self.batch % EVERY == EVERY - 1 or time.monotonic() - noted >= PATIENCE:
                    _flush(arrays, known, _Note(self.layout.header(), before + stop, digest.hexdigest()))
                    noted = time.monotonic()
                told(before + stop, total)
            before += len(images)
        _flush(arrays, known, _Note(self.layout.header(), total, digest.hexdigest()))
        return digest.hexdigest()

    def _digest(self, arrays: Mapping[str, NDArray[Any]], done: int) -> "hashlib._Hash":
        """The SHA-256 of the features of so many images."""
        digest = hashlib.sha256()
        for name, images in self.parts.items():
            some = min(max(done, 0), len(images))
            for start in range(0, some, self.batch):
                digest.update(arrays[f"{name}_features"][start : min(start + self.batch, some)].tobytes())
            done -= len(images)
        return digest

    def _features(self, images: Images, chosen: slice) -> NDArray[Any]:
        given = self.backbone(images.pixels[chosen].to(self.backbone.device)).cpu().numpy()
        if not np.isfinite(given).all():
            raise _NoFeature(
                f"features: expected finite numbers, got NaN or infinity from {self.backbone.name}; its weights may be "
                "damaged: take others, or another layer"
            )
        with np.errstate(over="ignore"):  # told below
            found = given.astype(self.kind)
        if not np.isfinite(found).all():
            raise _NoFeature(f"features: expected numbers that {self.kind} can hold, got larger ones; take --float32")
        return found

    @cached_property
    def layout(self) -> _Layout:
        """The arrays of the file: features first, which then lie at multiples of 8 bytes."""
        backbone, data = self.backbone, self.data
        tokens = self._features(data.train, slice(1)).shape[1:]
        arrays: dict[str, tuple[str, tuple[int, ...]]] = {
            f"{name}_features": (self.kind, (len(images), *tokens)) for name, images in self.parts.items()
        }
        for name, images in self.parts.items():
            arrays[f"{name}_labels"] = ("uint8" if images.multi_label else "int64"), tuple(images.labels.shape)
        arrays |= {f"{name}_objects": ("int64", (len(numbers),)) for name, numbers in self.objects.items()}
        layer = f", layer {backbone.layer}" if backbone.layer else ""
        of = f"images of {data.name} at {backbone.size} pixels"
        notes = {
            "classes": json.dumps(list(data.classes)),
            "source": f"features of {backbone.name}{layer}, of {of}: {data.source}",
            ORIGIN: json.dumps({**facts_of(backbone, data), "batch": self.batch}),
        }
        return _Layout(arrays, notes)

    def _begun(self, partial: Path, known: Path) -> int:
        """The number of images that are done; 0 of a new extraction, whose file gets all the room that it needs."""
        if known.exists() and partial.exists():
            noted = _Note.read(known)
            self.expect_own(partial, noted.header)
            if self._is_sound(partial, noted):
                return noted.done
            note(f"features: {shown(partial)} is damaged; begins again", err=True)
        elif partial.exists() and not self._is_begun(partial):
            raise UserError(f"{shown(partial)}: expected nothing there, got another file; move it, or write elsewhere")
        _claim(partial, known, self.layout)
        return 0

    def _is_begun(self, partial: Path) -> bool:
        """Tells whether a file was begun by an extraction, which was stopped before it noted anything."""
        if not (size := partial.stat().st_size):
            return True
        begun = {self.layout.header(), bytes(8)}  # it gets all its room before its header
        return size == self.layout.size and as_begun(_header_of(partial)) in begun

    def _is_sound(self, partial: Path, noted: "_Note") -> bool:
        """Tells whether a file has its size, its header, and the features that were noted."""
        if partial.stat().st_size != self.layout.size or as_begun(_header_of(partial)) != self.layout.header():
            return False
        return self._digest(self.layout.mapped(partial), noted.done).hexdigest() == noted.digest


@dataclass(frozen=True)
class _Note:
    """A note of how far an extraction is.

    Args:
        header: the header of its file.
        done: number of images that are done.
        digest: SHA-256 of their features.
    """

    header: bytes
    done: int = 0
    digest: str = hashlib.sha256().hexdigest()

    @classmethod
    def read(cls, known: Path) -> "_Note":
        """The note in a file; an empty one, which is of no extraction, of a damaged file."""
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
            found = from_json(read_plain(known)[0])
            return cls(found["header"].encode("latin1"), int(found["done"]), str(found.get("digest")))
        return cls(b"")

    def write(self, known: Path) -> None:
        """Writes it into a file, in one step."""
        told = {"header": self.header.decode("latin1"), "digest": self.digest, "done": self.done}
        write_text(known, json.dumps(told))


def _claim(partial: Path, known: Path, layout: _Layout) -> None:
    """Begins a file, which gets all the room that it needs."""
    known.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
    room, folder = shutil.disk_usage(partial.parent).free, shown(partial.parent)
    needed = f"expected room for {math.ceil(layout.room / 1e6):,} MB in {folder}"  # more than what is told to be there
    way = "free some, or write elsewhere with -o, or with ROUTEBENCH_CACHE for the cache"
    if room < layout.room:
        raise UserError(f"{needed}, got {room // 10**6:,} MB; {way}")
    try:
        with partial.open("wb") as opened:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(opened.fileno(), 0, layout.size)
            opened.write(layout.header())
            opened.truncate(layout.size)
        _Note(layout.header()).write(known)
    except (OSError, StoreFull) as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, StoreFull) or error.errno in {*FULL, errno.EINVAL}:
            raise UserError(f"{needed}, got less; {way}") from error
        raise


def _flush(arrays: Mapping[str, NDArray[Any]], known: Path, reached: _Note) -> None:
    """Notes how far it is, after the disk has what was done."""
    for array in arrays.values():
        array.flush()  # type: ignore[attr-defined]  # memory maps have it
    reached.write(known)
