"""Whatever a cell does to its process becomes a record with a reason, and its neighbours go on."""

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from routebench.engine.isolation import Isolated
from routebench.engine.running import RunConfig, _limits
from routebench.engine.running._cell import run_cell
from routebench.engine.running._crashes import death
from routebench.engine.running._limits import LONGEST_GAP, Monitor
from routebench.engine.running._processes import _printing_to
from routebench.engine.running._status import PlanStatus
from routebench.engine.running._suite import is_isolated
from routebench.engine.suites import Asked, Choices, load_suite, make_plans, plan
from routebench.kernels import compiler
from routebench.notation import parse
from routebench.protocols import Protocol
from routebench.registry import EVERY, load_plugin
from tests.engine.conftest import posing

WORST = Path(__file__).with_name("worst_parts.py")
DEEDS = (
    "crash", "abort", "hang", "freeze", "leak", "chatter", "leave", "resign", "interrupt", "litter", "fork", "patch",
    "deface", "mumble", "bait", "stutter", "drone",
)  # fmt: skip


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
    return {record.identity.method: record for record in run_all(made.cells, **how)}


def test_what_a_cell_prints_goes_to_its_file_and_that_a_kernel_is_compiled_to_the_user(tmp_path, capfd):
    with _printing_to(tmp_path / "output"):
        os.write(2, b"its own\n")
        compiler.TOLD.warning("compiling a kernel")
    assert (tmp_path / "output").read_text() == "its own\n"
    assert capfd.readouterr().err == "compiling a kernel\n"


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
        "fork": ("failed", "SIGSEGV", "worst_parts.py:"),
        "patch": ("ok", "", ""),
        "deface": ("failed", "", ""),
        "mumble": ("failed", "it sent what cannot be read", ""),
        "bait": ("failed", "it sent what cannot be read", ""),
        "stutter": ("timeout", "ran past 8 s", "worst_parts.py:"),
        "drone": ("timeout", "ran past 8 s", "worst_parts.py:"),
        "uniform": ("ok", "", ""),
        "random": ("ok", "", ""),
    }
    found = {name: (record.status, record.reason) for name, record in ended.items()}
    assert {name: status for name, (status, _) in found.items()} == {name: one[0] for name, one in told.items()}
    for name, (_, *words) in told.items():
        assert all(word in found[name][1] for word in words), (name, found[name])
    assert all("\n" not in reason for _, reason in found.values())
    assert all(store.record(record.cell).status == record.status for record in ended.values())
    assert not [file for file in (store.path / "locks").iterdir() if file.suffix in (".share", ".output")]
    assert "Fatal Python error" in ended["crash"].output
    assert "(_below)" in ended["hang"].reason
    assert all(len(record.output or "") < 2100 for record in ended.values())
    assert "in _below" in ended["hang"].output
    left = int(litter.read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(left)


def test_without_a_limit_the_largest_cell_is_stopped_before_the_machine_is_full(
    parts, suite_file, run_all, monkeypatch
):
    monkeypatch.setattr(_limits, "SHARE", 1.5e9 / _limits.machine_memory())
    load_plugin(str(WORST))
    made = plan(load_suite(str(suite_file("worst", seeds=1))), "quick", Choices(methods=(parse("leak"),)))
    found = {record.label: record for record in run_all(made.cells, isolate=True, plugins=(str(parts), str(WORST)))}
    assert {label: record.status for label, record in found.items()} == {"leak": "oom", "uniform": "ok", "random": "ok"}
    assert "the most of runs that took" in found["leak"].reason
    assert "--memory-limit sets a limit for each" in found["leak"].reason


@pytest.mark.parametrize(("number", "told"), [("SIGKILL", "memory runs out"), ("SIGBUS", "may have got shorter")])
def test_a_signal_that_has_a_usual_cause_is_told_with_it(number, told):
    crashes = {name: death(-getattr(signal, name), 10**9, "").reason for name in ("SIGKILL", "SIGBUS", "SIGSEGV")}
    assert [name for name, reason in crashes.items() if told in reason] == [number]


MEDDLES = """
import torch
from routebench import routing

before = torch.Tensor.double
torch.Tensor.double = lambda self: before(self) * torch.rand(1)

@routing.register("meddles")
class Meddles(routing.RoutingMethod):
    def route(self, votes, activations):
        return routing.Routed(votes.sweep().first)
"""


def test_what_a_plugin_replaces_when_imported_changes_no_other_method(parts, suite_file, tmp_path, store, run_all):
    (tmp_path / "meddles.py").write_text(MEDDLES)
    plugins = (str(parts), str(tmp_path / "meddles.py"))
    (made,) = make_plans(Asked(str(suite_file(seeds=1)), "quick", Choices(methods=(parse("meddles"),)), plugins)).plans
    found = {record.label: record for record in run_all(made.cells, isolate=True)}
    assert {label: record.status for label, record in found.items()} == dict.fromkeys(
        ("meddles", "uniform", "random"), "ok"
    )
    store.write_record(replace(found["uniform"], status="failed", metrics=[]), {})
    (alone,) = run_all([cell for cell in made.cells if cell.label == "uniform"])
    assert found["uniform"].metrics == alone.metrics != found["meddles"].metrics


def test_in_one_process_a_cell_that_replaces_functions_fails_and_they_are_put_back(suite_file, parts, run_all):
    load_plugin(str(WORST))
    suite = load_suite(str(suite_file("worst", seeds=1)))
    step = torch.optim.Adam.step
    found = {record.label: record for record in run_all(plan(suite, "quick", Choices(methods=(parse("patch"),))).cells)}
    assert found["patch"].status == "failed"
    assert "it changed torch.optim.adam.Adam.step for all that runs in its process" in found["patch"].reason
    assert found["uniform"].status == found["random"].status == "ok"
    assert torch.optim.Adam.step is step


def test_an_error_without_words_is_a_failed_cell(made, store, monkeypatch):
    class Mute(Exception):
        def __str__(self):
            raise ValueError("none")

    class Raises(Protocol):
        def measure(self, request, options, context):
            raise Mute

    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Raises))
    record = run_cell(made.cells[0], store, torch.device("cpu"), {}, lambda _: None)
    assert record.status == "failed"
    assert record.reason.startswith("Mute: its message cannot be had: __str__ raised ValueError (test_isolation.py:")


