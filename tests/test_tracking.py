"""The benchmarks of suites/tracking: asv finds them, and each measures what its name says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import routebench
from routebench import kernels
from routebench.registry import routing
from suites.tracking.fit import SmallFit
from suites.tracking.layer import Layer, Memory, Time
from suites.tracking.lower import Lower, lower_is_better
from suites.tracking.start import Start
from suites.tracking.suite import Suite, rows_of, typical
from tests.comparing.planted import write

ROOT = Path(__file__).parents[1]


def test_asv_finds_every_benchmark():
    """`asv check` imports them as `asv run` does, and refuses what it cannot call."""
    check = [sys.executable, "-m", "asv", "check", "--environment", f"existing:{sys.executable}", "--verbose"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No benchmarks" not in done.stdout


def test_every_registered_method_is_tracked():
    assert list(Layer.params[0]) == list(SmallFit.params) == list(Suite.params) == list(routing)


def test_settings_stand_in_the_file():
    lines = (ROOT / "asv.conf.json").read_text().splitlines()
    settings = json.loads("\n".join(line for line in lines if not line.strip().startswith("//")))
    assert (ROOT / settings["benchmark_dir"]).is_dir()
    assert any("constraints.txt" in command for command in settings["install_command"])


@pytest.mark.parametrize("benchmark_class", [Time, Memory])
@pytest.mark.parametrize("method", sorted(routing))
@pytest.mark.parametrize("backend", Layer.params[1])
def test_layer_benchmarks_reach_the_gradient(benchmark_class, method, backend):
    measured = benchmark_class()
    measured.batch = 2
    with kernels.using("auto"):  # and back to it
        measured.setup(method, backend)
        assert kernels.wished() == backend
        measured.forward()
        assert measured.layer.weight.grad is None
        measured.forward_and_backward()
        assert measured.layer.weight.grad.abs().sum() > 0


def test_method_that_a_commit_does_not_have_is_left_out():
    with pytest.raises(NotImplementedError):
        Time().setup("invented-tomorrow", "auto")


def test_small_fit_learns():
    """Guessing gives 90 %; the value is the same every time."""
    error = SmallFit().track_test_error("uniform")
    assert error < 20
    assert error == SmallFit().track_test_error("uniform")


def test_start_answers():
    Start().time_help()
    with pytest.raises(subprocess.CalledProcessError):
        Start().call("--no-such-option")


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (("accuracy", 96.5, "%", True), Lower("error", 3.5, "%")),
        (("found", 75.0, "%", True), Lower("100 % - found", 25.0, "%")),
        (("training_time", 4.0, "ms", False), Lower("training_time", 4.0, "ms")),
        (("bandwidth", 4.0, "bytes/s", True), Lower("1 / bandwidth", 0.25, "s/bytes")),
        (("largest_batch", 8.0, "images", True), Lower("1 / largest_batch", 0.125, "1/images")),
        (("score", 4.0, "", True), Lower("1 / score", 0.25, "")),
    ],
)
def test_any_metric_with_a_direction_becomes_lower_is_better(metric, expected):
    assert lower_is_better(*metric) == expected


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (("parameters", 8.0, "count", None), "'parameters' has no direction"),
        (("accuracy", float("nan"), "%", True), "'accuracy' has the value nan"),
        (("score", 0.0, "", True), "'score' has the value 0.0, of which there is no reciprocal"),
    ],
)
def test_what_cannot_be_turned_round_is_refused(metric, told):
    with pytest.raises(ValueError, match=told):
        lower_is_better(*metric)


@pytest.fixture(scope="module")
def published():
    return [row for suite in ("accuracy", "cost") for row in rows_of(ROOT / "tests" / "packs" / f"{suite}-quick")]


def test_the_bridge_reads_what_the_suites_found(published):
    costs = routebench.load_results(ROOT / "tests" / "packs" / "cost-quick")
    own = costs[(costs["method"] == "dynamic") & (costs["metric"] == "training_time") & (costs["part"] == "network")]
    best = own["value"].groupby([own["iterations"], own["batch"], own["backend"]]).min()
    per_image = best / 1000 / best.index.get_level_values("batch").to_numpy(dtype=float)
    assert Suite().track_training_time(published, "dynamic") == pytest.approx(np.exp(np.log(per_image).mean()))
    assert Suite().track_test_error(published, "uniform") == pytest.approx(4.9, abs=0.5)  # 94.9, 94.6 and 95.7 % right
    assert 0 < Suite().track_inference_time(published, "dynamic") < Suite().track_training_time(published, "dynamic")
    assert Suite().track_training_memory(published, "dynamic") > 1e6


def test_the_bridge_is_worse_where_the_suite_is(published):
    worse = {"accuracy": 0.9, "training_time": 1.2, "inference_time": 1.2, "training_memory": 1.2}
    head = [{**row, "value": row["value"] * worse.get(row["metric"], 1)} for row in published]
    for track in (Suite.track_test_error, Suite.track_training_time, Suite.track_inference_time):
        assert track(Suite(), head, "em") > 1.15 * track(Suite(), published, "em")


def test_a_mean_without_a_planned_setting_is_none(published):
    """The worst setting failing must not make the method better."""
    accuracy = [row for row in published if (row["suite"], row["method"]) == ("accuracy", "dynamic")]
    failed = accuracy[0]["cell"]
    gone = [{**row, "metric": None, "value": None} if row["cell"] == failed else row for row in published]
    assert np.isfinite(Suite().track_test_error(published, "dynamic"))
    assert np.isnan(Suite().track_test_error(gone, "dynamic"))
    broken = [{**row, "value": float("nan")} if row["cell"] == failed else row for row in published]
    assert np.isnan(Suite().track_test_error(broken, "dynamic"))
    other = [row for row in published if not (row["cell"] == failed and row["metric"] == "accuracy")]
    assert np.isnan(Suite().track_test_error(other, "dynamic"))


def test_a_cell_that_was_not_run_has_a_row_without_value(tmp_path):
    folder = write(tmp_path / "some", run=lambda record: record["identity"]["seed"] != 1)
    assert np.isnan(Suite().track_test_error(rows_of(folder), "cnn"))


def test_no_error_at_all_is_nothing_and_not_a_tiny_factor(published):
    rows = [row for row in published if row["method"] == "cnn" and row["metric"] == "accuracy"]
    values = dict(zip([row["seed"] for row in rows], (100.0, 98.0, 96.0), strict=True))
    assert typical([{**row, "value": values[row["seed"]]} for row in rows]) == pytest.approx(2.0)


def test_a_method_that_a_suite_did_not_run_is_left_out(published):
    with pytest.raises(NotImplementedError):
        Suite().track_test_error(published, "invented-tomorrow")


@pytest.mark.parametrize("name", [name for name in dir(Suite) if name.startswith("track_")])
def test_every_bridged_benchmark_has_a_unit(name):
    assert getattr(Suite, name).unit in {"%", "s/image", "bytes"}
