"""Suites, networks and checks from Python, as a script or a notebook calls them."""

import math
import shutil
import subprocess
import sys

import pytest
import torch

import routebench
from routebench import kernels
from routebench.analysis import open_folder
from routebench.data import load
from routebench.engine.isolation import Ended
from routebench.engine.results import pack, unpack
from routebench.errors import UserError
from routebench.models.network import routing_methods
from routebench.registry import extensions
from routebench.routing import Routed, RoutingMethod

TESTED = "test_iterations = [1]"
LEAVES = """
import os
from routebench import routing

@routing.register("leaves")
class Leaves(routing.RoutingMethod):
    def route(self, votes, activations):
        os._exit(0)
"""


def test_a_suite_is_run_and_shows_itself(parts, suite_file, tmp_path):
    told, file, folder = [], suite_file(), tmp_path / "r"
    run = routebench.run_suite(file, plugins=parts, results=folder, jobs=1, time_limit="5m", progress=told.append)
    assert (run.counts.cells, run.counts.run, run.failed, run.left, run.warnings) == (8, 8, 0, 0, ())
    assert [now.done for now in told if now.finished] == list(range(1, 9))
    assert str(next(now for now in told if now.finished)).startswith("[1/8] ")
    assert (told[-1].share, told[-1].suite) == (1.0, "small")
    assert run.report == folder / "report.html"
    assert list(run.tables) == ["small"] == list(run.headlines)
    assert "Uniform routing" in str(run)
    assert "<table" in run._repr_html_() and 'report.html">report</a>' in run._repr_html_()
    again = routebench.run_suite(file, plugins=parts, results=folder, report=False, jobs=1)
    assert (again.counts.cached, again.counts.run, again.report) == (8, 0, None)
    assert [part.yours for part in open_folder(folder).parts] == [frozenset()]
    one = routebench.run_suite(
        file, plugins=parts, results=folder, methods="dynamic[detach=true]", report=False, jobs=1
    )
    assert [part.yours for part in open_folder(folder).parts] == [{"dynamic[detach=true]"}]  # marked in the report
    assert set(one.results["label"]) == {"dynamic[detach=true]", "uniform", "random"}  # not all that the folder has


def test_what_the_budget_leaves_is_counted(parts, suite_file, tmp_path):
    run = routebench.run_suite(suite_file(), plugins=parts, results=tmp_path / "r", budget=1e-9, report=False)
    assert (run.left, run.counts.run) == (8, 0)
    assert "the budget left 8 of 8 runs" in str(run)


def test_torch_is_left_as_it_was(parts, suite_file, tmp_path):
    with kernels.using("fused"):
        before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), kernels.backend._State.wish
        routebench.run_suite(
            suite_file(seeds=1), plugins=parts, results=tmp_path / "r", jobs=1, threads=2, isolate=False, report=False
        )
        after = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), kernels.backend._State.wish
    assert after == before


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"memory_limit": "1MB"}, "at least 500MB"),
        ({"time_limit": "soon"}, "expected a duration"),
        ({"address": "here:1"}, "--executor ray"),
        ({"methods": "dynamc"}, "'dynamic'"),
        ({"preset": "smok"}, "'smoke'"),
        ({"seeds": 0}, "expected a number of seeds, .* got 0, which is no seed"),
        ({"seeds": True}, "seeds: expected an integer or text or a range or none, got True"),
        ({"seeds": range(0, 9, 2)}, "which leaves seeds out"),
        ({"jobs": 0}, "jobs: expected an integer of at least 1"),
        ({"threads": 2000}, "threads: expected an integer from 1 to 1024"),
        ({"until": math.nan}, "until: expected a number above 0"),
        ({"time_limit": -1.0}, "time_limit: expected a number above 0"),
        ({"executor": "slurm"}, "executor: expected one of local, ray"),
    ],
)
def test_a_wrong_argument_is_one_line_and_writes_nothing(tmp_path, wrong, told):
    with pytest.raises(UserError, match=told):
        routebench.run_suite("accuracy", results=tmp_path / "r", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_other_functions_refuse_what_the_command_line_refuses(tmp_path):
    for alpha in (0.0, 2.0, math.nan):
        with pytest.raises(UserError, match="alpha: expected a number above 0 and below 1"):
            routebench.compare(tmp_path, tmp_path, alpha=alpha)
    for seed in (-1, 2**63):
        with pytest.raises(UserError, match="seed: expected an integer of at "):
            routebench.check("dynamic", seed=seed)


def test_a_script_needs_no_guard(parts, suite_file, tmp_path):
    """Processes do not run the script again that has started them."""
    (tmp_path / "script.py").write_text(
        f"import routebench\nprint('once')\nrun = routebench.run_suite({str(suite_file(seeds=1))!r}, "
        f"plugins={str(parts)!r}, jobs=2, report=False)\nprint(run.counts.run)\n"
    )
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "once\n4\n"), done.stderr


