"""A spreadsheet that opens a CSV file runs none of it."""

import csv
import io

import pandas as pd
import pytest

from routebench.tables import as_csv

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x","y")', "+x", "-x", "=", "@", "-"]
PLAIN = ["em", "a=b", "1-2", "a\nb", "", "-1.5", "+2", "-inf", "1e-3", " =1"]


@pytest.mark.parametrize("dtype", [object, "category", "string"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
def test_text_that_begins_a_formula_is_marked_and_all_else_stays(dtype, quoting):
    rows = pd.DataFrame({"label": pd.Series([*FORMULAS, *PLAIN], dtype=dtype), "value": -1.5})
    found = list(csv.reader(io.StringIO(as_csv(rows, quoting=quoting), newline="")))[1:]
    assert [label for label, _ in found] == [*(f"'{one}".replace("\r", "\n") for one in FORMULAS), *PLAIN]
    assert {value for _, value in found} == {"-1.5"}


def test_names_of_columns_are_text_too_and_missing_values_stay_empty():
    rows = pd.DataFrame({"=x": ["a", None], "y": pd.array([1, None], dtype="Int64"), "z": [1.5, float("nan")]})
    assert as_csv(rows) == "'=x,y,z\na,1,1.5\n,,\n"
    assert list(rows.columns) == ["=x", "y", "z"]
