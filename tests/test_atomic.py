"""Files that users ask for."""

import pytest

from routebench.atomic import write_output
from routebench.errors import UserError


def test_output_is_replaced_by_a_whole_one_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "out.csv"
    write_output(file, "old", "the table")
    write_output(file, b"new", "the table")
    assert file.read_bytes() == b"new"

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match=r"the table cannot be written to .*: the disk is full; choose with -o"):
        write_output(file, b"newer", "the table")
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
