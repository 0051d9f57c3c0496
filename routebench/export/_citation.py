"""The publication of a routing method, as BibTeX.

`references.bib` has one entry per publication; its field `methods` names the routing methods that it defines.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from routebench.catalogue import catalogue
from routebench.errors import UserError
from routebench.registry import routing

METHODS = re.compile(r"^  methods = \{(?P<names>[^}]*)\},\n", re.MULTILINE)


def citations_of(methods: Iterable[str]) -> str:
    """The BibTeX entries of routing methods, each once, below comments that say which part defines which method.

    Where only the words of the method's `source` are known, as of a method of one's own, they are the whole comment.

    Raises:
        UserError: no method has one of these names, or it names no publication.
    """
    comments: dict[str, list[str]] = {}
    for method in dict.fromkeys(methods):
        source, entry = _publication(method)
        comments.setdefault(entry or source, []).append(f"% {method}: {source}\n")
    return "\n".join("".join(lines) + (entry if entry.startswith("@") else "") for entry, lines in comments.items())


def _publication(method: str) -> tuple[str, str]:
    """The words of a method on its source, and its entry; empty if there is none."""
    known = {one["name"]: one["source"] for one in catalogue(kinds=("methods",))["methods"]}  # which needs no torch
    source = known[method] if method in known else str(getattr(routing[method], "source", ""))
    source = " ".join(source.split())
    entry = _entries().get(method, "")
    if not source and not entry:
        raise UserError(
            f"routing method {method!r} names no publication; set `source` in its class to authors, year and equation"
        )
    return source, entry


@cache
def _entries() -> dict[str, str]:
    """Each method's entry, without the field that names methods."""
    text = Path(__file__).with_name("references.bib").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for entry in text.split("\n\n"):
        named = METHODS.search(entry)
        assert named is not None, entry
        found |= dict.fromkeys(named["names"].split(", "), f"{METHODS.sub('', entry).strip()}\n")
    return found
