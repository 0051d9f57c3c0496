"""Your own arrays in one file as a data set: pictures, or the features that a large network gave of them."""

import difflib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from routebench.data import extracted
from routebench.data._load import stands_in
from routebench.data.dataset import Dataset, Images
from routebench.data.labels import described
from routebench.data.tokens import Tokens
from routebench.data.unused import near
from routebench.errors import FilesMissing, UserError, shown
from routebench.registry import datasets

PARTS = ("train", "val", "test")
NEEDED = ("train", "test")
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
"""Types of arrays by their names in safetensors files."""
CLASSES, NOTES = "classes", "source"
"""Metadata of a safetensors file: names of the classes as JSON, and one line on where the items come from."""


@datasets.register("features:PATH")
def features(path: str) -> Dataset[Tokens]:
    """Your own features: one `.safetensors` or `.npz` file, such as `python -m routebench features` writes.

    `features:BACKBONE@SIZE:DATA`, such as `features:efficientnet-lite0@96:cifar10`, extracts them into the cache when
    it is first read; `BACKBONE/LAYER@SIZE` names the layer.

    It has `train_features` and `test_features`, float16 or float32 as (n, tokens, numbers), or (n, numbers) for one
    token each; `train_labels` and `test_labels`, integers (n,) from 0, or 0 and 1 as (n, classes) where an item may
    have several; and, where items have different numbers of tokens, `train_mask` and `test_mask`, bool (n, tokens),
    true where there is one. With `val_features` and the rest, selection is by these; otherwise a stratified tenth of
    the training part is held out, the same in every run. Metadata `classes` of a safetensors file may name the classes,
    as a JSON list, and `source` say where they come from.

    Arrays stay in the file, which is mapped into memory, unless it is a compressed `.npz`.

    Raises:
        UserError: the file cannot be read, an array is missing or of another type or shape, labels do not match, a
            number is not finite, or a mask hides a whole item.
    """
    if asked := extracted.asked_for(path):
        try:
            file = asked.file()
        except FilesMissing:
            if not stands_in(f"features:{path}"):
                raise
            return asked.declared()
        return replace(_dataset("features", str(file), "features", _tokens), name=f"features:{path}")
    return _dataset("features", path, "features", _tokens)


@datasets.register("npz:PATH")
def npz(path: str) -> Dataset[Images]:
    """Your own pictures as arrays, in the form of MedMNIST: `train_images`, `train_labels`, `test_images` and so on.

    Images are uint8 as (n, height, width), or with colours as (n, height, width, 3); labels as in `features:PATH`. With
    `val_images` and `val_labels`, selection is by these; otherwise a stratified tenth of the training part is held out.

    Raises:
        UserError: the file cannot be read, an array is missing or of another type or shape, or labels do not match.
    """
    return _dataset("npz", path, "images", _images)


def _stamp(path: str) -> str:
    """Changes when the file is written; empty without one."""
    try:
        path = str(asked.kept()) if (asked := extracted.asked_for(path)) else path
        known = Path(path).expanduser().stat()
    except (OSError, RuntimeError, ValueError, UserError):
        return ""
    return f"{known.st_size} {known.st_mtime_ns} {known.st_ino}"


vars(features)["stamp"] = vars(npz)["stamp"] = _stamp


def _dataset(kind: str, path: str, what: str, make: Callable[[Mapping[str, Tensor], str], Any]) -> Dataset[Any]:
    """The data set of a file.

    Args:
        kind: `features` or `npz`.
        path: the file.
        what: what arrays of items are called: `features` or `images`.
        make: makes a part, by its name, of the arrays.
    """
    file = _file(kind, path)
    with _told(f"{kind}:{path}"):
        found, notes = _read(file)
        others = _expect_names(found, what)
        parts = {}
        for part in PARTS:
            if f"{part}_labels" in found:
                with _told(part):
                    parts[part] = make(found, part)
        parts = _of_one_store(parts)
        source = notes.get(NOTES) or f"arrays in {file.resolve()}"
        made: Dataset[Any] = Dataset.of(
            f"{kind}:{file.name}", _classes(parts, notes), parts["train"], parts["test"], source,
            held_out=parts.get("val"),
        )  # fmt: skip
        return replace(made, objects=_objects(found), left_out=f"not used: {', '.join(others)}" if others else "")


