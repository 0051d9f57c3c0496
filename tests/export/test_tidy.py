"""Reading an export back gives what `load_results` gives."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from routebench.analysis.folder import open_folder
from routebench.engine.results import Store, load_results
from routebench.errors import UserError
from routebench.export import Choice, export, provenance_of_parquet
from tests.export.folders import NASTY

COMMAND = "python -m routebench export"


def read_csv(content: bytes) -> pd.DataFrame:
    exact = {"float_precision": "round_trip"} if pd.__version__.startswith("3.0.") else {}  # later ones always are
    return pd.read_csv(io.BytesIO(content), comment="#", **exact)


def as_csv_has_it(results: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """CSV knows no types and no difference between an empty text and none: the types are those that pandas guesses."""
    return results.replace("", np.nan).astype(like.dtypes.to_dict())


@pytest.fixture(params=["plain", "nasty", "planned_again"])
def folder(request):
    return request.getfixturevalue(request.param)


def test_csv_gives_every_row_back(folder):
    results = load_results(folder)
    found = read_csv(export(open_folder(folder), Choice(), "csv", COMMAND))
    assert_frame_equal(found, as_csv_has_it(results, found), check_exact=True)
    assert found["value"].notna().sum() > 100


def test_parquet_gives_every_row_and_type_back(folder):
    results = load_results(folder)
    content = export(open_folder(folder), Choice(), "parquet", COMMAND)
    assert_frame_equal(pd.read_parquet(io.BytesIO(content)), results, check_exact=True)


@pytest.mark.parametrize("choice", [Choice(), Choice(suite="accuracy", preset="quick"), Choice(metric="accuracy")])
def test_runs_whose_place_newer_ones_took_are_left_out_and_told(planned_again, choice):
    opened = open_folder(planned_again)
    found = json.loads(export(opened, choice, "json", COMMAND))
    superseded = opened.store.superseded()
    cells = {row["cell"] for row in found["rows"]}
    assert superseded and cells == found["runs"].keys() and not superseded & cells
    (told,) = [line for line in opened.store.warnings if "left out" in line]
    assert told.startswith(f"left out: {len(superseded)} runs of earlier code")


def test_a_part_without_such_runs_tells_nothing(planned_again):
    opened = open_folder(planned_again)
    assert export(opened, Choice(preset="smoke"), "json", COMMAND)
    assert not [line for line in opened.store.warnings if "left out" in line]


def test_a_failed_cell_keeps_its_row_and_its_reason(nasty):
    found = read_csv(export(open_folder(nasty), Choice(metric="accuracy"), "csv", COMMAND))
    (failed,) = found[found["status"] != "ok"].to_dict("records")
    assert (failed["status"], failed["label"]) == ("failed", NASTY)
    assert failed["reason"] == 'ValueError: "a", # b;\nsecond line --> % \\end'
    assert set(found.loc[found["status"] == "ok", "metric"]) == {"accuracy"}


def test_both_formats_carry_the_provenance_of_every_cell(plain, tmp_path):
    file = tmp_path / "out.parquet"
    file.write_bytes(export(open_folder(plain), Choice(), "parquet", COMMAND))
    origin = provenance_of_parquet(file)
    lines = export(open_folder(plain), Choice(), "csv", COMMAND).decode().splitlines()
    shared = json.loads(next(line for line in lines if line.startswith("# all: ")).removeprefix("# all: "))
    named = [line.removeprefix("# run ").split(": ", 1) for line in lines if line.startswith("# run ")]
    own = {cell: json.loads(text) for cell, text in named}
    assert origin.command == COMMAND
    assert COMMAND in lines[0]
    records = list(Store(plain).records())
    assert len(records) == len(own) == len(origin.cells) > 30
    for record in records:
        assert origin.of(record.cell) == {**shared, **own[record.cell]}
        assert origin.of(record.cell).items() >= record.provenance.items()
        assert origin.of(record.cell)["data_fingerprint"] == record.identity.data_fingerprint


def test_a_preset_is_told_from_another_of_the_same_suite(two_presets):
    every = {
        preset: read_csv(export(open_folder(two_presets), Choice(preset=preset), "csv", COMMAND))
        for preset in (None, "smoke")
    }
    assert every["smoke"]["cell"].nunique() == 13
    assert every[None]["cell"].nunique() == 26


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (Choice(suite="acuracy"), "nothing was planned of suite 'acuracy'"),
        (Choice(preset="full"), "holds accuracy (quick)"),
        (Choice(metric="acuracy"), "did you mean 'accuracy'"),
    ],
)
def test_a_choice_that_nothing_fits_says_what_there_is(plain, choice, says):
    with pytest.raises(UserError) as error:
        export(open_folder(plain), choice, "csv", COMMAND)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
