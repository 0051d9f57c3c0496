"""Results folders, written once and only read."""

import pytest

from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import made_up_records
from tests.export.folders import nasty_folder


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Seven methods with three seeds; em with T = 3 has a diverged cell and one without a record."""
    return write_folder(tmp_path_factory.mktemp("plain"), made_up_records())


@pytest.fixture(scope="session")
def planned_again(tmp_path_factory):
    """The runs of an older plan, those of em and of a preset that nobody planned again, below those of other code."""
    folder = tmp_path_factory.mktemp("again")
    write_folder(folder, made_up_records(seeds=1, failures=False, preset="smoke"), preset="smoke")
    new = made_up_records(seeds=2, failures=False)
    old = [{**one, "cell": one["cell"][::-1], "identity": {**one["identity"], "source": "0" * 16}} for one in new]
    for time, records in enumerate((old, [one for one in new if one["label"] != "em"]), start=1):
        write_folder(folder, records, time=time)
    return folder


@pytest.fixture(scope="session")
def nasty(tmp_path_factory):
    return nasty_folder(tmp_path_factory.mktemp("nasty"))


@pytest.fixture(scope="session")
def two_presets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets")
    for time, preset in enumerate(("quick", "smoke")):
        write_folder(folder, made_up_records(seeds=1, failures=False, preset=preset), preset=preset, time=time)
    return folder
