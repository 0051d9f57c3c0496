"""CIFAR-10 as JPEG files: the photographs of the official set, re-encoded. It is another set, and has another name."""

import io
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from routebench.data.dataset import Dataset, Images, facts
from routebench.data.official import data_root
from routebench.errors import FilesMissing, UserError
from routebench.received import permitted, read_plain
from routebench.registry import datasets

NAME, ARCHIVE = "cifar10-jpeg", "cifar10-jpeg.tar.xz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
COUNTS = {"train": 5_000, "test": 1_000}
EXPECTED = "bb525db8f4236135"
"""Fingerprint of the set that published results are on."""


@datasets.register(NAME)
@facts(train=45_000, held_out=5_000, test=10_000, shape=(3, 32, 32), classes=10)
def cifar10_jpeg() -> Dataset[Images]:
    """The 50,000 + 10,000 photographs of CIFAR-10 as JPEG of quality 75: `cifar10-jpeg/{train,test}/CLASS/NNNN.jpg`.

    They lie in the data folder, as files or as `cifar10-jpeg.tar.xz`. JPEG loses something, so that results on it are
    no results on CIFAR-10. Every file is as Pillow's `image.save(file, quality=75)` writes it: baseline, colour at half
    the resolution (4:2:0), standard tables. `docs/data.md` shows how to make the files from the official set.

    Raises:
        FilesMissing: neither the folder nor the archive is there.
        UserError: files are missing, cannot be read, or are other pictures than those of published results.
    """
    root = data_root()
    if (root / NAME).is_dir():
        content = _of_folder(root / NAME)
    elif (root / ARCHIVE).is_file():
        content = _of_archive(root / ARCHIVE)
    else:
        raise FilesMissing(f"{NAME}: expected the folder {NAME} or the file {ARCHIVE} in {root}, got neither")
    pixels: dict[tuple[str, int], list[tuple[str, np.ndarray]]] = {}
    try:
        for part, label, name, file in content:
            with Image.open(io.BytesIO(file)) as image:
                pixels.setdefault((part, label), []).append((name, np.asarray(image.convert("RGB"))))
    except (OSError, EOFError, SyntaxError, tarfile.TarError, lzma.LZMAError) as error:
        raise UserError(f"{NAME}: expected whole files in {root}, got some that cannot be read: {error}") from error
    data = Dataset.of(
        NAME, CLASSES, _part("train", pixels), _part("test", pixels), "JPEG files, checked by fingerprint"
    )
    if data.fingerprint != EXPECTED:
        raise UserError(
            f"{NAME}: expected the fingerprint {EXPECTED}, got {data.fingerprint}: other pictures; read them as folder:"
        )
    return data


def _part(part: str, pixels: dict[tuple[str, int], list[tuple[str, np.ndarray]]]) -> Images:
    images, labels = [], []
    for label, name in enumerate(CLASSES):
        found = sorted(pixels.get((part, label), []), key=lambda one: one[0])
        if len(found) != COUNTS[part]:
            raise UserError(f"{NAME}: expected {COUNTS[part]:,} files in {part}/{name}, got {len(found):,}")
        images += [array for _, array in found]
        labels += [label] * len(found)
    stacked = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
    return Images(stacked, torch.tensor(labels))


def _of_folder(folder: Path) -> Iterator[tuple[str, int, str, bytes]]:
    for part in COUNTS:
        for label, name in enumerate(CLASSES):
            for file in permitted(folder / part / name, NAME).glob("*.jpg"):
                yield part, label, file.name, read_plain(file, named=True)[0]


def _of_archive(archive: Path) -> Iterator[tuple[str, int, str, bytes]]:
    with tarfile.open(archive) as opened:
        for entry in opened:
            *_, part, name, file = ("", "", *Path(entry.name).parts)
            content = opened.extractfile(entry) if entry.isfile() else None
            if content is not None and part in COUNTS and name in CLASSES and file.endswith(".jpg"):
                yield part, CLASSES.index(name), file, content.read()