def test_cells_are_isolated_where_others_code_takes_part_or_something_failed(made, parts, suite_file):
    shipped, crashed = plan(load_suite("cost"), "smoke", Choices()), PlanStatus(failed=[made.cells[0]])
    assert not is_isolated(None, shipped, PlanStatus())
    assert is_isolated(None, made, PlanStatus())  # its protocol and its data are of a plug-in
    assert not is_isolated(False, made, PlanStatus())
    assert all(is_isolated(wanted, shipped, crashed) for wanted in (None, True, False))
    assert is_isolated(True, shipped, PlanStatus())


def test_time_for_which_somebody_stopped_it_is_not_time_of_a_cell(made, store, monkeypatch):
    moments = iter([10.0, 10.5, 10.5 + 2 * LONGEST_GAP, 11.0 + 2 * LONGEST_GAP, 11.5 + 2 * LONGEST_GAP])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    process = subprocess.Popen(["sleep", "100"])
    call = object.__new__(Isolated)
    call.number = process.pid
    monitor = Monitor(made.cells[0], call, RunConfig("cpu", 1, 1))
    try:
        for _ in range(4):  # the third finds that this process was stopped
            monitor._count()
        assert monitor.seconds == pytest.approx(1.0)
        process.send_signal(signal.SIGSTOP)
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            pass
        monitor._count()
        assert monitor.seconds == pytest.approx(1.0)
    finally:
        process.kill()
        process.wait()
