"""Checksums that detect changes to a record, or to a file that it names.

A JSON file ends with the SHA-256 of its own text without these 64 digits. It detects damage by disks, copies and
editors. It is no signature: a forger can compute it too.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from routebench.received import open_plain

KEY = "checksum"
_BEFORE = f'"{KEY}": "'.encode()
DIGITS = 64


def sealed(content: Mapping[str, Any]) -> str:
    """The content as indented JSON with the checksum as its last key."""
    bare = {key: value for key, value in content.items() if key != KEY}
    text = json.dumps({**bare, KEY: ""}, indent=1)
    place = text.rindex('"')
    return text[:place] + hashlib.sha256(text.encode()).hexdigest() + text[place:]


def unsealed(text: bytes, content: dict[str, Any]) -> bool:
    """Tells whether a text is unchanged since it was sealed, except for line ends; true without a checksum.

    Args:
        text: text of the file.
        content: its parsed content; the checksum is removed from it.
    """
    if content.pop(KEY, None) is None:
        return True
    place = text.rfind(_BEFORE) + len(_BEFORE)
    found, after = text[place : place + DIGITS], text[place + DIGITS :]
    bare = (text[:place] + after).replace(b"\r\n", b"\n")
    return found == hashlib.sha256(bare).hexdigest().encode()


def of_file(file: Path) -> str:
    """Checksum of a file; empty if it cannot be read."""
    try:
        with open_plain(file) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""
