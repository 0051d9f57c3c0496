"""A results folder: writes records and plans atomically, and reads even damaged folders."""

from routebench.atomic import StoreFull, write_tensors, write_text
from routebench.engine.results import _checksum as checksum
from routebench.engine.results._answers import outcomes
from routebench.engine.results._checks import beyond_range, cleaned, exact_bytes, expect_key, is_fit, is_key, is_plain
from routebench.engine.results._checksum import unsealed
from routebench.engine.results._folder import CHANGED, other_schema, parsed
from routebench.engine.results._index import stamp
from routebench.engine.results._pack import files_of, is_packed, pack, settings_in, unpack
from routebench.engine.results._plan_table import NOT_RUN, TRIALS, PlanTable, is_plan, preset_in_words, without
from routebench.engine.results._record import (
    COLUMNS,
    FAILED,
    RECORD,
    SCHEMA,
    SETTINGS,
    Entry,
    Identity,
    PlannedCell,
    Record,
    digest,
    distinct,
    ended,
)
from routebench.engine.results._record_table import Records
from routebench.engine.results._store import Store, existing, load_arrays, load_results
from routebench.engine.results._tuned import SAME_DATA, PlannedTuning, tuning_of

__all__ = [
    "CHANGED",
    "COLUMNS",
    "FAILED",
    "NOT_RUN",
    "RECORD",
    "SAME_DATA",
    "SCHEMA",
    "SETTINGS",
    "TRIALS",
    "Entry",
    "Identity",
    "PlanTable",
    "PlannedCell",
    "PlannedTuning",
    "Record",
    "Records",
    "Store",
    "StoreFull",
    "beyond_range",
    "checksum",
    "cleaned",
    "digest",
    "distinct",
    "ended",
    "exact_bytes",
    "existing",
    "expect_key",
    "files_of",
    "is_fit",
    "is_key",
    "is_packed",
    "is_plain",
    "is_plan",
    "load_arrays",
    "load_results",
    "other_schema",
    "outcomes",
    "pack",
    "parsed",
    "preset_in_words",
    "settings_in",
    "stamp",
    "tuning_of",
    "unpack",
    "unsealed",
    "without",
    "write_tensors",
    "write_text",
]
