"""Options, each declared once: the command line, Python functions, their checks and their help are made from here."""

from routebench.options._declared import ALL, MOST_THREADS, Execution, RankOptions, SuiteOptions, TuneOptions
from routebench.options._kinds import (
    Amount,
    Either,
    File,
    Flag,
    Location,
    Option,
    Paths,
    Time,
    Whole,
    Word,
    described,
    options_of,
    surroundings,
    taken_from_environment,
    takes,
)

__all__ = [
    "ALL",
    "MOST_THREADS",
    "Amount",
    "Either",
    "Execution",
    "File",
    "Flag",
    "Location",
    "Option",
    "Paths",
    "RankOptions",
    "SuiteOptions",
    "Time",
    "TuneOptions",
    "Whole",
    "Word",
    "described",
    "options_of",
    "surroundings",
    "taken_from_environment",
    "takes",
]
