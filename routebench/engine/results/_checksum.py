"""Checksums by which a record tells that it, or a file that it names, is not what was written.

A file of JSON ends in the SHA-256 of its own text, in which these 64 digits are left out. It finds what disks, copies
and editors do to a file. It is no signature: whoever wants to deceive can compute it too.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    """Whether a text is as it was sealed, ends of lines apart; so is one from before there were checksums.

    Args:
        text: of the file.
        content: what it says; the checksum is taken out of it.
    """
    if content.pop(KEY, None) is None:
        return True
    place = text.rfind(_BEFORE) + len(_BEFORE)
    found, after = text[place : place + DIGITS], text[place + DIGITS :]
    bare = (text[:place] + after).replace(b"\r\n", b"\n")
    return found == hashlib.sha256(bare).hexdigest().encode()


def of_file(file: Path) -> str:
    """Of a file; empty if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""
