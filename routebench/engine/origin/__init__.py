"""The origin of a result: code, machine, versions."""

from routebench.engine.origin._provenance import (
    command_line,
    commit_of,
    files_hash,
    plugin_hash,
    plugin_hashes,
    processor,
    provenance,
    recorded_as,
    versions,
)
from routebench.engine.origin._source import Code, code_of, files_behind, fit_code, package_stamp

__all__ = [
    "Code",
    "code_of",
    "command_line",
    "commit_of",
    "files_behind",
    "files_hash",
    "fit_code",
    "package_stamp",
    "plugin_hash",
    "plugin_hashes",
    "processor",
    "provenance",
    "recorded_as",
    "versions",
]
