"""Files that users ask for."""

import os
import threading

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


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "link.html").symlink_to("page.html")
    write_output(tmp_path / "link.html", "new", "the report")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "page.html").read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_output(pipe, "new", "the report")
    reader.join(10)
    assert read == ["new"]
    assert pipe.is_fifo()
