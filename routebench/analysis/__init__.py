"""The parts of an analysis: values by method, tables of estimates, verdicts, figures, and words.

>>> from routebench.analysis import METHOD, Analysis, Mean, Runs, table_of
>>> columns = (METHOD, Mean.of("hoyer", where={"layer": "classes"}))
>>> def sparsity(runs: Runs) -> Analysis:
...     return Analysis("Sparsity", "A sentence.", table_of(runs, columns, order="hoyer"), columns=columns)

`analyses/` has one file per analysis; modules of this package cover a topic each: `comparison`, `cost`, `probe`, ...
"""

from routebench.analysis import figures, wording
from routebench.analysis._answer import answer_of
from routebench.analysis._data_sets import data_sets_of, highest_tiers, images_in_words
from routebench.analysis._estimate import (
    MISSING,
    Estimate,
    SeedValues,
    at_stake,
    base_of,
    believed,
    corrected,
    difference,
    gains_over,
    mean_of,
    unflattered,
)
from routebench.analysis._method import BASELINE, Method
from routebench.analysis._result import Analysis, Main, Role, analysis_of
from routebench.analysis._runs import Runs, means_over_seeds
from routebench.analysis._script import run
from routebench.analysis._table import (
    METHOD,
    MODEL,
    SEEDS,
    Column,
    Mean,
    Row,
    among,
    best_first,
    by_method,
    numbers,
    standing,
    table_of,
)
from routebench.analysis._verdicts import MARGIN, Verdict
from routebench.analysis.folder import open_folder
from routebench.statistics import ALPHA

__all__ = [
    "ALPHA",
    "BASELINE",
    "MARGIN",
    "METHOD",
    "MISSING",
    "MODEL",
    "SEEDS",
    "Analysis",
    "Column",
    "Estimate",
    "Main",
    "Mean",
    "Method",
    "Role",
    "Row",
    "Runs",
    "SeedValues",
    "Verdict",
    "among",
    "analysis_of",
    "answer_of",
    "at_stake",
    "base_of",
    "believed",
    "best_first",
    "by_method",
    "corrected",
    "data_sets_of",
    "difference",
    "figures",
    "gains_over",
    "highest_tiers",
    "images_in_words",
    "mean_of",
    "means_over_seeds",
    "numbers",
    "open_folder",
    "run",
    "standing",
    "table_of",
    "unflattered",
    "wording",
]
