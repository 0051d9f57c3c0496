"""`make gpu` without a GPU: the whole command in small, what it plans, and what it keeps."""

import importlib.util
import os
import re
import sys
import tarfile
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch
from click.testing import CliRunner

from reports.gpu import check, devices, environment, parts, rows, run, runs, tiles, wheelhouse
from routebench.cli import cli
from routebench.engine.results import existing
from routebench.engine.running import _suite
from routebench.engine.suites import Choices, load_suite, plan
from routebench.kernels import drawing
from tests.reports import launches

GPU = parts.Where("cuda", Path("nowhere"), tiny=False)
CUDA_ALONE = {"tests", "sanitizer", "tiles"}
with_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def call(*arguments):
    return CliRunner().invoke(run.main, arguments)


def listed(suite):
    done = CliRunner().invoke(cli, ["suite", *suite, "--dry-run"])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def in_this_process(monkeypatch):
    """Parts run here, which saves the start of a process each, but for what torch.compile would trace with checks."""
    in_another = run.start

    def start(command, seconds, log):
        if command[1] == "reports.gpu.layers":
            return in_another(command, seconds, log)
        with os.fdopen(os.dup(log), "a") as kept, redirect_stdout(kept), redirect_stderr(kept):
            return code_of(command[1], command[2:])

    def code_of(module, arguments):
        program = check.main if module == "reports.gpu.check" else cli
        if module == "reports.gpu.runs":
            arguments = runs.chosen(arguments[0], int(arguments[1]), arguments[2:])
        try:
            program.main(arguments, standalone_mode=False)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return 0

    monkeypatch.setattr(run, "start", start)
    monkeypatch.setattr(runs, "planned", listed)


@pytest.fixture
def able(monkeypatch):
    """No part has an obstacle."""
    monkeypatch.setattr(parts, "PARTS", tuple(replace(part, obstacle=lambda _: "") for part in parts.PARTS))


def test_whole_rehearsal(tmp_path, in_this_process):
    done = call("--tiny", "--device=cpu", f"--output={tmp_path}", "--budget=2h")
    assert done.exit_code == 0, done.output
    known = run.read(tmp_path)
    assert set(known) == {part.name for part in parts.PARTS}
    assert {name for name, outcome in known.items() if outcome.status == run.SKIPPED} == CUDA_ALONE
    assert {outcome.status for name, outcome in known.items() if name not in CUDA_ALONE} == {run.DONE}
    assert known["tests"].reason == "it needs a GPU"
    assert set(pd.read_csv(tmp_path / "check.csv")["verdict"]) == {"right"}
    measured = pd.read_csv(tmp_path / "layers.csv")
    assert measured["note"].isna().all(), measured["note"].dropna().tolist()
    assert (measured["ms"] > 0).all()
    with tarfile.open(tmp_path / run.PACKED) as packed:
        names = packed.getnames()
    assert {"gpu/state.json", "gpu/check.csv", "gpu/logs/doctor.txt", "gpu/cost/report.html"} <= set(names)
    assert not [name for name in names if name.endswith("weights.safetensors")]
    elsewhere = tmp_path / "elsewhere"
    again = call("--tiny", "--device=cpu", f"--output={elsewhere}", f"--resume={tmp_path / run.PACKED}")
    assert again.exit_code == 0
    assert again.output.count("done before") == len(parts.PARTS) - len(CUDA_ALONE)
    assert (elsewhere / "check.csv").read_bytes() == (tmp_path / "check.csv").read_bytes()


def test_twenty_five_minutes_are_planned_and_no_more(able):
    chosen = run.plan(1500, GPU, {})
    assert sum(share for _, share in chosen) <= 1500
    names = [part.name for part, _ in chosen]
    assert names[:8] == ["doctor", "check", "tests", "sanitizer", "layers", "tiles", "cost", "kiefer"]
    assert {"sparsity", "robustness"} <= set(names)


def test_what_has_begun_goes_on_in_less_time_than_it_takes_to_begin(able):
    robustness = {"robustness": run.Outcome(run.PARTLY, 90.0)}
    assert [part.name for part, _ in run.plan(40, GPU, robustness, ["robustness"])] == ["robustness"]
    assert not run.plan(40, GPU, {}, ["robustness"])
    assert not run.plan(10, GPU, robustness, ["robustness"])


def test_slices_of_nine_minutes_reach_every_part(able):
    known, calls = {}, 0
    while chosen := run.plan(540, GPU, known):
        assert sum(share for _, share in chosen) <= 540
        known |= {part.name: run.Outcome(run.DONE, share) for part, share in chosen}
        calls += 1
    # What is not worth beginning in nine minutes waits for a longer call.
    assert set(known) == {part.name for part in parts.PARTS}
    assert calls < 10


