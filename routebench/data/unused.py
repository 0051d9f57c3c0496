"""Names of what lies in a folder and is not used, and of what lies near a file that is missing."""

import difflib
import os
import unicodedata
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from routebench.errors import shown

ARRAYS = frozenset([".npy", ".npz"])
ARRAYS_ADVICE = "npz:FILE reads pictures as NumPy arrays, features:FILE features; docs/data.md names the arrays"
HIDDEN = (".", "__")
SYSTEM = frozenset(
    [".ds_store", ".directory", ".fseventsd", ".spotlight-v100", ".temporaryitems", ".trashes", "$recycle.bin",
     "@eadir", "__macosx", "desktop.ini", "ehthumbs.db", "icon\r", "lost+found", "system volume information",
     "thumbs.db"]
)  # fmt: skip
"""Names that operating systems write into folders unasked, in small letters."""
SYSTEM_STARTS = ("._", ".trash-", ".nfs")
DEEPEST = 4
"""Folders below that of data sets in which a missing file is looked for."""
MOST = 10_000
"""Entries of a folder that are looked at for a name."""


def is_system(name: str) -> bool:
    """Tells whether an operating system writes files or folders of this name."""
    return name.lower() in SYSTEM or name.lower().startswith(SYSTEM_STARTS)


def unused(place: Path, used: Collection[Path], suffixes: Collection[str], linked: Collection[Path] = ()) -> list[str]:
    """Content of a folder that is not used, by kind: how many, and one by name.

    What an operating system writes is left out.

    Args:
        place: the folder.
        used: files in it.
        suffixes: endings of files that could be used.
        linked: folders in it that are looked into although they are links.
    """
    known, found = {*used}, dict[tuple[str, str], list[Path]]()
    for entry in _entries(place, {*linked}):
        if entry not in known:
            found.setdefault(_kind(entry, place, suffixes), []).append(entry)
    return [
        f"{counted(len(several), *kind)} (such as {shown(min(several).relative_to(place))})"
        for kind, several in sorted(found.items(), key=lambda of: of[0][1])
    ]


def counted(number: int, one: str, several: str) -> str:
    """`1 copy`, `2 copies`.

    Args:
        number: the count.
        one, several: words for one of them, and for any other number.
    """
    return f"{number:,} {one if number == 1 else several}"


def _entries(place: Path, linked: Collection[Path]) -> Iterator[Path]:
    """Everything but folders, and links to folders that are not followed."""
    for folder, inner, names in os.walk(place, onerror=lambda _: None):
        for name in inner[:]:
            entry = Path(folder, name)
            if is_system(name) or entry.is_symlink():
                inner.remove(name)
            if entry in linked and entry.is_symlink():
                yield from _entries(entry, linked)
            elif entry.is_symlink() and not is_system(name):
                yield entry
        yield from (Path(folder, name) for name in names if not is_system(name))


def _kind(entry: Path, place: Path, suffixes: Collection[str]) -> tuple[str, str]:
    """Names of a kind that is not used, in words: of one, and of several."""
    if any(part.startswith(HIDDEN) for part in entry.relative_to(place).parts):
        return "hidden", "hidden"
    if entry.is_dir():
        return "linked folder", "linked folders"
    if not entry.is_file():
        return "pipe, device or broken link", "pipes, devices or broken links"
    suffix = entry.suffix.lower()
    if suffix in suffixes:
        return "image in no class's folder", "images in no class's folder"
    return (f"of kind {shown(suffix) or 'unknown'}",) * 2


def near(name: str, place: Path, other_than: Collection[str] = ()) -> str:
    """`; 'x' lies there` for what lies in a folder under nearly the name of what is missing; empty if nothing does.

    A name that looks the same is told as that. Names in `other_than` are right themselves.

    Args:
        name: what is missing.
        place: the folder.
        other_than: names of other things that may lie there.
    """
    try:
        there = sorted(entry.name for entry in islice(place.iterdir(), MOST) if not is_system(entry.name))
    except OSError:
        return ""
    if name in there and Path(place, name).is_symlink():
        return "; it is a link that leads nowhere"
    for other in there:
        if told := hardly_apart(name, other):
            return f"; {other!r} lies there{told}"
    small = {other.lower(): other for other in there if other.removesuffix(".gz") not in other_than}
    close = difflib.get_close_matches(name.lower(), small, n=1, cutoff=0.7)
    return f"; {small[close[0]]!r} lies there" if close else ""


def looks(name: str) -> str:
    """The same for names that look the same: in whatever Unicode form, with spaces at their ends, in small or capitals.

    Single letters are told apart by capitals: a set of letters has both.
    """
    plain = unicodedata.normalize("NFC", name).strip()
    return plain.casefold() if len(plain) > 1 else plain


def hardly_apart(one: str, other: str) -> str:
    """Says in what alone two names differ that look the same; empty if they look different, or are the same.

    Args:
        one, other: the names.
    """
    if one == other or looks(one) != looks(other):
        return ""
    if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other):
        forms = [form for form in ("NFC", "NFD") if unicodedata.is_normalized(form, other)]
        return f", a name of the same letters in another Unicode form ({' and '.join(forms) or 'mixed'})"
    spaces = one.strip() != one or other.strip() != other
    return f", a name that differs only in {'spaces at its ends' if spaces else 'capitals'}"


def near_missing(file: str, folder: Path, root: Path, other_than: Collection[str] = ()) -> str:
    """`; it lies in x/` or `; 'y' lies there` for a file that is not in its folder; empty if nothing is near.

    Args:
        file: its name.
        folder: where it should lie.
        root: the folder of data sets, in which it may lie elsewhere.
        other_than: names of other files of the set.
    """
    if found := near(file, folder, other_than):
        return found
    wanted = {file.lower(), f"{file}.gz".lower()}
    for place, inner, names in islice(os.walk(root), MOST):
        if len(Path(place).relative_to(root).parts) >= DEEPEST:
            inner.clear()
        for name in sorted({*inner, *names}):
            if name.lower() in wanted:
                return f"; {Path(place, name)} lies elsewhere, move it there"
    return ""
