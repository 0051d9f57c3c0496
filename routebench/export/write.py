"""A file that is replaced only by a whole one."""

import os
import tempfile
from pathlib import Path

from routebench.errors import UserError


def put_in_place(file: Path, content: bytes) -> None:
    """Writes beside `file`, then renames: whoever reads meets the old file or the new one, never a part of it.

    Raises:
        UserError: it cannot be written there.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as beside:
            unfinished = Path(beside) / file.name
            with unfinished.open("wb") as written:
                written.write(content)
                written.flush()
                os.fsync(written.fileno())
            os.replace(unfinished, file)
    except OSError as error:
        raise UserError(f"the export cannot be written to {str(file)!r}: {error.strerror}; choose with -o") from error
