"""Durations and sizes as people write them."""

import pytest

from routebench.errors import UserError
from routebench.quantities import seconds, size, spoken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5s", 1.5),
        ("20m", 1200),
        ("20min", 1200),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86400),
    ],
)
def test_durations(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0s", "-5m", "5x", "m", "1h30", "1h x", "nan", "9" * 400])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UserError, match="expected a duration such as"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500MB", 500_000_000), ("4GB", 4 * 10**9), ("4 gb", 4 * 10**9), ("4GiB", 4 * 2**30), ("1.5kB", 1500)],
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "4", "0GB", "4G", "GB", "-1GB", "4GBs", "9" * 400 + "GB", "9" * 305 + "GB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UserError, match="expected a size such as"):
        size(text)


@pytest.mark.parametrize(
    ("duration", "told"),
    [(0.2, "about 1 s"), (42, "about 42 s"), (150, "about 2 min"), (3600, "about 60 min"), (7800, "about 2 h 10 min")],
)
def test_durations_are_spoken(duration, told):
    assert spoken(duration) == told
