"""A small board, measured once, and two methods that joined it."""

import pytest

import routebench
from routebench.interface import run_suite
from routebench.registry import extensions
from tests.command import Command
from tests.ranking import made


@pytest.fixture
def routebench_in(tmp_path, capfd):
    """The command line in an empty folder."""
    return Command(tmp_path, capfd)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The suite of a small board beside its settings, and the folder of its results, `published`."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.toml").write_text(made.SUITE.replace('settings = "tiny.quick.settings.json"\n', ""))
    return folder


@pytest.fixture(scope="session")
def board(tiny):
    """The small board's name for `--board`, and the folder of its published results for `--beside`."""
    from routebench.engine.running import prepare
    from routebench.engine.tuning import choose
    from routebench.options import TuneOptions

    suite, published = tiny / "tiny.toml", tiny / "published"
    call = prepare(TuneOptions(suite=str(suite), results=tiny / "trials", jobs=1))
    for planned in call:
        planned.write_plan()
        planned.run(routebench.engine.running.Listener())
    choose(planned.plan, call.store).write(tiny / "tiny.quick.settings.json")
    suite.write_text(made.SUITE)
    run_suite(suite, results=published, jobs=1, report=False)
    return f"{suite}:quick", published


@pytest.fixture(autouse=True)
def _as_before():
    """Forgets what a test registers: methods of several tests have one name."""
    with extensions.restored():
        yield