@pytest.fixture
def trained(parts, suite_file, tmp_path):
    """A run of real, tiny fits, and the cell of one of them."""
    file = suite_file("accuracy", seeds=1, more=TESTED)
    run = routebench.run_suite(file, plugins=parts, results=tmp_path / "r", report=False)
    return run, run.results.query("iterations == 2")["cell"].iloc[0]


def test_the_trained_network_of_a_cell_answers_as_it_did(trained):
    run, cell = trained
    network = routebench.load_fit(run.folder, cell)
    images = load("digits200").test
    assert not network.training
    with torch.inference_mode():
        answers = network(images.pixels / 255).scores.argmax(dim=1)
    assert answers.tolist() == routebench.load_arrays(run.folder, cell)["predicted"].tolist()


def test_a_pack_with_networks_gives_them_back(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_CACHE", str(tmp_path / "cache"))
    run, cell = trained
    (next((run.folder / "fits").iterdir()) / "checkpoint.safetensors").write_bytes(b"of training that has not ended")
    pack(run.folder, tmp_path / "pack", networks=True)
    kept, packed = (routebench.load_fit(folder, cell).state_dict() for folder in (run.folder, tmp_path / "pack"))
    assert kept.keys() == packed.keys() and all(torch.equal(kept[name], packed[name]) for name in kept)
    unpack(tmp_path / "pack", tmp_path / "again")
    before, after = ({file.name for file in (place / "fits").glob("*/*")} for place in (run.folder, tmp_path / "again"))
    assert before - after == {"checkpoint.safetensors"} and "weights.safetensors" in after


def test_every_cell_gives_its_network_whatever_its_hyperparameters(parts, suite_file, tmp_path):
    run = routebench.run_suite(
        suite_file("accuracy", seeds=1), methods="dynamic[detach=true]", plugins=parts, results=tmp_path / "r",
        report=False,
    )  # fmt: skip
    cells = dict(zip(run.results["label"], run.results["cell"], strict=True))
    assert set(cells) == {"dynamic[detach=true]", "uniform", "random"}
    for plugins in (parts, [parts]):
        with extensions.restored():
            assert not routebench.load_fit(run.folder, cells["uniform"], plugins=plugins).training
    for label, cell in cells.items():
        (layer,) = routing_methods(routebench.load_fit(run.folder, cell))
        assert getattr(layer, "detach", False) == (label == "dynamic[detach=true]")


def test_a_network_that_is_gone_or_of_other_code_is_one_line(trained, tmp_path, monkeypatch):
    run, cell = trained
    with pytest.raises(UserError, match="no record of a run '0123456789abcdef'"):
        routebench.load_fit(run.folder, "0123456789abcdef")
    pack(run.folder, tmp_path / "pack")
    with pytest.raises(UserError, match=rf"is a pack without trained networks; .*reproduce {cell} --results "):
        routebench.load_fit(tmp_path / "pack", cell)
    with monkeypatch.context() as patch:
        patch.setattr("routebench.engine.running._fits.key_of_fit", lambda *_: "0123456789abcdef")
        with pytest.raises(UserError, match=r"holds no network .*reproduce"):
            routebench.load_fit(run.folder, cell)
    shutil.rmtree(run.folder / "fits")
    with pytest.raises(UserError, match=r"holds no network .*reproduce"):
        routebench.load_fit(run.folder, cell)


class WrongShape(RoutingMethod):
    def route(self, votes, activations):
        return Routed(votes.sweep().first[:, :1])


def test_a_class_is_checked_here_and_a_file_in_a_process_that_it_may_end(tmp_path):
    assert not routebench.check(WrongShape, device="cpu").conforms
    (tmp_path / "leaves.py").write_text(LEAVES)
    with pytest.raises(Ended, match="exit code 0"):
        routebench.check(plugins=tmp_path / "leaves.py", device="cpu")
    with pytest.raises(UserError, match="expected a METHOD"):
        routebench.check(device="cpu")
