"""The cost protocol on small networks, its memory probe on work with a known peak, and what it needs of the engine."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.benchmark import Measurement as Timed
from torch.utils.benchmark import TaskSpec

from routebench import kernels
from routebench.engine.results import Store, load_results
from routebench.engine.running._cell import make_record
from routebench.engine.running._choose import choose_jobs
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.kernels import fused
from routebench.protocols import FitRequest, Measurement, cost, cost_yardstick
from routebench.protocols.cost import Cost, _subjects, _that_fits
from routebench.protocols.cost_floor import floors
from routebench.protocols.cost_probe import ProbeError, peak_memory
from routebench.protocols.cost_work import Subject, prepare
from routebench.recipe import Recipe
from routebench.registry import protocols

ROOT = Path(__file__).parents[2]
KNOWN = "tests.protocols.known_allocation"
MEGABYTE = 1 << 20
CPU = torch.device("cpu")


class Here:
    """A context that lends nothing: this protocol trains nothing."""

    device = CPU

    def __init__(self):
        self.shares = []

    def fit(self, request):
        raise AssertionError("nothing is trained")

    def progress(self, share):
        self.shares.append(share)


def request(method="dynamic", iterations=2, model="capsnet-small", **more):
    return FitRequest(model, "mnist5k", Recipe(**more), 0, method=method, iterations=iterations)


def measure(context=None, asked=None, **options):
    found = Cost().measure(asked or request(), {"batches": [2], "seconds": 0.001, **options}, context or Here())
    return found.metrics


def values(metrics, metric):
    return [found.value for found in metrics if found.metric == metric]


@pytest.fixture
def no_probe(monkeypatch):
    """Leaves memory out, which takes a process per number."""
    monkeypatch.setattr("routebench.protocols.cost.peak_memory", lambda *_, **__: 1000)


@pytest.fixture(scope="module")
def metrics():
    return measure(batches=[4, 2], backends=["reference"], children=[6], memory_budget_mb=16)


def test_every_time_is_positive_and_measured_twice(metrics) -> None:
    times = [found for found in metrics if found.metric in ("training_time", "inference_time")]
    assert all(0 < found.value < 1e5 for found in times)
    places = {(found.metric, *found.where.values()) for found in times}
    parts = ["network", "layers", "dense 6"]
    expected = {
        (metric, part, "reference", batch, repeat)
        for metric in ("training_time", "inference_time")
        for part in parts
        for batch in (2, 4)
        for repeat in (0, 1)
    }
    assert places == expected
    assert len(times) == len(expected)
    assert min(values(metrics, "training_runs")) >= 1


def test_a_disturbed_round_counts_for_nothing(monkeypatch, no_probe) -> None:
    """Each part is timed in five rounds, in turn with the others; one that takes ten times as long moves no median."""
    turns, spec, real = [], TaskSpec("run()", "pass"), cost.prepare
    taken = {"network": 3e-3, "layers": 1e-3}

    class Clock:
        def blocked_autorange(self, min_run_time: float) -> Timed:
            assert min_run_time == pytest.approx(0.02 / 5)
            disturbed = turns.count(turns[-1]) == 2  # the second round of its first measurement
            return Timed(1, [taken[turns[-1]] * (10 if disturbed else 1)], spec)

    def noted(subject: Subject, device: torch.device):
        turns.append(subject.part)
        return real(subject, device)

    monkeypatch.setattr(cost, "timer", lambda run: Clock())
    monkeypatch.setattr(cost, "greatest_speeds", lambda *_: (1.0, 1.0))
    monkeypatch.setattr(cost, "prepare", noted)
    found = measure(backends=["reference"], seconds=0.02)
    assert turns == ["network", "layers"] * 5 * 2
    times = {(m.metric, m.where["part"], m.where["repeat"]): m.value for m in found if m.metric == "training_time"}
    assert times == {("training_time", part, repeat): 1e3 * taken[part] for part in taken for repeat in (0, 1)}
    assert set(values(found, "training_runs")) == {5}


def test_no_file_of_the_data_set_is_needed(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path / "nowhere"))
    (network, *_) = _subjects(replace(request(), data="cifar10"), {})
    assert (network.shape, network.classes) == ((3, 32, 32), 10)


def test_training_takes_longer_than_inference(metrics) -> None:
    assert sum(values(metrics, "training_time")) > sum(values(metrics, "inference_time"))


def test_the_floor_follows_from_arithmetic_and_traffic(metrics) -> None:
    ((peak,), (bandwidth,)) = values(metrics, "peak_flops"), values(metrics, "bandwidth")
    at = {
        (m.metric, m.where["part"], m.where["batch"]): m.value
        for m in metrics
        if "part" in m.where and "batch" in m.where
    }
    for part in ("network", "layers", "dense 6"):
        flops, least = at["training_flops", part, 4], at["training_least_bytes", part, 4]
        assert at["training_floor", part, 4] == pytest.approx(1e3 * max(flops / peak, least / bandwidth))
        assert flops == 2 * at["training_flops", part, 2]
    weights, poses = 6 * 10 * 8 * 16, 6 * 8 + 6 + 10 * 16 + 10
    assert at["training_least_bytes", "dense 6", 4] == 2 * 4 * (weights + 4 * poses)


def test_more_iterations_are_more_arithmetic() -> None:
    one, three = (
        [metric.value for metric in floors(Subject("layers", request("em", steps), (1, 28, 28), 10), [2], 1.0, 1.0)]
        for steps in (1, 3)
    )
    assert three[0] > 1.5 * one[0]  # flops
    assert three[1] == one[1]  # least traffic


@pytest.mark.parametrize(("method", "steps"), [("dynamic", 1), ("dynamic", 3), ("dynamic", 5), ("uniform", None)])
def test_votes_are_counted_once_however_many_iterations(method, steps) -> None:
    children, parents, below, above = 128, 10, 8, 16
    subject = Subject(f"dense {children}", request(method, steps), (1, 28, 28), 10)
    flops = next(metric.value for metric in floors(subject, [1], 1.0, 1.0) if metric.metric == "training_flops")
    votes = 3 * 2 * children * parents * below * above  # forward, and backward for poses and for weights
    if steps in (None, 1):
        assert flops == votes  # one matrix product
    else:
        # Each sweep weighs the votes, and each but the first has logits; of each product, two more backward.
        products = 3 * 2 * children * parents * above * (2 * steps - 1)
        assert votes < flops <= votes + products


def test_layers_of_tokens_are_measured_for_each_number_of_tokens_and_of_parents(no_probe) -> None:
    metrics = measure(tokens=[3, 5], parents=[2, 7])
    wanted = {f"tokens {tokens} {parents}" for tokens in (3, 5) for parents in (2, 7)}
    assert {m.where["part"] for m in metrics if m.metric == "training_time"} == {"network", "layers", *wanted}
    assert min(values(metrics, "training_time")) > 0


def test_tokens_share_their_matrices_and_have_four_children_each() -> None:
    (layer,) = prepare(Subject("tokens 5 7", request(), (1, 28, 28), 10), torch.device("cpu"))(2).layers
    assert layer.weight.shape == (4, 7, 8, 16)
    flops, least, _ = (
        m.value for m in floors(Subject("tokens 5 7", request("uniform", None), (1, 28, 28), 10), [3], 1.0, 1.0)
    )
    weights, item = 4 * 7 * 8 * 16, 20 * 8 + 20 + 7 * 16 + 7
    assert least == 2 * 4 * (weights + 3 * item)
    assert flops > 0


@pytest.mark.parametrize("part", ["network", "layers", "dense 6"])
def test_inference_runs_as_a_trained_network_does(part) -> None:
    work = prepare(Subject(part, request("variational-bayes", 2), (1, 28, 28), 10), torch.device("cpu"))(4)
    statistics = [buffer for layer in work.layers for buffer in layer.buffers() if buffer.is_floating_point()]
    before = [buffer.clone() for buffer in statistics]
    work.inference()
    assert statistics and all(map(torch.equal, statistics, before))
    work.training()
    assert not all(map(torch.equal, statistics, before))


def test_memory_grows_with_the_batch_and_the_largest_batch_fits(metrics) -> None:
    memory = {tuple(m.where.values()): m.value for m in metrics if m.metric == "training_memory"}
    assert set(memory) == {(part, "reference", batch) for part in ("network", "layers", "dense 6") for batch in (2, 4)}
    ((largest,), (tried,)) = values(metrics, "largest_batch"), values(metrics, "largest_batch_tried")
    assert tried == 64
    assert 4 <= largest <= tried


def test_what_fits_is_read_off_a_straight_line() -> None:
    assert _that_fits({1: 110, 2: 120}, 200) == int(0.98 * 10)
    assert _that_fits({1: 100, 2: 100}, 200) > 10**6


def test_a_known_allocation_is_found() -> None:
    found = peak_memory(f"{KNOWN}:allocate", {"megabytes": 50}, 4, threads=1)
    assert found == pytest.approx(200 * MEGABYTE, rel=0.2)
    again = peak_memory(f"{KNOWN}:allocate", {"megabytes": 1}, 4, threads=1)
    assert again < 20 * MEGABYTE  # nothing is left of the call before


def test_memory_is_counted_to_the_byte() -> None:
    """Twice the same, and as many bytes more as are asked for: no noise, so that the gate needs no test."""
    first, again, more = (peak_memory(f"{KNOWN}:allocate", {"megabytes": size}, 4, threads=1) for size in (1, 1, 2))
    assert first == again
    assert more - first == 4 * MEGABYTE


def test_cpu_time_is_the_least_of_several_blocks_in_units_of_the_yardsticks_least(monkeypatch) -> None:
    """A disturbed block of either counts for nothing."""
    work, clock = object, {"work": iter([9.0, 6.0, 8.0] + [7.0] * 99), "stick": iter([5.0, 4.0, 2.0] + [3.0] * 99)}
    monkeypatch.setattr(cost_yardstick, "_times", lambda run: 1)
    monkeypatch.setattr(cost_yardstick, "_cpu_time", lambda run, _: next(clock["work" if run is work else "stick"]))
    assert cost_yardstick.in_yardsticks(work, 20.0) == 6.0 / 2.0


def test_what_is_held_before_does_not_count() -> None:
    assert peak_memory(f"{KNOWN}:hold", {"megabytes": 50}, 4, threads=1) < 5 * MEGABYTE


def test_a_failure_in_the_probe_is_one_line() -> None:
    with pytest.raises(ProbeError, match=r"^ValueError: no such luck$"):
        peak_memory(f"{KNOWN}:fail", {}, 1, threads=1)
    with pytest.raises(ProbeError, match="killed by signal 9, likely for memory"):
        peak_memory(f"{KNOWN}:die", {}, 1, threads=1)


def test_a_helper_that_died_is_replaced() -> None:
    with pytest.raises(ProbeError) as told:
        peak_memory(f"{KNOWN}:pid", {}, 1, threads=1)
    os.kill(int(str(told.value).rpartition(" ")[2]), signal.SIGKILL)
    with pytest.raises(ProbeError, match="ended with code -9"):
        peak_memory(f"{KNOWN}:allocate", {"megabytes": 1}, 1, threads=1)
    assert peak_memory(f"{KNOWN}:allocate", {"megabytes": 9}, 1, threads=1) > 5 * MEGABYTE


def test_the_helper_ends_with_its_parent() -> None:
    code = f"""
