"""BASE and HEAD, two results folders, compared: what got worse or better, and what could not have been seen."""

from routebench.comparing._comparison import FolderComparison, compare_folders
from routebench.comparing._formats import as_json, as_markdown, as_plain, as_text
from routebench.comparing._rounds import RoundSide, keep_origin, origin_of_rounds, side_of
from routebench.comparing._verdicts import Tolerance, Wishes, read_tolerances
from routebench.comparing._words import verdict

__all__ = [
    "FolderComparison",
    "RoundSide",
    "Tolerance",
    "Wishes",
    "as_json",
    "as_markdown",
    "as_plain",
    "as_text",
    "compare_folders",
    "keep_origin",
    "origin_of_rounds",
    "read_tolerances",
    "side_of",
    "verdict",
]
