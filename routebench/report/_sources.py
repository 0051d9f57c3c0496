"""The papers that the methods of a report come from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from routebench.analysis import Runs
from routebench.catalogue import catalogue

IDENTIFIER = re.compile(r"((?:arXiv|doi):[\w./-]*\w)")
SITES = {"arXiv": "https://arxiv.org/abs/", "doi": "https://doi.org/"}


@dataclass(frozen=True)
class Source:
    """The source of a method.

    Args:
        title: the method's name, as tables have it.
        words: authors, year and place, as its class names them, in pieces: each with the address that it leads to, or
            an empty one.
    """

    title: str
    words: tuple[tuple[str, str], ...]


def sources_of(parts: Iterable[Runs]) -> list[Source]:
    """The sources of all routing methods of a folder that name one, by title.

    Args:
        parts: the parts of the folder.
    """
    told = {
        one["name"]: " ".join(str(one.get("source", "")).split()) for one in catalogue(kinds=("methods",))["methods"]
    }
    titles = {method.name: method.base_title for runs in parts for method in runs.methods.values()}
    return [
        Source(title, tuple((piece, _address(piece)) for piece in IDENTIFIER.split(told[name]) if piece))
        for title, name in sorted((title, name) for name, title in titles.items() if told.get(name))
    ]


def _address(piece: str) -> str:
    """The address of a paper whose identifier this is; else empty."""
    kind, _, number = piece.partition(":")
    return f"{SITES[kind]}{number}" if IDENTIFIER.fullmatch(piece) else ""
