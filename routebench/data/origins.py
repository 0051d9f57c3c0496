"""The origin of extracted features, which stands for their numbers: processors and libraries round these otherwise."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from routebench.data.backbones import Pretrained
from routebench.data.dataset import Dataset
from routebench.errors import UserError
from routebench.received import from_json

VERSION = 1
"""Version of what features are, from pictures to tokens: whoever changes them raises it."""
ORIGIN, DIGEST = "routebench", "digest"
"""Metadata of a file: all that decides about its features, as JSON, and their SHA-256."""
DECIDES = ("version", "backbone", "layer", "size", "weights", "mean", "deviation", "fingerprint")
"""Facts that tell features from others, but for rounding."""
UNKNOWN = "0" * 64
"""The SHA-256 in a file that is not whole."""


def facts_of(backbone: Pretrained, data: Dataset[Any]) -> dict[str, Any]:
    """All that a file tells of how features come about, as JSON.

    Args:
        backbone: the frozen network.
        data: the pictures.
    """
    return {**backbone.told, "data": data.name, "fingerprint": data.fingerprint, "version": VERSION}


def origin_of(facts: Mapping[str, Any]) -> str:
    """The facts of `facts_of` that decide, as tokens and their fingerprint have them.

    Args:
        facts: all of them.
    """
    return json.dumps({name: facts[name] for name in DECIDES})


def origin_in(notes: Mapping[str, Any], features: Iterable[Tensor]) -> str:
    """The origin of the features of a file; empty where routebench did not write them.

    Args:
        notes: the file's metadata.
        features: the features of the parts, in the order in which they lie.

    Raises:
        UserError: they are not those that were written.
    """
    facts: Any = None
    with contextlib.suppress(ValueError, TypeError, LookupError):
        facts = from_json(notes[ORIGIN])
    if not isinstance(facts, dict) or DIGEST not in notes or any(name not in facts for name in DECIDES):
        return ""
    digest = hashlib.sha256()
    for one in features:
        digest.update(one.contiguous().numpy().data)
    if digest.hexdigest() != notes[DIGEST]:
        way = f"extract them again; of features that you changed, leave the metadata {ORIGIN!r} out"
        raise UserError(f"expected the features that routebench wrote into this file, got others; {way}")
    return origin_of(facts)


def as_begun(header: bytes) -> bytes:
    """The header that a file had before its features were known.

    Args:
        header: the first bytes of the file, or of what is there of it.
    """
    return re.sub(rb'"digest": "[0-9a-f]{64}"', f'"digest": "{UNKNOWN}"'.encode(), header, count=1)
