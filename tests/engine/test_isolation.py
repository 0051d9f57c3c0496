"""Whatever a cell does to its process becomes a record with a reason, and its neighbours go on."""

import time
from pathlib import Path

import psutil
import pytest

from routebench.engine.plan import Choices, plan
from routebench.engine.suite import load_suite
from routebench.registry import load_plugin
from routebench.routing.spec import parse

WORST = Path(__file__).with_name("worst_parts.py")
DEEDS = ("crash", "abort", "hang", "freeze", "leak", "chatter", "leave", "resign", "interrupt", "litter", "deface")


@pytest.fixture
def litter(tmp_path):
    """Where a process is named that a cell leaves behind."""
    return tmp_path / "process"


@pytest.fixture
def ended(parts, litter, suite_file, run_all):
    """The records of the worst cells and of their neighbours, by method."""
    load_plugin(str(WORST))
    suite = load_suite(str(suite_file("worst", seeds=1, more=f'litter = "{litter}"')))
    made = plan(suite, "quick", Choices(methods=tuple(map(parse, DEEDS))))
    how = {"jobs": 2, "time_limit": 8.0, "memory_limit": 10**9, "plugins": (str(parts), str(WORST))}
    return {record["identity"]["method"]: record for record in run_all(made.cells, **how)}


def test_the_worst_cells_fail_alone(ended, litter, store):
    told = {
        "crash": ("failed", "SIGSEGV", "worst_parts.py:"),
        "abort": ("failed", "SIGABRT", "worst_parts.py:"),
        "hang": ("timeout", "ran past 8 s", "worst_parts.py:"),
        "freeze": ("timeout", "ran past 8 s", "worst_parts.py:"),
        "leak": ("oom", "of the 1.00 GB that --memory-limit allows", "was stopped"),
        "chatter": ("ok", "", ""),
        "leave": ("failed", "ended itself with exit code 0", ""),
        "resign": ("failed", "sys.exit(7)", ""),
        "interrupt": ("failed", "KeyboardInterrupt", ""),
        "litter": ("failed", "SIGKILL", "last seen with"),
        "deface": ("failed", "", ""),
        "uniform": ("ok", "", ""),
        "random": ("ok", "", ""),
    }
    found = {name: (record["status"], record["reason"]) for name, record in ended.items()}
    assert {name: status for name, (status, _) in found.items()} == {name: one[0] for name, one in told.items()}
    for name, (_, *words) in told.items():
        assert all(word in found[name][1] for word in words), (name, found[name])
    assert all("\n" not in reason for _, reason in found.values())
    assert all(store.record(record["cell"])["status"] == record["status"] for record in ended.values())
    assert not [file for file in (store.path / "locks").iterdir() if file.suffix in (".share", ".output")]
    assert "Fatal Python error" in ended["crash"]["output"]
    assert "(_below)" in ended["hang"]["reason"]
    assert all(len(record.get("output", "")) < 2100 for record in ended.values())
    assert "in _below" in ended["hang"]["output"]
    left = int(litter.read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(left)
