"""Published numbers: one table with their source, matched to what was run by identifiers, never by resemblance.

Columns of `published.csv`: `id`; `source`, `citation`, `where` (table, figure or section); `dataset` and
`printed_method` as printed, `data`, `method` and `model` as routebench calls the same thing, empty where it has none;
`variant`; `printed_iterations` and, where it is one number, `iterations`; `metric`, `unit`, `value`, `uncertainty`,
`uncertainty_kind`; `params` (parameters, as printed); `conditions` (how the number was made, and what to beware of).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from pandas import DataFrame

COLUMNS = (
    *("id", "source", "citation", "where", "dataset", "data", "printed_method", "method", "model", "variant"),
    *("printed_iterations", "iterations", "metric", "unit", "value", "uncertainty", "uncertainty_kind"),
    *("params", "conditions"),
)


@dataclass(frozen=True)
class Published:
    """A published accuracy.

    Args:
        id: its row in `published.csv`.
        accuracy: in %.
        source: authors and place, e.g. `Kiefer, Appendix A`.
        conditions: how it was made, as far as the paper says.
    """

    id: str
    accuracy: float
    source: str
    conditions: str


@cache
def _table() -> DataFrame:
    texts = pd.read_csv(Path(__file__).with_name("published.csv"), dtype=str, keep_default_na=False)
    numbers = {name: pd.to_numeric(texts[name]) for name in ("value", "uncertainty")}
    return texts.assign(**numbers, iterations=pd.to_numeric(texts["iterations"]).astype("Int64"))


def load_published() -> DataFrame:
    """Every published number; columns as the module says, `value` and `uncertainty` float, `iterations` Int64."""
    return _table().copy()


def find(data: str, model: str, method: str, iterations: int | None) -> Published | None:
    """The published test accuracy of the same data set, network, method and iteration count; None without one.

    Errors are turned into accuracies. What was printed for another network or an unnamed iteration count is no match.
    """
    rows = same_task(data, method)
    rows = rows[(rows["model"] == model) & (model != "")]
    rows = rows[rows["iterations"].isna() if iterations is None else (rows["iterations"] == iterations).fillna(False)]
    if rows.empty:
        return None
    row = rows.iloc[0]
    accuracy = 100 - row["value"] if row["metric"] == "test error" else row["value"]
    return Published(row["id"], float(accuracy), f"{row['source']}, {row['where']}", row["conditions"])


def same_task(data: str, method: str) -> DataFrame:
    """Published test accuracies and errors (%) of a method on a data set, whatever the network and the training."""
    known = _table()
    measured = known["metric"].isin(["test accuracy", "test error"]) & (known["unit"] == "%")
    return known[measured & (known["data"] == data) & (known["method"] == method) & (method != "")]
