"""A small board, measured once, and two methods that joined it."""

import pytest

import routebench
from routebench.interface import run_suite
from routebench.registry import extensions
from tests.built import built_once
from tests.command import Command, import_once
from tests.ranking import made


@pytest.fixture
def routebench_in(tmp_path, capfd):
    """The command line in an empty folder."""
    return Command(tmp_path, capfd)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The suite of a small board beside its settings, and the folder of its results, `published`."""
    return built_once(tmp_path_factory, "tiny", measure)


def measure(folder):
    """Chooses the settings of the small board, and runs it."""
    from routebench.engine.running import prepare
    from routebench.engine.tuning import choose
    from routebench.options import TuneOptions

    suite = folder / "tiny.toml"
    suite.write_text(made.SUITE.replace('settings = "tiny.quick.settings.json"\n', ""))
    call = prepare(TuneOptions(suite=str(suite), results=folder / "trials", jobs=1))
    for planned in call:
        planned.write_plan()
        planned.run(routebench.engine.running.Listener())
    choose(planned.plan, call.store).write(folder / "tiny.quick.settings.json")
    suite.write_text(made.SUITE)
    run_suite(suite, results=folder / "published", jobs=1, report=False)


@pytest.fixture(scope="session")
def board(tiny):
    """The small board's name for `--board`, and the folder of its published results for `--beside`."""
    return f"{tiny / 'tiny.toml'}:quick", tiny / "published"


@pytest.fixture(scope="session")
def joined(board, tmp_path_factory):
    """A method's file, `sharper.py`, beside the results of its ranking on the small board, `own`."""

    def join(folder):
        import_once()
        name, published = board
        file = made.method(folder)
        with extensions.restored():
            routebench.rank(file, board=name, beside=published, results=folder / "own", jobs=1, isolate=False)

    return built_once(tmp_path_factory, "joined", join)


@pytest.fixture(autouse=True)
def _as_before():
    """Forgets what a test registers: methods of several tests have one name."""
    with extensions.restored():
        yield
