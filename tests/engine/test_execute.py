"""Cells run to their end, whatever happens to them, to their process or to their neighbours."""

import json
import os
import random
import signal
import time

import psutil
import pytest
import torch

from routebench import kernels, load_results
from routebench.capsules import Competition, Votes
from routebench.engine.results import Store
from routebench.engine.running import Listener, StoreContext
from routebench.engine.running._cell import run_cell
from routebench.engine.running._choose import choose_jobs
from routebench.engine.running._fits import fit_key
from routebench.engine.running._status import status_of
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import Diverged, UserError
from routebench.notation import parse
from routebench.protocols import Measurement, Metric, Protocol
from routebench.registry import EVERY, load_plugin
from tests.engine.conftest import posing

TESTED = "test_iterations = [1]"
BAD = """
import os, signal, torch
from routebench import routing
from routebench.capsules import Sizes

class Uniform(routing.RoutingMethod):
    def route(self, votes, activations):
        poses = votes.sweep().first
        return routing.Routed(poses, poses.norm(dim=-1))

@routing.register("wrong-shape")
class WrongShape(Uniform):
    def route(self, votes, activations):
        poses = votes.sweep().first
        return routing.Routed(poses[:, :1], poses.norm(dim=-1))

@routing.register("not-a-number")
class NotANumber(Uniform):
    def route(self, votes, activations):
        poses = votes.sweep().first * float("nan")
        return routing.Routed(poses, poses.norm(dim=-1))

@routing.register("dies")
class Dies(Uniform):
    def route(self, votes, activations):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def values(store):
    """What a run found: everything but when and where."""
    return sorted((record.cell, record.status, json.dumps([*record.metrics])) for record in store.records())


def timeless(store):
    """Likewise for runs that train, whose seconds differ."""
    table = load_results(store.path)
    table = table[table["metric"] != "fit_seconds"]
    keys = ["cell", "metric", "test_iterations", "epoch"]
    return table.sort_values(keys).reset_index(drop=True)[[*keys, "status", "value"]]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Diverged(12), "diverged", "step 12"),
        (MemoryError("no room"), "oom", "no room"),
        (torch.OutOfMemoryError("tried to allocate 3 GiB"), "oom", "3 GiB"),
        (ValueError("two\nlines"), "failed", "ValueError: two lines"),
        (UserError("expected this, got that"), "failed", "expected this, got that"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_exception_has_its_status(made, store, monkeypatch, error, status, reason):
    class Raises(Protocol):
        def measure(self, request, options, context):
            raise error

    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Raises))
    record = run_cell(made.cells[0], store, torch.device("cpu"), {}, lambda _: None)
    assert record.status == status
    assert reason in record.reason
    assert "\n" not in record.reason
    assert store.record(made.cells[0].key) == record


def test_failures_are_retried_and_results_are_not(made, store, run_all, monkeypatch):
    class Fails(Protocol):
        def measure(self, request, options, context):
            raise ValueError("not today")

    run_all(made.cells[:2])
    with monkeypatch.context() as patch:
        patch.setitem(EVERY["protocols"].entries, "brightness", posing(Fails))
        run_all(made.cells[2:4])
    known = status_of(made, store)
    assert (known.cached, known.failed, known.missing) == (
        list(made.cells[:2]), list(made.cells[2:4]), list(made.cells[4:]),
    )  # fmt: skip
    run_all(known.to_do)
    assert [cell.key for cell in status_of(made, store).cached] == [cell.key for cell in made.cells]


class Sweeps(Protocol):
    """One sweep, measured by its mass."""

    def measure(self, request, options, context):
        votes = Votes(torch.randn(2, 6, 3), torch.randn(6, 4, 3, 5), Competition())
        mass = float(votes.sweep(torch.randn(2, 4, 5)).mass.sum())
        return Measurement([Metric("mass", "", mass)])


def test_the_back_end_stands_in_every_record(made, run_all, monkeypatch):
    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Sweeps))
    with kernels.using("auto"):  # and back to it
        (record,) = run_all(made.cells[:1], backend="reference")
    assert record.provenance["backend"] == "reference"
    assert record.provenance["backends"] == ["reference"]


def test_a_back_end_that_cannot_is_a_failed_cell(made, run_all, monkeypatch):
    class Strange(Sweeps):
        def measure(self, request, options, context):
            votes = Votes(torch.randn(2, 6, 3), torch.randn(6, 4, 3, 5), Competition("children"))
            votes.sweep(torch.randn(2, 4, 5))

    monkeypatch.setitem(EVERY["protocols"].entries, "brightness", posing(Strange))
    with kernels.using("auto"):
        (record,) = run_all(made.cells[:1], backend="fused")
    assert record.status == "failed"
    assert "back end 'fused' cannot do this sweep" in record.reason


def test_processes_give_what_one_process_gives(made, store, tmp_path, run_all):
    run_all(made.cells)
    other = Store(tmp_path / "other")
    other.prepare()
    seen = []
    listener = Listener(finished=lambda cell, _: seen.append(cell.key))
    run_all(made.cells, listener, into=other, jobs=2, plugins=(str(pytest.parts),))
    assert values(other) == values(store)
    assert sorted(seen) == sorted(cell.key for cell in made.cells)


@pytest.fixture(autouse=True)
def _parts_for_workers(parts):
    pytest.parts = parts


@pytest.mark.parametrize(("told", "most"), [("1", 1), ("2,1", 2), ("", None), ("many", None), ("0", None)])
def test_threads_are_no_more_than_the_environment_allows(told, most, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert choose_jobs(2, "cpu", 9) == (2, most or 4)


def test_threads_do_not_depend_on_how_much_is_left():
    assert choose_jobs(None, "cpu", 1)[1] == choose_jobs(None, "cpu", 1000)[1]
    assert choose_jobs(None, "cuda", 9)[0] == 1
    assert choose_jobs(2, "cpu", 9)[0] == 2


@pytest.fixture
def bad(tmp_path, suite_file):
    """A plan of real fits with the given methods of a plug-in, and the plug-in's file."""
    file = tmp_path / "bad.py"
    file.write_text(BAD)
    load_plugin(str(file))

    def planned(*methods):
        specs = tuple(map(parse, methods))
        return plan(
            load_suite(str(suite_file("accuracy", seeds=1, more=TESTED))),
            "quick",
            Choices(methods=specs),
        ), str(file)

    return planned


