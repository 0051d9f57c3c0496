"""The published data sets, read from torchvision's layout and downloaded by torchvision where they are missing.

The verified bytes are parsed here: a run with local files needs no torchvision, whose import takes two seconds.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from routebench.data.dataset import Dataset, Images, facts
from routebench.data.official import Published, official_files
from routebench.registry import datasets

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
MNIST_MD5 = (
    "6bbc9ace898e44ae57da46a324031adb",
    "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637",
)
FASHION_MNIST_MD5 = (
    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a",
    "15d484375f8d13e6eb1aabb0c3f46965",
)

MNIST = Published("mnist", "MNIST", "MNIST/raw", dict(zip(IDX_FILES, MNIST_MD5, strict=True)))
FASHION_MNIST = Published(
    "fashion-mnist",
    "FashionMNIST",
    "FashionMNIST/raw",
    dict(zip(IDX_FILES, FASHION_MNIST_MD5, strict=True)),
    also_in=Path("/usr/share/datasets/fashion-mnist"),
    package="install Debian's package dataset-fashion-mnist",
)
CIFAR10 = Published(
    "cifar10",
    "CIFAR10",
    "cifar-10-batches-py",
    {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    archive="cifar-10-python.tar.gz",
)
CIFAR100 = Published(
    "cifar100",
    "CIFAR100",
    "cifar-100-python",
    {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
    archive="cifar-100-python.tar.gz",
)
SVHN = Published(
    "svhn",
    "SVHN",
    ".",
    {
        "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    },
    downloads=({"split": "train"}, {"split": "test"}),
)
PUBLISHED = (MNIST, FASHION_MNIST, CIFAR10, CIFAR100, SVHN)
GARMENTS = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"


@datasets.register("mnist")
@facts(train=54_000, held_out=6_000, test=10_000, shape=(1, 28, 28), classes=10)
def mnist() -> Dataset:
    """The official MNIST: 60,000 + 10,000 handwritten digits, grey, 28x28."""
    return _idx_set(MNIST, tuple("0123456789"))


@datasets.register("fashion-mnist")
@facts(train=54_000, held_out=6_000, test=10_000, shape=(1, 28, 28), classes=10)
def fashion_mnist() -> Dataset:
    """The official Fashion-MNIST: 60,000 + 10,000 pieces of clothing, grey, 28x28."""
    return _idx_set(FASHION_MNIST, tuple(GARMENTS.split(",")))


@datasets.register("cifar10")
@facts(train=45_000, held_out=5_000, test=10_000, shape=(3, 32, 32), classes=10)
def cifar10() -> Dataset:
    """The official CIFAR-10: 50,000 + 10,000 small photographs of ten things, colour, 32x32."""
    files = {name: _unpickled(content) for name, content in official_files(CIFAR10).items()}
    batches = [files[f"data_batch_{number}"] for number in range(1, 6)]
    classes = tuple(files["batches.meta"]["label_names"])
    return _published_set(CIFAR10, classes, _cifar(batches, "labels"), _cifar([files["test_batch"]], "labels"))


@datasets.register("cifar100")
@facts(train=45_000, held_out=5_000, test=10_000, shape=(3, 32, 32), classes=100)
def cifar100() -> Dataset:
    """The official CIFAR-100: 50,000 + 10,000 small photographs of a hundred things, colour, 32x32."""
    files = {name: _unpickled(content) for name, content in official_files(CIFAR100).items()}
    train, test = (_cifar([files[part]], "fine_labels") for part in ("train", "test"))
    return _published_set(CIFAR100, tuple(files["meta"]["fine_label_names"]), train, test)


@datasets.register("svhn")
@facts(train=65_931, held_out=7_326, test=26_032, shape=(3, 32, 32), classes=10)
def svhn() -> Dataset:
    """The official SVHN, cropped digits: 73,257 + 26,032 house numbers, colour, 32x32 (without the extra part)."""
    files = official_files(SVHN)
    train, test = (_svhn(files[f"{part}_32x32.mat"]) for part in ("train", "test"))
    return _published_set(SVHN, tuple("0123456789"), train, test)


def read_idx(content: bytes) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes: two zeros, type 8, the number of axes, each size as big-endian int32.

    Raises:
        ValueError: the header is another, or the number of bytes is not what the header promises.
    """
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"expected an idx file of unsigned bytes (00 00 08), got {content[:3].hex(' ')}")
    axes = content[3]
    sizes = [int(size) for size in np.frombuffer(content, ">i4", count=axes, offset=4)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(sizes)


def _idx_set(published: Published, classes: tuple[str, ...]) -> Dataset:
    arrays = {name: read_idx(content) for name, content in official_files(published).items()}
    train, test = (
        _images(arrays[f"{part}-images-idx3-ubyte"][:, None], arrays[f"{part}-labels-idx1-ubyte"])
        for part in ("train", "t10k")
    )
    return _published_set(published, classes, train, test)


def _unpickled(content: bytes) -> dict[str, Any]:
    entries: dict[str, Any] = pickle.loads(content, encoding="latin1")  # noqa: S301 - the md5 says they are official
    return entries


def _cifar(batches: list[dict[str, Any]], labels: str) -> Images:
    pixels = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
    return _images(pixels, np.concatenate([batch[labels] for batch in batches]))


def _svhn(content: bytes) -> Images:
    from scipy.io import loadmat

    entries = loadmat(io.BytesIO(content))  # type: ignore[arg-type]  # the stubs forget files in memory
    pixels = entries["X"].transpose(3, 2, 0, 1)  # from height, width, channel, image
    return _images(pixels, entries["y"][:, 0] % 10)  # the digit 0 carries the label 10


def _images(pixels: NDArray[np.uint8], labels: NDArray[np.integer[Any]]) -> Images:
    return Images(torch.from_numpy(np.array(pixels, order="C")), torch.from_numpy(labels.astype(np.int64)))


def _published_set(published: Published, classes: tuple[str, ...], train: Images, test: Images) -> Dataset:
    source = f"the official files of {published.torchvision_name}, checked by md5"
    return Dataset.of(published.name, classes, train, test, source)