def test_what_is_done_is_left_out_and_what_failed_comes_last(able):
    known = {"doctor": run.Outcome(run.DONE, 1.0), "check": run.Outcome(run.FAILED, 1.0, "why")}
    names = [part.name for part, _ in run.plan(1e6, GPU, known)]
    assert "doctor" not in names
    assert names[-1] == "check"
    assert [part.name for part, _ in run.plan(1e6, GPU, known, ["doctor"])] == ["doctor"]


def test_a_part_that_fails_leaves_its_reason_and_the_next_one_runs(tmp_path, monkeypatch):
    def broken(*_):
        return ["-c", "raise SystemExit('it broke')"]

    def fine(*_):
        return ["-c", "print('fine')"]

    pair = (parts.Part("doctor", "", broken, 30), parts.Part("check", "", fine, 30))
    monkeypatch.setattr(parts, "PARTS", pair)
    done = call("--device=cpu", f"--output={tmp_path}")
    assert done.exit_code == 1
    known = run.read(tmp_path)
    assert known["doctor"].reason == "exit code 1: it broke"
    assert known["check"].status == run.DONE


def test_a_part_ends_with_its_time_and_with_all_that_it_started(tmp_path):
    grandchild = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    )
    log = tmp_path / "log"
    with log.open("w") as kept:
        started = time.monotonic()
        assert run.start(["-c", f"{grandchild}; import time; time.sleep(60)"], 3, kept.fileno()) is None
    assert time.monotonic() - started < 30
    pid = int(log.read_text())
    ends = time.monotonic() + 10  # a busy system takes a moment to end what was killed
    while (is_alive := _is_alive(pid)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not is_alive


def _is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_budget_left_goes_on():
    said = "table\nthe budget left 3 of 8 runs; the same command goes on with:\n  em T=1 seed 0\n"
    assert run._outcome(3, said, 1.0).status == run.PARTLY
    assert run._outcome(0, said, 1.0).status == run.DONE
    assert run._outcome(None, "", 1.0).status == run.PARTLY


@pytest.mark.parametrize("budget", ["25", "m", "-3m", "soon"])
def test_a_budget_that_is_none(budget):
    done = call(f"--budget={budget}", "--dry-run", "--device=cpu")
    assert done.exit_code == 2
    assert "expected a time such as 25m" in done.output


def test_rows_go_on_after_a_row_that_was_being_written(tmp_path):
    table = rows.Rows(tmp_path / "t.csv", ("a", "b"), ("c",))
    table.add({"a": 1, "b": "x", "c": 2.5})
    with table.path.open("a") as file:
        file.write("2,y")
    again = rows.Rows(tmp_path / "t.csv", ("a", "b"), ("c",))
    assert again.has(1, "x")
    assert not again.has(2, "y")


def test_a_script_stops_in_time():
    asked = rows.Call(None, Path(), time.monotonic() - 1, tiny=True)
    with pytest.raises(SystemExit, match="the budget left one"):
        next(asked.in_time(["one"]))


@pytest.mark.parametrize(
    ("part", "count"), [("kiefer", 12), ("sparsity", 6), ("robustness", 12), ("probes", 12), ("smith", 15), ("em", 6)]
)
def test_runs_of_a_part(part, count, no_data, monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "planned", listed)
    monkeypatch.setattr(_suite, "MEASURING", 0.0)  # seconds to time steps of training, of which a list says nothing
    (found,) = (one for one in parts.PARTS if one.name == part)
    command = found.command(replace(GPU, device="cpu", output=tmp_path), 100.0)
    pattern, most, suite = (
        (command[2], command[3], command[4:]) if command[1] == "reports.gpu.runs" else ("", "0", command[3:])
    )
    assert runs.chosen(pattern, int(most), suite).count("--run") == count


def test_attacks_are_on_networks_that_were_trained_before(no_data):
    """Each cell asks for a training that a cell of `reconstruction` asks for: else it would be trained again."""
    known = [one.identity for one in plan(load_suite("reconstruction"), "full", Choices()).cells]
    attacked = plan(load_suite("reports/gpu/suites/robustness.toml"), "gpu", Choices())
    wanted = [one.identity for one in attacked.cells if one.identity.method in {"dynamic", "none"}]
    assert len(wanted) == 18
    for one in wanted:
        same = [
            other for other in known if (other.method, other.model, other.seed) == (one.method, one.model, one.seed)
        ]
        assert one.training in [other.training for other in same], one


def test_this_python_lacks_nothing():
    assert environment.lacking() == []
    assert environment.prepare(Path("nowhere"), Path("nowhere")) == Path(sys.executable)


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "needed", lambda: ["torch>=2.11", "einops>=99"])
    assert environment.lacking() == ["einops>=99"]
    with pytest.raises(SystemExit, match="expected wheels of einops>=99 in"):
        environment.prepare(tmp_path / "made", tmp_path / "wheels")
    monkeypatch.setattr(environment, "needed", lambda: ["torch>=99"])
    with pytest.raises(SystemExit, match="too large to bring along"):
        environment.prepare(tmp_path / "made", tmp_path / "wheels")


