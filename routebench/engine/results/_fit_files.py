"""The files of trained networks in a results folder, as far as no network is needed to read them."""

from collections.abc import Iterator
from typing import Any

from routebench.engine.results import _checksum as checksum
from routebench.engine.results._checks import is_fit, is_key
from routebench.engine.results._folder import CHANGED, Reader
from routebench.errors import UserError
from routebench.received import expect_folders


def notes_of(reader: Reader, key: str) -> dict[str, Any] | None:
    """The notes on how a fit was trained, from its `fit.json`; None if there is none. One that is damaged is set aside.

    Raises:
        UserError: its folder is a link.
    """
    expect_folders(reader.path, [f"fits/{key}"], "results folder")
    return reader.table(reader.path / "fits" / key / "fit.json", is_fit)


def gone_from_fits(reader: Reader) -> Iterator[str]:
    """The files that fits name and lack, by their place in the folder. What is damaged is set aside, with a warning."""
    for folder in sorted((reader.path / "fits").glob("*")):
        if not is_key(folder.name):
            continue
        try:
            notes = notes_of(reader, folder.name)
        except UserError as error:
            reader.warn(str(error))
            continue
        for name, known in ({} if notes is None else notes.get("files", {})).items():
            file = folder / name
            found = checksum.of_file(file)
            if found and found != known:
                reader.set_aside(file, why=CHANGED)
            elif not found and reader.is_gone(file):
                yield str(file.relative_to(reader.path))
