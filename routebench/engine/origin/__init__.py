"""Where a result comes from: code, machine, versions."""

from routebench.engine.origin._provenance import (
    command_line,
    plugin_hash,
    plugin_hashes,
    processor,
    provenance,
    versions,
)
from routebench.engine.origin._source import fit_code, shipped_hash, source_hash

__all__ = [
    "command_line",
    "fit_code",
    "plugin_hash",
    "plugin_hashes",
    "processor",
    "provenance",
    "shipped_hash",
    "source_hash",
    "versions",
]
