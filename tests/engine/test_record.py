"""What is read from JSON is written back as it was, and stands for the same cell."""

import json
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest

from routebench.engine.results import RECORD, Identity, PlanTable, Record, digest, distinct, files_of, is_plan

REPORTS = Path(__file__).parents[2] / "reports"
FOLDERS = sorted(path.parent.name for path in REPORTS.glob("*/records.parquet"))


def contents(folder, part):
    return [json.loads(file.read_text()) for file in (files_of(REPORTS / folder) / part).glob("*.json")]


def test_something_is_published():
    assert "quick" in FOLDERS


@pytest.mark.parametrize("folder", FOLDERS)
def test_published_records_are_written_back_as_they_were(folder):
    for content in contents(folder, "records"):
        assert RECORD(content)
        record = Record.read(content)
        assert json.dumps(record.as_dict()) == json.dumps(content)
        assert record.identity.key == digest(distinct(content["identity"])) == record.cell


@pytest.mark.parametrize("folder", FOLDERS)
def test_published_plans_are_written_back_as_they_were(folder):
    for content in contents(folder, "plans"):
        assert is_plan(content)
        cells = [*PlanTable.of(content).cells]
        assert json.dumps([cell.as_dict() for cell in cells]) == json.dumps(content["cells"])
        assert [cell.identity.key for cell in cells] == [cell.cell for cell in cells]


def test_what_a_later_version_adds_is_kept_and_counts():
    content = contents("quick", "records")[0]
    known = Record.read(content)
    content["identity"]["temperature"] = 0.5
    content["note"] = {"of": "a later version"}
    record = Record.read(content)
    assert record.as_dict() == content
    assert record.identity.key != known.identity.key
    assert replace(record.identity, others={}) == known.identity


@pytest.mark.parametrize(
    "missing", [one.name for one in fields(Identity) if one.default is MISSING and one.name != "others"]
)
def test_an_identity_needs_all_that_can_change_a_result(missing):
    content = contents("quick", "records")[0]
    del content["identity"][missing]
    assert not RECORD(content)
