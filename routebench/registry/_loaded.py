"""The source of a Python file as this process runs it, from which the file may differ that was edited since."""

import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

_sources: dict[Path, tuple[object, bytes]] = {}
"""By file: one loading of a module, and the source that was found then."""


class AsRead(SourceFileLoader):
    """Compiles a file as it is now, and keeps its source.

    Python itself takes the code that it compiled before if an edit left the file's size and the second of its time.
    """

    source = b""

    def get_code(self, fullname: str) -> CodeType:  # the name of `SourceFileLoader`
        """The code of the file."""
        self.source = self.get_data(self.path)
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
        return file.read_bytes()
    loading = module.__spec__ or module  # each loading of a module makes a new `__spec__`
    loader = getattr(module.__spec__, "loader", None)
    if isinstance(loader, AsRead):
        return loader.source
    known = _sources.get(file)
    if known is None or known[0] is not loading:
        known = _sources[file] = loading, file.read_bytes()
    return known[1]


def keep_source(module: str) -> None:
    """Looks at the source of a module that is being loaded, before it can be edited; does nothing without a file."""
    file = Path(os.path.realpath(getattr(sys.modules.get(module), "__file__", None) or ""))
    if file.is_file():
        loaded_source(file)


def _module_of(file: Path) -> ModuleType | None:
    """The module that was loaded from a file. To ask one that loads itself late would load it."""
    for module in list(sys.modules.values()):
        known = vars(module).get("__file__") if type(module) is ModuleType else None
        if isinstance(known, str) and known.endswith(file.name) and os.path.realpath(known) == str(file):
            return module
    return None
