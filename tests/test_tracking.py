"""The benchmarks of suites/tracking: asv finds them, and each measures what its name says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from routebench import kernels
from routebench.registry import routing
from suites.tracking.fit import SmallFit
from suites.tracking.layer import Layer, Memory, Time
from suites.tracking.start import Start

ROOT = Path(__file__).parents[1]


def test_asv_finds_every_benchmark():
    """`asv check` imports them as `asv run` does, and refuses what it cannot call."""
    check = [sys.executable, "-m", "asv", "check", "--environment", f"existing:{sys.executable}", "--verbose"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No benchmarks" not in done.stdout


def test_every_registered_method_is_tracked():
    assert list(Layer.params[0]) == list(SmallFit.params) == list(routing)


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