def test_bad_methods_fail_alone(bad, run_all, store):
    made, _ = bad("wrong-shape", "not-a-number", "dynamic[iterations=1]")
    found = {record.label: (record.status, record.reason) for record in run_all(made.cells)}
    assert {label for label, (status, _) in found.items() if status == "ok"} == {"dynamic", "uniform", "random"}
    assert "(bad.py:" in found["wrong-shape"][1]
    assert "finite" in found["not-a-number"][1]
    assert {cell.label for cell in status_of(made, store).failed} == {"wrong-shape", "not-a-number"}


def test_a_method_that_kills_its_process_fails_alone(bad, run_all):
    made, file = bad("dies")
    records = run_all(made.cells, jobs=2, plugins=(str(pytest.parts), file))
    found = {record.label: record for record in records}
    assert {label: record.status for label, record in found.items()} == {
        "dies": "failed", "uniform": "ok", "random": "ok",
    }  # fmt: skip
    assert "died" in found["dies"].reason


@pytest.fixture
def trained(suite_file):
    """A request for a real, tiny fit."""
    return plan(load_suite(str(suite_file("accuracy", seeds=1, more=TESTED))), "quick", Choices()).cells[0].request()


def test_a_fit_is_trained_once_and_is_the_same_afterwards(store, trained, monkeypatch):
    first = StoreContext(store, torch.device("cpu")).fit(trained)
    monkeypatch.setattr("routebench.engine.running._fits.fit", None)  # a second training would call it
    second = StoreContext(store, torch.device("cpu")).fit(trained)
    assert first.epochs == second.epochs
    assert not list(store.path.glob("fits/*/checkpoint*"))
    for one, other in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["fit.json", "weights.safetensors"])
def test_a_damaged_fit_is_set_aside_and_trained_anew(store, trained, name):
    first = StoreContext(store, torch.device("cpu")).fit(trained)
    (store.path / "fits" / fit_key(trained) / name).write_bytes(b"{ not what it was")
    second = StoreContext(store, torch.device("cpu")).fit(trained)
    for one, other in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert len(list((store.path / "damaged").iterdir())) == 1
    assert name in store.warnings[0]


def slow(suite_file, tmp_path, seconds):
    return suite_file(more=f'seconds = {seconds}\njournal = "{tmp_path / "journal"}"')


