"""Small suites, the command line in a process of its own, and the test plug-in taken out again after use."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from routebench.engine.results import Store
from routebench.engine.running import Listener, Queue, RunConfig, run_cells
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, load_suite, plan
from routebench.engine.tuning import choose
from routebench.registry import EVERY, extensions, load_plugin
from tests.built import built_once

PARTS = Path(__file__).with_name("small_parts.py")
ROOT = Path(__file__).parents[2]

SUITE = """
question = "How bright are digits?"
version = 1
protocol = "{protocol}"
[[methods]]
name = "dynamic"
[presets.quick]
data = "digits200"
model = "capsnet-small"
iterations = [1, 2]
seeds = {seeds}
training = {{ epochs = 1 }}
{more}
"""
TUNED = """
question = "Which is brightest?"
version = 1
protocol = "accuracy"
[training]
epochs = 1
[tuning]
trials = {trials}
studies = 2
folds = 3
scored = {scored}
{again}
[tuning.training]
learning_rate = {{ low = 3e-4, high = 3e-2, scale = "log" }}
loss = ["margin", "spread"]
[tuning.model]
weight_std = {{ low = 0.03, high = 1.0, scale = "log" }}
[tuning.methods.dynamic]
detach = [false, true]
{more}
[[methods]]
name = "dynamic"
first_is = "uniform"
[[methods]]
name = "heinsen"
[[baselines]]
name = "cnn"
[baselines.models]
capsnet-small = "cnn-small"
[presets.quick]
data = "digits200"
model = "capsnet-small"
iterations = [1, 2]
seeds = 2
"""


def posing(protocol):
    """A protocol that takes the place of `brightness`, and counts as its code: cells are run as they were planned."""
    protocol.__module__ = EVERY["protocols"]["brightness"].__module__
    return protocol


@pytest.fixture
def parts():
    """The test plug-in, registered for one test."""
    with extensions.restored():
        load_plugin(str(PARTS))
        yield PARTS


@pytest.fixture
def suite_file(tmp_path):
    """Writes a suite: 2 controls, and `dynamic` with T = 1 and 2, for each seed."""

    def write(protocol="brightness", seeds=2, more="", name="small"):
        file = tmp_path / f"{name}.toml"
        file.write_text(SUITE.format(protocol=protocol, seeds=seeds, more=more))
        return file

    return write


@pytest.fixture
def made(parts, suite_file):
    """A plan of eight cells."""
    return plan(load_suite(str(suite_file())), "quick", Choices())


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results")
    store.prepare()
    return store


@pytest.fixture
def run_all(store):
    """Runs cells, in this process unless asked otherwise, and returns their records."""

    def go(cells, listener=None, into=store, **how):
        config = RunConfig(**{"device": "cpu", "jobs": 1, "threads": 1, **how})
        return run_cells(Queue(cells), into, config, listener or Listener())

    return go


@pytest.fixture
def planned(made, store):
    """The same plan, written to the store."""
    write_plan(made, store)
    return made


class Program:
    """`python -m routebench` in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    def start(self, *arguments):
        return subprocess.Popen(
            self._command(arguments), cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, *arguments):
        return subprocess.run(
            self._command(arguments), cwd=self.folder, env=self.environment, text=True, capture_output=True, check=False
        )

    def _command(self, arguments):
        return [sys.executable, "-m", "routebench", *map(str, arguments)]


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


@pytest.fixture
def heard():
    """Interrupts are heard, here and in what is started: a shell has what it runs in the background ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def suite(parts, tmp_path):
    """Writes a suite with a table of tuning and reads it."""

    def write(more="", trials=4, scored=1, again=""):
        file = tmp_path / "tuned.toml"
        file.write_text(TUNED.format(more=more, trials=trials, scored=scored, again=again))
        return load_suite(str(file))

    return write


@pytest.fixture
def tried(suite):
    return plan(suite(), "quick", Choices(tuning=True))


@pytest.fixture
def settings(tried, run_all, store, tmp_path_factory):
    """Those that trials choose, which run once."""

    def run(folder):
        once = Store(folder)
        once.prepare()
        run_all(tried.cells, into=once)

    shutil.copytree(built_once(tmp_path_factory, "trials", run), store.path, dirs_exist_ok=True)
    return choose(tried, store)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A plan of eight cells and the folder of its run, which is made once and copied for every test."""
    load_plugin(str(PARTS))
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(SUITE.format(protocol="brightness", seeds=2, more=""))
    made, store = plan(load_suite(str(folder / "small.toml")), "quick", Choices()), Store(folder / "results")
    store.prepare()
    write_plan(made, store)
    run_cells(Queue(made.cells), store, RunConfig("cpu", jobs=1, threads=1), Listener())
    return made, store.path