import os, signal
from routebench.protocols.cost_probe import ProbeError, peak_memory
try:
    peak_memory("{KNOWN}:pid", {{}}, 1, threads=1)
except ProbeError as error:
    print(str(error).rpartition(" ")[2], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    helper = Path(f"/proc/{int(done.stdout)}")
    deadline = time.monotonic() + 5
    while helper.exists() and "zombie" not in (helper / "status").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not helper.exists() or "zombie" in (helper / "status").read_text()


def test_a_back_end_that_cannot_do_the_sweeps_is_absent_and_no_failure(monkeypatch, no_probe) -> None:
    monkeypatch.setattr(fused, "obstacle", lambda given: "no compiler was found")
    for iterations in (1, 2):  # one iteration needs no kernel, and must not pass for one
        found = measure(asked=request(iterations=iterations), backends=["reference", "fused"])
        absent = [metric.where for metric in found if metric.metric == "absent"]
        assert [(where["part"], where["backend"]) for where in absent] == [("network", "fused"), ("layers", "fused")]
        assert all("no compiler was found" in where["why"] for where in absent)
        assert {metric.where["backend"] for metric in found if metric.metric == "training_time"} == {"reference"}


def test_a_method_without_sweeps_is_not_measured_with_kernels(no_probe) -> None:
    found = measure(asked=request("uniform", None), backends=["reference", "fused"])
    (why,) = {metric.where["why"] for metric in found if metric.metric == "absent"}
    assert "no sweep that a kernel does" in why


def test_out_of_memory_is_a_metric(monkeypatch) -> None:
    def too_much(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("routebench.protocols.cost.timer", lambda run: nn.Identity())
    monkeypatch.setattr("routebench.protocols.cost.greatest_speeds", lambda *_: (1.0, 1.0))
    monkeypatch.setattr("routebench.protocols.cost.peak_memory", too_much)
    monkeypatch.setattr(nn.Identity, "blocked_autorange", too_much, raising=False)
    found = measure(backends=["reference"])
    assert {metric.where["why"] for metric in found if metric.metric == "absent"} == {
        "out of memory",
        "memory: CUDA out of memory",
    }
    assert not values(found, "training_time")


def test_a_back_end_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UserError, match="unknown back end 'fussed'; did you mean 'fused'"):
        measure(backends=["fussed"])


def test_a_network_without_capsules_is_measured_as_a_whole(no_probe) -> None:
    found = measure(asked=request(None, None, "cnn-small"), backends=["reference"])
    assert {metric.where["part"] for metric in found if "part" in metric.where} == {"network"}


def test_the_wish_for_a_back_end_stands_again_afterwards(no_probe) -> None:
    before, context = kernels.wished(), Here()
    measure(context, backends=["reference"])
    assert kernels.wished() == before
    assert context.shares == sorted(context.shares)
    assert context.shares[0] >= 0 and context.shares[-1] <= 1


def test_layers_are_measured_with_the_capsules_that_the_network_makes() -> None:
    made = prepare(Subject("layers", request("em", 1), (1, 28, 28), 10), CPU)
    inputs, weights, outputs = 128 * 9, 128 * 10 * 8 * 16 + 2 * 10, 10 * 17
    assert made(1).held() == pytest.approx(4 * (inputs + weights + outputs), rel=0.01)
    assert made(40).held() - made(39).held() == 4 * (inputs + outputs)  # more images than are made at a time


def test_a_subject_survives_its_way_to_another_process() -> None:
    subject = Subject("dense 5", request("inverted-attention", 2, milestones=(3, 4)), (1, 28, 28), 10)
    assert Subject.from_plain(json.loads(json.dumps(subject.plain()))) == subject


def test_cells_that_measure_time_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert protocols["cost"].alone
    jobs, threads = choose_jobs(None, "cpu", 9, alone=True)
    assert jobs == 1
    assert threads == len(os.sched_getaffinity(0))
    with pytest.raises(UserError, match="--jobs 4: this suite measures time"):
        choose_jobs(4, "cpu", 9, alone=True)


def test_the_shipped_suite_can_be_planned() -> None:
    suite = load_suite("cost")
    assert suite.question.startswith("What do iterations cost")
    for preset in ("smoke", "quick"):
        made = plan(suite, preset, Choices())
        assert {cell.identity.method for cell in made.cells} == {
            *("dynamic", "em", "inverted-attention", "uniform", "random")
        }


def test_coordinates_become_columns(tmp_path, no_probe) -> None:
    cells = plan(load_suite("cost"), "smoke", Choices()).cells[:2]
    store = Store(tmp_path)
    store.prepare()
    for cell, found in zip(cells, (measure(backends=["reference"]), []), strict=True):
        store.write_record(make_record(cell, "ok", "", Measurement(found), {}), {})
    table = load_results(tmp_path)
    times = table[table["metric"] == "training_time"]
    assert set(times["batch"]) == {2}
    assert str(table["batch"].dtype) == "Int64"
    assert set(times["part"]) == {"network", "layers"}
    assert set(times["repeat"]) == {0, 1}
    assert math.isnan(table.loc[table["metric"].isna(), "value"].iloc[0])