def test_kills_at_random_moments_leave_the_same_table(program, suite_file, tmp_path, store, run_all):
    """Real fits. The seed is fixed; what a moment hits depends on the machine."""
    file = suite_file("accuracy", seeds=1, more=TESTED).read_text().replace("epochs = 1", "epochs = 3")
    (tmp_path / "small.toml").write_text(file)
    made = plan(load_suite(str(tmp_path / "small.toml")), "quick", Choices())
    run_all(made.cells, threads=choose_jobs(1, "cpu", 9)[1])
    killed, moments = tmp_path / "killed", random.Random(7)
    command = ("suite", "small.toml", "--plugin", pytest.parts, "--jobs", 1, "--results", killed)
    for _ in range(2):
        before = tree_size(killed)
        process = program.start(*command)
        while tree_size(killed) == before and process.poll() is None:
            time.sleep(0.02)  # until this process writes something
        time.sleep(moments.uniform(0.0, 1.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    resumed = program(*command)
    assert resumed.returncode == 0, resumed.stderr
    assert timeless(Store(killed)).equals(timeless(store))
    assert not (killed / "damaged").exists()


def tree_size(folder):
    """Names and times of the files that a run leaves."""
    return sorted(
        (file.name, file.stat().st_mtime_ns) for part in ("records", "fits") for file in folder.glob(f"{part}/**/*.*")
    )


@pytest.mark.parametrize(
    ("how", "number", "code"),
    [
        (("--jobs", 1, "--no-isolate"), signal.SIGTERM, 143),
        (("--jobs", 2), signal.SIGINT, 130),
    ],
)
def test_an_interrupt_stops_soon_and_the_same_command_goes_on(heard, program, suite_file, tmp_path, how, number, code):
    file = slow(suite_file, tmp_path, 0.7)
    command = ("suite", file, "--plugin", pytest.parts, *how, "--results", tmp_path / "r")
    process = program.start(*command)
    while not list((tmp_path / "r" / "records").glob("*.json")):
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
    process.send_signal(number)
    out, error = process.communicate(timeout=20)
    assert process.returncode == code, out + error
    assert "same command" in error
    assert "Traceback" not in error
    done = len(list((tmp_path / "r" / "records").glob("*.json")))
    assert 0 < done < 8
    made = plan(load_suite(str(file)), "quick", Choices())
    known = status_of(made, Store(tmp_path / "r"))
    assert (len(known.cached), known.failed, len(known.missing)) == (done, [], 8 - done)


def test_stopping_it_stops_its_cells(program, suite_file, tmp_path):
    """As Ctrl-Z does, and `fg` afterwards."""
    file = suite_file(seeds=1, more=f'gate = "{tmp_path / "gate"}"')
    (tmp_path / "gate").mkdir()
    process = program.start("suite", file, "--plugin", pytest.parts, "--results", tmp_path / "r")
    while not (signed := list((tmp_path / "gate").iterdir())):
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
    cell = psutil.Process(int(signed[0].name))
    for number, states in ((signal.SIGTSTP, {"stopped"}), (signal.SIGCONT, {"sleeping", "running"})):
        process.send_signal(number)
        until = time.monotonic() + 20
        while {cell.status(), psutil.Process(process.pid).status()} - states and time.monotonic() < until:
            time.sleep(0.02)
        assert {cell.status(), psutil.Process(process.pid).status()} <= states
    (tmp_path / "gate" / "open").touch()
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, out + error


def test_workers_die_with_a_killed_parent(program, suite_file, tmp_path):
    file = slow(suite_file, tmp_path, 30.0)
    command = ("suite", file, "--plugin", pytest.parts, "--jobs", 2, "--results", tmp_path / "r")
    process = program.start(*command)
    while len(list((tmp_path / "r" / "locks").glob("cell-*.lock"))) < 2:
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
    process.kill()
    process.wait()  # not `communicate`, which would wait for the workers as well: they hold its pipes
    shared = Store(tmp_path / "r")
    held = [lock.name for lock in (tmp_path / "r" / "locks").glob("cell-*.lock")]
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        free = [shared.try_lock("cell", name.removeprefix("cell-").removesuffix(".lock")) for name in held]
        for lock in free:
            if lock is not None:
                lock.release()
        if all(lock is not None for lock in free):
            process.communicate()
            return
        time.sleep(0.1)
    raise AssertionError("a worker outlived its parent by 5 s")
