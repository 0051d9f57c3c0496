"""What the stress scripts share: suites in a process group of their own, and what has to be true afterwards."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from routebench import load_results
from routebench.engine.results import Store
from tests.engine.conftest import TUNED

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "tests" / "engine" / "small_parts.py"
REAL = ("accuracy", "--preset", "smoke", "--method", "dynamic", "--seeds", "1", "--jobs", "2")
QUICK = """
question = "How bright are digits?"
version = 1
protocol = "brightness"
[[methods]]
name = "dynamic"
[presets.quick]
data = "digits200"
model = "capsnet-small"
iterations = [1, 2]
seeds = {seeds}
seconds = {seconds}
journal = "{journal}"
training = {{ epochs = 1 }}
"""
TIMES = {"s", "ms"}


class Suite:
    """A suite, started as often as need be.

    Args:
        arguments: of the command, the results folder apart.
        folder: to work in.
        command: `suite` or `tune`.
    """

    def __init__(self, arguments, folder, command="suite"):
        self.arguments = [command, *arguments]
        self.folder = folder
        self.token = secrets.token_hex(8)

    @classmethod
    def quick(cls, folder, seeds=3, seconds=0.2, jobs=1):
        """Four cells per seed, which measure without training, each as long as asked; the journal counts them."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "small.toml"
        file.write_text(QUICK.format(seeds=seeds, seconds=seconds, journal=folder / "journal"))
        return cls([file, "--plugin", PARTS, "--jobs", jobs], folder)

    @classmethod
    def tuned(cls, folder, jobs=1):
        """Trials of two methods and a control, which train, and repeats of the best."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "small.toml"
        file.write_text(TUNED.format(more="", trials=2, scored=1, again="finalists = 2"))
        return cls([file, "--plugin", PARTS, "--jobs", jobs, "--no-isolate"], folder, "tune")

    def start(self, results):
        """A process, with all that it starts in one group."""
        command = [sys.executable, "-m", "routebench", *self.arguments, "--results", results]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROUTEBENCH_STRESS": self.token, "COLUMNS": "200"}
        return subprocess.Popen(
            [*map(str, command)], cwd=self.folder, env=environment, start_new_session=True, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, results):
        """To its end; the seconds that it took."""
        started = time.monotonic()
        self.expect_success(self.start(results))
        return time.monotonic() - started

    @staticmethod
    def expect_success(process):
        """Waits, and complains with what the process said."""
        _, told = process.communicate()
        if process.returncode != 0:
            raise AssertionError(f"expected exit code 0, got {process.returncode}: {told[-2000:]}")

    def processes(self):
        """The numbers of all processes that its runs have started and that still live."""
        marker = f"ROUTEBENCH_STRESS={self.token}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def expect_no_orphans(self, patience=5.0):
        """Complains of processes that outlive their parent."""
        until = time.monotonic() + patience
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left, f"orphans: {left}"


def kill(process):
    """Kills a process and all of its group, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finished(results):
    """The bytes of all records of cells that have a result, by name."""
    found = {}
    for file in (results / "records").glob("*.json"):
        content = file.read_bytes()
        if b'"status": "ok"' in content:
            found[file.name] = content
    return found


def table(results):
    """All that was found but for times."""
    found = load_results(results)
    found = found[~found["unit"].isin(TIMES)].drop(columns=["seconds", "commit", "dirty"])
    keys = [key for key in ("cell", "metric", "split", "test_iterations", "epoch") if key in found]
    return found.sort_values(keys).reset_index(drop=True)


def expect_whole(results, reference):
    """The folder holds what an uninterrupted run left in another, nothing is half-written, and no lock is held."""
    pd.testing.assert_frame_equal(table(results), table(reference), check_exact=True)
    for file in reference.glob("*.settings.json"):
        found, known = (json.loads((place / file.name).read_text()) for place in (results, reference))
        assert found["choices"] == known["choices"]
    store = Store(results)
    assert set(store.planned()["status"]) == {"ok"}
    assert store.warnings == []
    left = [str(file) for file in results.rglob("*") if file.name.endswith(".tmp") or "damaged" in file.parts]
    assert not left, f"left over: {left}"
    for file in (results / "locks").glob("*.lock"):
        kind, _, key = file.stem.partition("-")
        lock = store.try_lock(kind, key)
        assert lock is not None, f"held: {file.name}"
        lock.release()
