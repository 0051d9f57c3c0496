"""Folders of papers and studies. Those that ship, and a user's plug-in folders, have the same layout."""

import os
from dataclasses import dataclass
from pathlib import Path

from routebench.errors import WITHOUT, UserError, nearest
from routebench.registry._origin import PACKAGE, SHIPPED

SHELVES = ("papers", "studies")
KINDS = (
    "data", "routing", "models", "protocols", "analyses", "losses", "optimizers", "schedules", "augmentations",
)  # fmt: skip
"""Folders within one, whose Python files register something."""


@dataclass(frozen=True)
class Bundle:
    """A folder of a paper or of a study that ships, in `routebench/papers` or `routebench/studies`.

    Args:
        path: an absolute path.
        package: the name that it is imported under.
    """

    path: Path
    package: str

    def modules(self, kind: str) -> list[str]:
        """The names of its modules of one kind, such as `models`."""
        names = (file.relative_to(self.path).with_suffix("").parts for file in python_files(self.path / kind))
        return [".".join((self.package, *(part for part in name if part != "__init__"))) for name in names]


def bundles() -> list[Bundle]:
    """Papers, then studies, without those that the variable `ROUTEBENCH_WITHOUT` names.

    Raises:
        UserError: it names one that does not ship.
    """
    files = [file for shelf in SHELVES for file in sorted((PACKAGE / shelf).glob("*/__init__.py"))]
    every = {file.parent.name: file.parent for file in files}
    left_out = without()
    for name in left_out:
        if name not in every:
            raise UserError(f"unknown folder in {WITHOUT} {name!r}{nearest(name, every)}")
    return [
        Bundle(path, f"{SHIPPED}.{path.parent.name}.{name}") for name, path in every.items() if name not in left_out
    ]


def without() -> list[str]:
    """The shipped folders that this process is to do without, by name."""
    return [name.strip() for name in os.environ.get(WITHOUT, "").split(",") if name.strip()]


def python_files(folder: Path, *, deep: bool = True) -> list[Path]:
    """The Python files of a folder that may register something: no tests, and nothing whose name begins with `_`.

    Args:
        folder: an absolute path.
        deep: whether those further down count.
    """
    found = [file for file in sorted(folder.glob("**/*.py" if deep else "*.py")) if file.is_file()]  # no pipes
    return [file for file in found if not any(map(_is_inner, file.relative_to(folder).parts))]


def _is_inner(part: str) -> bool:
    return part != "__init__.py" and (part.startswith(("_", "test_")) or part in ("tests", "conftest.py"))
