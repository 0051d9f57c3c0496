"""What reaches the terminal, whatever it can show."""

import io
import logging
import sys
import warnings

import pytest

from routebench import cli, terminal
from routebench.quantities import plural


@pytest.mark.parametrize(("encoding", "shown"), [
    ("ascii", "-1.5 +/- 0.2 -> 3 x M\\xfcller \\udc80"),
    ("latin-1", "-1.5 ± 0.2 -> 3 × Müller \\udc80"),
    ("utf-8", "−1.5 ± 0.2 → 3 × Müller \\udc80"),
])  # fmt: skip
def test_what_an_encoding_lacks_has_a_stand_in(monkeypatch, encoding, shown):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.prepare()
    print("−1.5 ± 0.2 → 3 × Müller \udc80", end="", flush=True)  # noqa: T201  # the last as of a name that is not UTF-8
    assert stream.buffer.getvalue().decode(encoding) == shown


def test_remarks_of_libraries_are_kept_away(caplog):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        terminal.prepare()
        warnings.warn("CUDA initialization: Found no NVIDIA driver on your system.", stacklevel=1)
        logging.getLogger("matplotlib").warning("Matplotlib created a temporary cache directory")
        logging.getLogger("torch.utils.cpp_extension").warning("No CUDA runtime is found, using CUDA_HOME=...")
    assert (caught, caplog.records) == ([], [])


def test_a_command_ends_well_where_its_output_cannot_be_encoded(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["routebench", "cite", "dynamic"])
    monkeypatch.setattr("routebench.export.citations_of", lambda _: "p − q\n")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    stream.flush()
    assert (ended.value.code, stream.buffer.getvalue()) == (0, b"p - q\n")


ROWS = [("em", "fashion-mnist, of which some images were taken", "3"), ("variational-bayes", "mnist", "10")]


def test_a_table_fits_a_terminal_and_is_whole_in_a_pipe():
    whole = [*terminal.in_columns(ROWS, None, titles=("method", "data", "seeds"))]
    assert [line.split("  ")[0] for line in whole] == ["method", "em", "variational-bayes"]
    assert {line.rindex(cell) for line, cell in zip(whole, ("seeds", "3", "10"), strict=True)} == {67}
    assert [*terminal.in_columns(ROWS, 80, titles=("method", "data", "seeds"))] == whole
    narrow = [*terminal.in_columns(ROWS, 40, titles=("method", "data", "seeds"))]
    assert narrow == ["em", "    data fashion-mnist, of which some", "    images were taken; seeds 3",
                      "variational-bayes", "    data mnist; seeds 10"]  # fmt: skip
    told = [*terminal.in_columns([row[:2] for row in ROWS], 50)]
    assert told == ["em                 fashion-mnist, of which some",
                    "                   images were taken", "variational-bayes  mnist"]  # fmt: skip
    assert [*terminal.in_columns([], 80)] == []


@pytest.mark.parametrize(("width", "told"), [(None, ["  one two three"]), (9, ["  one two", "    three"])])
def test_a_long_line_goes_on_further_in(width, told):
    assert terminal.folded("  one two three\n\nfour", width).split("\n") == [*told, "", "four"]


@pytest.mark.parametrize(
    ("part", "whole", "told"), [(0, 1, "0 of 1 seed"), (1, 1, "1 of 1 seed"), (0, 3, "0 of 3 seeds")]
)
def test_a_part_is_counted_by_the_number_of_all(part, whole, told):
    assert f"{part} of {plural(whole, 'seed')}" == told
