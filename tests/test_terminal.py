"""What reaches the terminal, whatever it can show."""

import io
import logging
import sys
import warnings

import pytest

from routebench import cli, terminal


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