def _expect_names(found: Mapping[str, Tensor], what: str) -> list[str]:
    """The names of arrays that are not used; raises UserError where one is missing, or misspelt."""
    of_items = (what, "labels")
    names = {f"{part}_{of}" for part in PARTS for of in (*of_items, "mask", "objects")}
    wanted = [f"{part}_{of}" for part in NEEDED for of in of_items]
    wanted += [f"val_{of}" for of in of_items if any(name.startswith("val_") for name in found)]
    if missing := [name for name in wanted if name not in found]:
        known = ", ".join(sorted(found)) or "nothing"
        raise UserError(f"expected {', '.join(wanted)}, got no {missing[0]} but {known}")
    others = sorted(found.keys() - names)
    for other in others:
        if near_to := difflib.get_close_matches(other, names - found.keys(), cutoff=0.75):
            raise UserError(f"expected arrays of known names, got {other!r}; did you mean {near_to[0]!r}?")
    return others


def _objects(found: Mapping[str, Tensor]) -> Tensor | None:
    """The objects on training and held-out items, where several show the same."""
    given = [found.get(f"{part}_objects") for part in ("train", "val")]
    if given == [None, None]:
        return None
    numbers = [one.to(torch.int64) for one in given if one is not None and not one.is_floating_point()]
    if len(numbers) < len(given):
        raise UserError("expected train_objects and val_objects, both of integers, got one of them, or other numbers")
    return torch.cat(numbers)


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Says in errors where they arose."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _file(kind: str, path: str) -> Path:
    suffixes = (".safetensors", ".npz") if kind == "features" else (".npz",)
    try:
        file = Path(path).expanduser()
        exists = bool(path) and file.exists()
    except (RuntimeError, ValueError, OSError) as error:
        raise UserError(f"{kind}:{shown(path)}: expected the path of a file, got one that no file can have") from error
    if not path or not exists:
        raise UserError(
            f"{kind}:{path}: expected a {' or '.join(suffixes)} file, but {path!r} does not "
            f"exist{near(file.name, file.parent)}"
        )
    if not file.is_file():
        raise UserError(f"{kind}:{path}: expected a file, got {'a folder' if file.is_dir() else 'something else'}")
    if file.suffix.lower() not in suffixes:
        raise UserError(f"{kind}:{path}: expected a {' or '.join(suffixes)} file, got {file.name!r}")
    return file


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Arrays by name, mapped from the file where it can be, and its notes."""
    try:
        if file.suffix.lower() == ".npz":
            return _read_npz(file), {}
        with safe_open(file, framework="pt") as opened:  # which looks at the header
            notes: dict[str, Any] = dict(opened.metadata() or {})
            arrays = _map_safetensors(file)
    except UserError:
        raise
    except Exception as error:  # each layer of a file has errors of its own: zip, zlib, tokens of a header, JSON
        told = " ".join(str(error).split())
        raise UserError(f"expected a whole {file.suffix} file that can be read, got {told:.200}") from error
    if CLASSES in notes:
        notes[CLASSES] = _class_names(notes[CLASSES])
    return arrays, notes


def _map_safetensors(file: Path) -> dict[str, Tensor]:
    """Arrays of a file whose header is sound, all of them views of one map of it; nothing is written back."""
    with file.open("rb") as opened:
        start = 8 + int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(start - 8))
    content = torch.from_numpy(np.memmap(file, np.uint8, mode="c"))[start:]
    found = {}
    for name, told in header.items():
        if name == "__metadata__":
            continue
        if told["dtype"] not in TYPES:
            raise UserError(f"expected arrays of numbers, got {name} of type {told['dtype']}")
        first, last = told["data_offsets"]
        kind, bytes_ = TYPES[told["dtype"]], content[first:last]
        if (start + first) % kind.itemsize:  # other software need not put numbers at multiples of their size
            bytes_ = bytes_.clone()
        found[name] = bytes_.view(kind).view(told["shape"])
    return found


def _class_names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"expected the metadata {CLASSES!r} as a JSON list of names, got {text!r:.60}")
    return names


def _read_npz(file: Path) -> dict[str, Tensor]:
    found = {}
    with zipfile.ZipFile(file) as archive, np.load(file, allow_pickle=False) as arrays:
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename.removesuffix(".npy")
            array = _mapped(file, entry) if entry.compress_type == zipfile.ZIP_STORED else arrays[name]
            if array.dtype.kind not in "biuf":
                raise UserError(f"expected arrays of numbers, got {name} of type {array.dtype}")
            native = array.astype(array.dtype.newbyteorder("="), copy=False)
            if native.dtype in (np.uint16, np.uint32, np.uint64):
                native = native.astype(np.int64)
            found[name] = torch.from_numpy(np.asarray(native))
    return found


def _mapped(file: Path, entry: zipfile.ZipInfo) -> Any:
    """An array that is stored as it is, mapped from the file; nothing is written back."""
    with file.open("rb") as opened:
        opened.seek(entry.header_offset)
        header = opened.read(30)
        opened.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        version = np.lib.format.read_magic(opened)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(opened)
        if dtype.hasobject:
            raise ValueError("arrays of Python objects")
        if 0 in shape or not shape:
            return np.zeros(shape, dtype)
        place = opened.tell()
    return np.memmap(file, dtype, mode="c", offset=place, shape=shape, order="F" if fortran else "C")


def _tokens(found: Mapping[str, Tensor], part: str) -> Tokens:
    values = found[f"{part}_features"]
    values = values[:, None] if values.ndim == 2 else values
    return Tokens(values, _labels(found[f"{part}_labels"]), found.get(f"{part}_mask"))


def _of_one_store(parts: dict[str, Any]) -> dict[str, Any]:
    """The same parts as rows of one store, where they follow each other in the file and no mask is there."""
    tokens = [part for part in parts.values() if isinstance(part, Tokens)]
    follow = (
        len(tokens) == len(parts)
        and all(part.mask is None for part in tokens)
        and all(
            (one.shape, one.values.dtype) == (two.shape, two.values.dtype)
            and one.values.is_contiguous()
            and one.values.untyped_storage().data_ptr() == two.values.untyped_storage().data_ptr()
            and one.values.storage_offset() + one.values.numel() == two.values.storage_offset()
            for one, two in pairwise(tokens)
        )
    )
    if not follow:
        return parts
    first, count = tokens[0].values, sum(map(len, tokens))
    values = first.as_strided((count, *first.shape[1:]), first.stride())
    starts = accumulate(map(len, tokens), initial=0)
    return {
        name: Tokens(values, part.labels, rows=torch.arange(start, start + len(part)))
        for (name, part), start in zip(parts.items(), starts, strict=False)
    }


def _images(found: Mapping[str, Tensor], part: str) -> Images:
    pixels = found[f"{part}_images"]
    if pixels.dtype != torch.uint8 or pixels.ndim not in (3, 4) or (pixels.ndim == 4 and pixels.shape[3] not in (1, 3)):
        raise UserError(
            f"expected images as uint8 (n, height, width) or (n, height, width, 3), got {described(pixels)}; scale "
            "them to 0..255"
        )
    channels_first = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    return Images(channels_first.contiguous(), _labels(found[f"{part}_labels"]))


def _labels(given: Tensor) -> Tensor:
    """Labels as a data set has them: classes by number, or truth values where an item may have several."""
    labels = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if labels.is_floating_point() or labels.ndim not in (1, 2):
        raise UserError(f"expected labels as integers (n,), or 0 and 1 as (n, classes), got {described(given)}")
    if labels.ndim == 1:
        return labels.to(torch.int64)
    if not bool(((labels == 0) | (labels == 1)).all()):
        raise UserError(f"expected labels (n, classes) of 0 and 1, got values up to {int(labels.max())}")
    return labels.bool()


def _classes(parts: Mapping[str, Any], notes: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classes; their numbers, where the file has no names."""
    labels = [part.labels for part in parts.values() if len(part)]
    count, items = max(one.shape[1] if one.ndim == 2 else int(one.max()) + 1 for one in labels), sum(map(len, labels))
    if CLASSES not in notes and count > items:
        raise UserError(f"expected classes that are numbered from 0 on, got the label {count - 1} of {items:,} items")
    names = tuple(notes.get(CLASSES) or map(str, range(count)))
    if len(names) < count:
        raise UserError(f"expected names of at least {count} classes, got {len(names)} in the metadata {CLASSES!r}")
    return names
