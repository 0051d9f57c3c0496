"""What travels with the package: as published, whole, and told where it is not."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from routebench import ranking
from routebench.analysis import open_folder
from routebench.analysis.comparison import comparison_of
from routebench.errors import UserError
from routebench.options import RankOptions
from routebench.ranking import BOARDS, Wanted, board_of, published

REPORTS = Path(__file__).parents[2] / "reports"


@cache
def parts_of(pack):
    """The parts of a published pack, of which most boards come from one."""
    return open_folder(REPORTS / pack).parts


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_says_what_its_pack_says(name):
    known = published(board_of(name))
    parts = parts_of(known.board.pack)
    part = known.board.of(*(one for one in parts if (one.suite, one.preset) == known.board.part))
    ours, theirs = (comparison_of(runs) for runs in (known.runs, part))
    assert [*ours.contenders] == [*theirs.contenders]
    for method, one in ours.contenders.items():
        other = theirs.contenders[method]
        assert one.accuracies == other.accuracies and one.cells == other.cells
        cell = next(iter(one.cells.values()))
        assert np.array_equal(known.runs.correct(cell), part.correct(cell))
    for key in ("mean", "gain", "rank_low", "rank_high"):
        assert ours.table[key].map(str).tolist() == theirs.table[key].map(str).tolist()
    planned = known.runs.planned.groupby(["label", "iterations"], dropna=False).size()
    assert set(planned) == {known.board.seeds}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_was_taken_from_the_pack_as_it_is_now(name):
    told = json.loads((board_of(name).folder / "board.json").read_text())
    assert told["pack"] == board_of(name).pack
    assert told["from"] == ranking.sums_of(REPORTS / board_of(name).pack), "run `python -m reports.boards`"


@pytest.mark.parametrize("name", BOARDS)
def test_uniform_routing_is_planned_today_as_it_was_published(name, tmp_path):
    """Else `rank` would refuse the board: publish its results again."""
    board = board_of(name)
    wanted, known = Wanted(board, "em", RankOptions(results=tmp_path)), published(board)
    ranking.expect_comparable(wanted, known)
    other = replace(known)
    object.__setattr__(other, "record", lambda key: changed(known.record(key)))
    with pytest.raises(UserError, match="got another data_fingerprint"):
        ranking.expect_comparable(wanted, other)


def changed(record):
    return replace(record, identity=replace(record.identity, data_fingerprint="0" * 16))


def test_all_boards_are_small():
    size = sum(file.stat().st_size for board in BOARDS.values() for file in board.folder.iterdir())
    assert size < 1_500_000, "they travel in the wheel"


@pytest.mark.parametrize("file", ["records.parquet", "arrays.parquet", "board.json"])
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_damaged_board_is_told_in_one_line(file, damage, tmp_path, monkeypatch):
    board = board_of("quick")
    shutil.copytree(board.folder, tmp_path / "quick")
    monkeypatch.setattr("routebench.ranking._boards.FOLDER", tmp_path)
    if damage == "gone":
        (tmp_path / "quick" / file).unlink()
    else:
        content = (tmp_path / "quick" / file).read_bytes()
        (tmp_path / "quick" / file).write_bytes(content[:-20])
    with pytest.raises(UserError, match="install routebench again"):
        published(board)


def test_a_folder_without_the_comparison_and_an_unknown_board_are_refused(tmp_path):
    with pytest.raises(UserError, match="expected results of board full"):
        published(board_of("full"), REPORTS / "quick")
    with pytest.raises(UserError, match="did you mean 'quick'"):
        board_of("quik")
    with pytest.raises(UserError, match="--beside"):
        published(replace(board_of("quick"), name="own.toml:quick"))
    with pytest.raises(UserError):
        published(board_of("quick"), tmp_path / "nothing")
