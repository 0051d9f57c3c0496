"""A results folder: its records and plans, written in one step, and read however damaged."""

from routebench.engine.results import _checksum as checksum
from routebench.engine.results._checksum import unsealed
from routebench.engine.results._folder import CHANGED, SCHEMA, UNREADABLE, other_schema, parsed
from routebench.engine.results._plan_table import NOT_RUN
from routebench.engine.results._record_table import is_record
from routebench.engine.results._shapes import DEPTH, by_name, is_plain, is_text
from routebench.engine.results._store import (
    Store,
    StoreFull,
    existing,
    load_arrays,
    load_results,
    write_tensors,
    write_text,
)

__all__ = [
    "CHANGED",
    "DEPTH",
    "NOT_RUN",
    "SCHEMA",
    "UNREADABLE",
    "Store",
    "StoreFull",
    "by_name",
    "checksum",
    "existing",
    "is_plain",
    "is_record",
    "is_text",
    "load_arrays",
    "load_results",
    "other_schema",
    "parsed",
    "unsealed",
    "write_tensors",
    "write_text",
]