def test_every_requirement_has_a_wheel_or_must_be_there():
    wheels = {line.lower() for line in wheelhouse.LIST.read_text().splitlines()}
    wanted = {environment.name_of(requirement).lower() for requirement in environment.needed()}
    assert wanted - wheels == set(environment.NEVER) - {"triton"}


def test_data_of_the_kit_are_unpacked_once(tmp_path):
    file = tmp_path / "train-images-idx3-ubyte"
    file.write_bytes(b"pixels")
    (tmp_path / "kit").mkdir()
    wheelhouse._packed(tmp_path / "kit" / "MNIST.tar.xz", [(file, f"raw/{file.name}")])
    for _ in range(2):
        environment.unpack(tmp_path / "kit", tmp_path / "data")
    assert (tmp_path / "data" / "MNIST" / "raw" / file.name).read_bytes() == b"pixels"


@with_triton
@pytest.mark.parametrize("capability", [80, 89, 90])
@pytest.mark.parametrize("channels", [1, 3])
def test_kernels_that_draw_compile_for_gpus_that_are_not_here(capability, channels, monkeypatch):
    from routebench.kernels import drawing_triton

    shapes = (16, channels + 1, 11, 11), (8, 16, 2, 3), (8, 16)
    leaves = [torch.rand(shape, device="meta").requires_grad_() for shape in shapes]
    started = []

    def note(work, name, grid, *arguments):
        with launches.pretending(capability):
            started.append(
                (name, getattr(drawing_triton, name).warmup(*arguments, work.tile, grid=grid, enable_fp_fusion=True))
            )

    monkeypatch.setattr(drawing, "_work", drawing._OnGpu)
    monkeypatch.setattr(drawing._OnGpu, "_start", note)
    canvas, opacity = drawing.draw(*leaves, (40, 40))
    torch.autograd.backward(canvas.sum() + opacity.sum())
    assert [name for name, _ in started] == ["paint", "pull", "gather"]
    assert all(made.asm["cubin"] for _, made in started)


@pytest.mark.parametrize("loop", tiles.LOOPS)
def test_other_tiles_are_tiles_of_that_loop_alone(loop):
    given = launches.published()["tsai-1"]
    own = {launch.kernel: launch.plan for launch in launches.launches(given)}
    with tiles.planned(loop, 4, 1):
        found = {launch.kernel: launch.plan for launch in launches.launches(given)}
    changed = {"sums", "to_parents"} if loop == "children" else {"to_children"}
    assert {name for name, plan in found.items() if (plan.tile.lanes_tile, plan.warps) == (4, 1)} == changed
    assert {name for name, plan in found.items() if plan == own[name]} == set(own) - changed


@with_triton
def test_a_kernel_is_compiled_for_a_gpu_that_is_not_there_and_fits_its_registers():
    (launch,) = (one for one in launches.launches(launches.published()["capsnet"]) if one.kernel == "sums")
    code = launches.compiled(launch, 90)
    registers, stack = (int(re.search(rf"{name}:(\d+)", code)[1]) for name in ("REG", "STACK"))
    assert 0 < registers <= 255
    assert stack <= 16
    tile = launch.plan.tile
    assert len(re.findall(r"\bFFMA\b", code)) >= tile.inner * tile.lane * tile.lanes_tile // 32  # votes, per thread


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_several_devices_take_what_any_list_schedule_takes(count):
    published = [
        record
        for record in existing(Path(devices.__file__).parents[1] / "quick").records()
        if record.identity.suite == "accuracy"
    ]
    each = [devices.seconds(record) for record in published]
    taken = devices.takes(published, count)
    assert max(*each, sum(each) / count) <= taken * (1 + 1e-9)
    assert taken <= sum(each) / count + max(each)  # Graham 1966
    assert count > 1 or taken == pytest.approx(sum(each))
