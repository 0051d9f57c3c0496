"""Your own arrays in one file as a data set: pictures, or the features that a large network gave of them."""

import difflib
import logging
import math
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from torch import Tensor

from routebench.data import extracted
from routebench.data._load import LEAST_CLASSES, occurring, stands_in, told_of_test
from routebench.data.dataset import Dataset, Images
from routebench.data.labels import described
from routebench.data.mapped import mapped
from routebench.data.origins import origin_in
from routebench.data.tokens import PIECE, Tokens
from routebench.data.unused import near
from routebench.errors import FilesMissing, UserError, shown
from routebench.quantities import few
from routebench.received import from_json, permitted
from routebench.registry import datasets

PARTS = ("train", "val", "test")
NEEDED = ("train", "test")
OF = {"features": ("features", "labels", "mask"), "images": ("images", "labels")}
"""What is read of a part, by the kind of its items; a mask only where there is one."""
READ_BY = {"features": "features:FILE", "images": "npz:FILE"}
OBJECTS = ("train_objects", "val_objects")
KNOWN = {f"{part}_{of}" for part in PARTS for of in ("features", "images", "labels", "mask", "objects")}
"""Names that are spelt as they should, even where nothing reads them."""
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
"""Types of arrays by their names in safetensors files."""
UNSIGNED = {"U16": "<u2", "U32": "<u4", "U64": "<u8"}
"""The same of those that become int64, as NumPy names them."""
ADDED = 1e-5
"""What `nn.LayerNorm`, by which heads begin, adds to the variance of a token's numbers."""
LOOKED_AT = 1_000
"""Items of which tokens are compared with it, or that are looked at together."""
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
    the training part is held out, the same in every run. `train_objects` and `val_objects`, integers (n,), number the
    object of each item where several show the same: folds divide objects. Metadata `classes` of a safetensors file may
    name the classes, as a JSON list, and `source` say where they come from.

    Arrays stay in the file, which is mapped into memory, unless it is a compressed `.npz`.

    Raises:
        UserError: the file cannot be read, an array is missing or of another type or shape, labels do not match, have
            gaps or are of a single class in the training or the test part, a number is not finite or too large, or a
            mask hides a whole item.
    """
    if asked := extracted.asked_for(path):
        try:
            file = asked.file()
        except FilesMissing:
            if not stands_in(f"features:{path}"):
                raise
            return asked.declared()
        try:
            found = _dataset("features", str(file), "features", _tokens, is_users=extracted.is_users(asked.data))
        except UserError as error:  # nobody else has written it
            raise UserError(f"{error}; remove this file, and it is made again") from error
        return replace(found, name=f"features:{path}")
    return _dataset("features", path, "features", _tokens)


@datasets.register("npz:PATH")
def npz(path: str) -> Dataset[Images]:
    """Your own pictures as arrays, in the form of MedMNIST: `train_images`, `train_labels`, `test_images` and so on.

    Images are uint8 as (n, height, width), or with colours as (n, height, width, 3); labels as in `features:PATH`. With
    `val_images` and `val_labels`, selection is by these; otherwise a stratified tenth of the training part is held out.

    Raises:
        UserError: the file cannot be read, an array is missing or of another type or shape, or labels do not match,
            have gaps, or are of a single class in the training or the test part.
    """
    return _dataset("npz", path, "images", _images)


def _stamp(path: str) -> str:
    """Changes when the file is written; empty without one."""
    try:
        path = str(asked.kept()) if (asked := extracted.asked_for(path)) else path
        known = Path(path).expanduser().stat()
    except (OSError, RuntimeError, ValueError, UserError):
        return ""
    return f"{known.st_size} {known.st_mtime_ns} {known.st_ctime_ns} {known.st_ino}"


vars(features)["stamp"] = vars(npz)["stamp"] = _stamp


def _dataset(
    kind: str, path: str, what: str, make: Callable[[Mapping[str, Tensor], str], Any], *, is_users: bool = True
) -> Dataset[Any]:
    """The data set of a file.

    Args:
        kind: `features` or `npz`.
        path: the file.
        what: what arrays of items are called: `features` or `images`.
        make: makes a part, by its name, of the arrays.
        is_users: whether the items are a user's own: only then are those in two parts counted.
    """
    file = _file(kind, path)
    with _told(f"{kind}:{path}"):
        used = {f"{part}_{of}" for part in PARTS for of in OF[what]} | {*OBJECTS}
        found, others, notes = _read(file, used)
        _expect_names(found, others, used, what)
        parts = {}
        for part in PARTS:
            if f"{part}_labels" in found:
                with _told(part):
                    parts[part] = make(found, part)
        parts = _of_one_store(parts)
        if what == "features" and (origin := origin_in(notes, _features_in(found))):
            parts = {name: replace(part, origin=origin) for name, part in parts.items()}
        source = notes.get(NOTES) or f"arrays in {file.resolve()}"
        made: Dataset[Any] = Dataset.of(
            f"{kind}:{file.name}", _classes(parts, notes), parts["train"], parts["test"], source,
            held_out=parts.get("val"),
        )  # fmt: skip
        left_out = f"Not used of {made.name}: {', '.join(map(shown, others))}." if others else ""
        made = replace(made, objects=_objects(found), left_out=left_out)
        made = _with_untrained(made, named=CLASSES in notes) if is_users else made
    _warn_of_shared(made, f"{kind}:{path}")
    if isinstance(made.train, Tokens):
        _warn_of_small(made.train, f"{kind}:{path}")
        _warn_of_unmasked(parts, f"{kind}:{path}")
    return told_of_test(made) if is_users else made


def _with_untrained(made: Dataset[Any], *, named: bool) -> Dataset[Any]:
    """The same set, which tells in `left_out` of classes without training items, as names or columns may give some.

    Raises:
        UserError: there are such classes only because of gaps in the labels.
    """
    labels = made.train.labels
    trained = occurring(labels)
    untrained = [shown(name) for number, name in enumerate(made.classes) if number not in trained]
    if not untrained or len(trained) < LEAST_CLASSES:  # of which `load` tells
        return made
    some = few(untrained)
    if not named and labels.ndim == 1:
        way = "number classes from 0 on without gaps, and leave items out whose class is unknown or never trained on"
        last = made.classes[-1]
        raise UserError(
            f"expected training {made.train.kind} of each label from 0 to {last}, got none of {some}; {way}"
        )
    told = f"No training {made.train.kind} of {made.name} show these of its {len(made.classes):,} classes: {some}."
    return replace(made, left_out=" ".join(filter(None, (made.left_out, told))))


def _warn_of_small(tokens: Tokens, name: str) -> None:
    """Tells where the numbers of most tokens are nearly the same to a layer that normalises them."""
    rows = torch.linspace(0, len(tokens) - 1, min(len(tokens), LOOKED_AT)).round().long()
    values, *mask = tokens.inputs(rows, torch.device("cpu"))
    spread = float((values[mask[0]] if mask else values.flatten(0, 1)).std(dim=1, correction=0).median())
    if spread < 0.1 * ADDED**0.5:
        way = f"multiply all by one number, such as {1 / spread:.0e}" if spread else "look at what wrote them"
        told = f"numbers of most tokens are within {spread:.0e} of their mean, too near for heads to see differences"
        logging.getLogger("routebench").warning("warning: %s: %s; %s", name, told, way)


def _warn_of_unmasked(parts: Mapping[str, Tokens], name: str) -> None:
    """Tells where only some parts have a mask, and items of another have tokens of zeros, as padding is mostly written.

    Without a mask, these count as tokens.
    """
    for part, tokens in parts.items():
        if tokens.mask is not None or all(one.mask is None for one in parts.values()):
            continue
        if padded := sum(int((~some.any(dim=2)).sum()) for some in torch.split(tokens.values, LOOKED_AT)):
            told = f"{padded:,} tokens of {part} items are zeros alone, and count, since there is no {part}_mask"
            logging.getLogger("routebench").warning("warning: %s: %s; write it if they are padding", name, told)


def _warn_of_shared(made: Dataset[Any], name: str) -> None:
    """Tells where training and held-out items show the same objects, which favours networks that know these by heart.

    Folds keep the items of such an object together.
    """
    if made.objects is None:
        return
    train, held_out = made.objects[: len(made.train)], made.objects[len(made.train) :]
    if shared := sorted({*train.tolist()} & {*held_out.tolist()}):
        told = f"{len(shared):,} of the objects on val items are on train items, too, the first of them {shared[0]}"
        way = "selection favours what is known by heart: move them to one part, or number other objects otherwise"
        logging.getLogger("routebench").warning("warning: %s: %s; %s", name, told, way)


def _expect_names(found: Mapping[str, Tensor], others: Collection[str], used: Collection[str], what: str) -> None:
    """Raises UserError where an array is missing, or one that is not used seems misspelt."""
    of_items = (what, "labels")
    wanted = [f"{part}_{of}" for part in NEEDED for of in of_items]
    wanted += [f"val_{of}" for of in of_items if any(name.startswith("val_") for name in found)]
    if missing := [name for name in wanted if name not in found]:
        known = ", ".join(map(shown, sorted([*found, *others]))) or "nothing"
        kind = next(one for one in READ_BY if one != what)
        way = f"; {READ_BY[kind]} reads {kind}" if f"train_{kind}" in others else ""
        raise UserError(f"expected {', '.join(wanted)}, got no {missing[0]} but {known}{way}")
    for other in sorted({*others} - KNOWN):
        if near_to := difflib.get_close_matches(other, {*used} - found.keys(), cutoff=0.87):
            raise UserError(f"expected arrays of known names, got {other!r}; did you mean {near_to[0]!r}?")


def _objects(found: Mapping[str, Tensor]) -> Tensor | None:
    """The objects on training and held-out items, where several show the same."""
    given = [found[name] for name in OBJECTS if name in found]
    if not given:
        return None
    if len(given) < len(OBJECTS):
        raise UserError(
            f"expected {' and '.join(OBJECTS)}, got one of them; give the other, with a val part, or remove this one"
        )
    for name, one in zip(OBJECTS, given, strict=True):
        if one.is_floating_point() or one.ndim != 1:
            raise UserError(f"expected {name} as integers (n,), got {described(one)}")
    return torch.cat([one.to(torch.int64) for one in given])


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
        exists = bool(path) and permitted(file, f"{kind}:{path}").exists()
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


def _read(file: Path, used: Collection[str]) -> tuple[dict[str, Tensor], list[str], dict[str, Any]]:
    """Arrays that are used by name, mapped from the file where it can be; the names of others; and its notes."""
    try:
        if file.suffix.lower() == ".npz":
            return *_read_npz(file, used), {}
        with safe_open(file, framework="pt") as opened:  # which looks at the header
            notes: dict[str, Any] = dict(opened.metadata() or {})
            arrays, others = _map_safetensors(file, used)
    except UserError:
        raise
    except Exception as error:  # each layer of a file has errors of its own: zip, zlib, tokens of a header, JSON
        told = " ".join(str(error).split())
        raise UserError(f"expected a whole {file.suffix} file that can be read, got {told:.200}") from error
    if CLASSES in notes:
        notes[CLASSES] = _class_names(notes[CLASSES])
    return arrays, others, notes


def _map_safetensors(file: Path, used: Collection[str]) -> tuple[dict[str, Tensor], list[str]]:
    """Arrays of a file whose header is sound, all of them views of one map of it; nothing is written back."""
    with file.open("rb") as opened:
        start = 8 + int.from_bytes(opened.read(8), "little")
        header = from_json(opened.read(start - 8))
    content = torch.from_numpy(mapped(file, np.uint8, "c"))[start:]
    found = {}
    for name in sorted(used & header.keys()):
        kind, (first, last) = header[name]["dtype"], header[name]["data_offsets"]
        bytes_ = content[first:last]
        if kind in UNSIGNED:
            values = _signed(name, bytes_.numpy().view(UNSIGNED[kind]))
        elif kind in TYPES:
            misplaced = (start + first) % TYPES[kind].itemsize  # as other software may put numbers
            values = (bytes_.clone() if misplaced else bytes_).view(TYPES[kind])
        else:
            raise UserError(f"expected arrays of numbers, got {name} of type {kind}")
        found[name] = values.view(header[name]["shape"])
    return found, sorted(header.keys() - used - {"__metadata__"})


def _signed(name: str, numbers: NDArray[Any]) -> Tensor:
    """Numbers without signs as int64."""
    if numbers.size and numbers.max() > np.iinfo(np.int64).max:
        raise UserError(f"expected integers below 2**63 in {name}, got {numbers.max()}")
    return torch.from_numpy(numbers.astype(np.int64))


def _class_names(text: str) -> list[str]:
    try:
        names = from_json(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"expected the metadata {CLASSES!r} as a JSON list of names, got {text!r:.60}")
    return names


def _read_npz(file: Path, used: Collection[str]) -> tuple[dict[str, Tensor], list[str]]:
    found, others = {}, []
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename or name not in used:
                others.append(name)
                continue
            if name in found:
                raise UserError(f"expected each array once, got {name} again")
            array = _array(file, archive, entry, name)
            native = array.astype(array.dtype.newbyteorder("="), copy=False)
            unsigned = native.dtype in (np.uint16, np.uint32, np.uint64)
            found[name] = _signed(name, native) if unsigned else torch.from_numpy(np.asarray(native))
    return found, sorted(others)


def _array(file: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    """An array, mapped from the file where it is stored as it is; nothing is written back."""
    with archive.open(entry) as opened:
        version = np.lib.format.read_magic(opened)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(opened)
        if dtype.kind not in "biuf" or dtype.itemsize > np.dtype(np.float64).itemsize:
            raise UserError(f"expected arrays of numbers, got {name} of type {dtype}")
        before = opened.tell()
        held, told = entry.file_size - before, math.prod(shape) * dtype.itemsize
        if held != told:
            raise UserError(f"expected {told:,} bytes of {name}, whose header says {shape} of {dtype}, got {held:,}")
        if entry.compress_type == zipfile.ZIP_STORED:
            while opened.read(PIECE):  # whose end has a checksum
                pass
    if entry.compress_type != zipfile.ZIP_STORED:
        with archive.open(entry) as opened:
            array: NDArray[Any] = np.lib.format.read_array(opened, allow_pickle=False)
        return array
    if 0 in shape or not shape:
        return np.zeros(shape, dtype)
    with file.open("rb") as content:
        content.seek(entry.header_offset)
        header = content.read(30)
        names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    place = entry.header_offset + len(header) + names + before
    return mapped(file, dtype, "c", shape, offset=place, order="F" if fortran else "C")


def _tokens(found: Mapping[str, Tensor], part: str) -> Tokens:
    values = found[f"{part}_features"]
    values = values[:, None] if values.ndim == 2 else values
    return Tokens(values, _labels(found[f"{part}_labels"]), found.get(f"{part}_mask"))


def _features_in(found: Mapping[str, Tensor]) -> Iterator[Tensor]:
    return (found[name] for part in PARTS if (name := f"{part}_features") in found)


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
        name: replace(part, values=values, rows=torch.arange(start, start + len(part)))
        for (name, part), start in zip(parts.items(), starts, strict=False)
    }


def _images(found: Mapping[str, Tensor], part: str) -> Images:
    pixels = found[f"{part}_images"]
    if pixels.dtype != torch.uint8 or pixels.ndim not in (3, 4) or (pixels.ndim == 4 and pixels.shape[3] not in (1, 3)):
        way = "put one or three colours last" if pixels.dtype == torch.uint8 else "scale them to 0..255"
        raise UserError(
            f"expected images as uint8 (n, height, width) or (n, height, width, 3), got {described(pixels)}; {way}"
        )
    channels_first = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    return Images(channels_first.contiguous(), _labels(found[f"{part}_labels"]))


def _labels(given: Tensor) -> Tensor:
    """Labels as a data set has them: classes by number, or truth values where an item may have several."""
    labels = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if labels.is_floating_point() or labels.ndim not in (1, 2) or (labels.ndim == 2 and not labels.shape[1]):
        raise UserError(f"expected labels as integers (n,), or 0 and 1 as (n, classes), got {described(given)}")
    if labels.ndim == 1:
        return labels.to(torch.int64)
    if not bool(((labels == 0) | (labels == 1)).all()):
        got = f"values from {int(labels.min())} to {int(labels.max())}"
        raise UserError(f"expected labels (n, classes) of 0 and 1, got {got}")
    return labels.bool()


def _classes(parts: Mapping[str, Any], notes: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classes; their numbers, where the file has no names."""
    labels = [part.labels for part in parts.values() if len(part)]
    count, items = max(one.shape[1] if one.ndim == 2 else int(one.max()) + 1 for one in labels), sum(map(len, labels))
    train = parts["train"].labels
    if CLASSES not in notes and train.ndim == 1 and count > items:
        raise UserError(f"expected classes that are numbered from 0 on, got the label {count - 1} of {items:,} items")
    names = tuple(notes[CLASSES] if CLASSES in notes else map(str, range(count)))
    if len(names) < count:
        raise UserError(f"expected names of at least {count} classes, got {len(names)} in the metadata {CLASSES!r}")
    return names
