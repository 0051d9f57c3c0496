"""The source of a Python file as this process runs it, from which the file may differ that was edited since."""

import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.machinery import SourceFileLoader
from operator import is_
from pathlib import Path
from types import CodeType, ModuleType

from routebench.errors import UserError
from routebench.received import read_plain

_sources: dict[Path, tuple[object, bytes]] = {}
"""One loading of a module by file, and the source that was found then."""
_own_files: dict[Path, dict[Path, tuple[object, str]]] = {}
"""Files that count as the code of the file that reads them, by that file, with stamp and hash of what was found."""
_modules: list[ModuleType] = []
"""All modules when they were last looked through: thousands, for each of a hundred files."""
_by_name: defaultdict[str, list[ModuleType]] = defaultdict(list)
"""These modules by the name of their file without its folder."""


class AsRead(SourceFileLoader):
    """Compiles a file as it is now, and keeps its source.

    Python itself takes the code that it compiled before if an edit left the file's size and the second of its time.
    """

    source = b""

    def get_code(self, fullname: str) -> CodeType:  # the name of `SourceFileLoader`
        """The code of the file."""
        self.source, _ = read_plain(self.path, named=True)
        code: CodeType = self.source_to_code(self.source, self.path)
        return code


def loaded_source(file: Path) -> bytes:
    """The source of a Python file as this process runs it; where it has not imported it, as it is on disk.

    Of a plug-in it is what was compiled. Of another module it is what was found when a part of it was registered, or
    at the first question, and stands until the module is loaded again, as by `importlib.reload` or `%autoreload`. An
    edit between the import of such a module and that look is not seen.

    Args:
        file: a resolved path.

    Raises:
        OSError: the file cannot be read.
    """
    module = _module_of(file)
    if module is None:
        return read_plain(file, named=True)[0]
    loading = module.__spec__ or module  # each loading of a module makes a new `__spec__`
    loader = getattr(module.__spec__, "loader", None)
    if isinstance(loader, AsRead):
        return loader.source
    known = _sources.get(file)
    if known is None or known[0] is not loading:
        known = _sources[file] = loading, read_plain(file, named=True)[0]
    return known[1]


def own_file(reader: str | Path, name: str | Path) -> Path:
    """A file that a plug-in reads, such as a table of numbers: from now on its content counts as the plug-in's code.

    Call it at the top level of the plug-in's file, so that it is known before anything is planned.

    Args:
        reader: the plug-in's file, `__file__` in it.
        name: the path of the other, from the folder of the plug-in's file.

    Returns:
        its whole path.

    Raises:
        UserError: it cannot be read.
    """
    source = Path(os.path.realpath(reader))
    file = source.parent / name
    try:
        found = _stamp_and_hash(file)
    except OSError as error:
        raise UserError(f"{source.name}: its file {str(name)!r} cannot be read ({error.strerror})") from error
    _own_files.setdefault(source, {})[file] = found
    return file


def own_files_of(file: Path) -> Mapping[Path, str]:
    """Hashes of the files that a file has said it reads; of one that was written since, the hash of then and of now.

    Nobody knows whether such a file is read when the plug-in is imported, or later.
    """
    return {other: _hash_since(other, *known) for other, known in _own_files.get(file, {}).items()}


def _hash_since(file: Path, stamp: object, then: str) -> str:
    try:
        if _stamp(file.stat()) == stamp:
            return then
        now = _stamp_and_hash(file)[1]
    except OSError:
        now = "gone"
    return then if now == then else f"{then} {now}"


def _stamp_and_hash(file: Path) -> tuple[object, str]:
    content, known = read_plain(file, named=True)
    return _stamp(known), hashlib.sha256(content).hexdigest()


def _stamp(known: os.stat_result) -> object:
    return known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino


def keep_source(module: str) -> None:
    """Looks at the source of a module that is being loaded, before it can be edited; does nothing without a file."""
    file = Path(os.path.realpath(getattr(sys.modules.get(module), "__file__", None) or ""))
    if file.is_file():
        loaded_source(file)


def _module_of(file: Path) -> ModuleType | None:
    """The module that was loaded from a file. To ask one that loads itself late would load it."""
    loaded = list(sys.modules.values())
    if len(loaded) != len(_modules) or not all(map(is_, loaded, _modules)):
        _modules[:] = loaded
        _by_name.clear()
        for module in loaded:
            known = vars(module).get("__file__") if type(module) is ModuleType else None
            if isinstance(known, str):
                _by_name[os.path.basename(known)].append(module)  # noqa: PTH119  # a Path takes ten times as long
    return next((one for one in _by_name.get(file.name, ()) if _resolved(vars(one)["__file__"]) == str(file)), None)


_resolved = cache(os.path.realpath)
