"""The same cells on a Ray cluster of two machines (here two of its nodes on one), one of which is lost midway."""

import json
import sys
import time
import warnings
from pathlib import Path

import psutil
import pytest

from routebench.engine.results import Store
from routebench.engine.running._choose import choose_on_cluster
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError

pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]
ADDRESS = "the address of the cluster"


@pytest.fixture(scope="module")
def module_environment():
    """Its machines import this routebench, wherever it is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RAY_worker_niceness", "0")  # beside other tests, workers of niceness 15 would wait for minutes
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray would otherwise warn about
        yield


@pytest.fixture(scope="module")
def cluster(module_environment):
    """Two nodes with one processor each; the second is lost in a test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.second = made.add_node(num_cpus=1)
        made.wait_for_nodes()
        yield made
        made.shutdown()


def table(store):
    """What a run found: everything but when and where."""
    return sorted((record.cell, record.status, json.dumps([*record.metrics])) for record in store.records())


def wait(process, condition):
    """Until a condition holds, while the process runs."""
    until = time.monotonic() + 300  # of which a quiet machine needs 20
    while not condition():
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until


def is_running(number):
    """Whether a process is there, and not only what the system keeps of one that has ended."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_lost_machine_changes_nothing_in_the_table(cluster, parts, program, suite_file, tmp_path, store, run_all):
    journal = tmp_path / "journal"
    gate = tmp_path / "gate"
    gate.mkdir()
    file = suite_file(seeds=2, more=f'journal = "{journal}"\ngate = "{gate}"')
    on_ray = ("--executor", "ray", "--address", cluster.address)
    process = program.start("suite", file, "--plugin", parts, "--results", tmp_path / "ray", *on_ray)
    wait(process, lambda: len(list(gate.iterdir())) == 2)  # one cell at each machine
    cluster.remove_node(cluster.second, allow_graceful=False)
    wait(process, lambda: sum(is_running(int(file.name)) for file in gate.iterdir()) == 1)
    (gate / "open").touch()
    out, error = process.communicate(timeout=400)  # of which a quiet machine needs 40
    assert process.returncode == 0, out + error
    assert "2 at a time" in out
    made = plan(load_suite(str(file)), "quick", Choices())
    begun = len(journal.read_text().splitlines())
    assert begun == len(made.cells) + 1  # what ran on the lost machine was begun again
    run_all(made.cells)
    assert table(Store(tmp_path / "ray")) == table(store)
    (device,) = {record.provenance["executor"] for record in Store(tmp_path / "ray").records()}
    assert device == "ray"


def test_without_a_cluster_there_is_one_line():
    with pytest.raises(UserError, match=r"expected a running cluster at '127.0.0.1:1'.*--address"):
        choose_on_cluster("127.0.0.1:1", None, 1, 0.0, alone=False)


def test_what_measures_time_is_not_run_on_a_cluster():
    with pytest.raises(UserError, match="measures time"):
        choose_on_cluster(ADDRESS, None, 1, 0.0, alone=True)


def test_without_ray_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"routebench\[ray\]"):
        choose_on_cluster(ADDRESS, None, 1, 0.0, alone=False)


def test_a_cluster_too_small_is_refused(cluster):
    with pytest.raises(UserError, match=r"1 processors and 1 GPUs.*no room"):
        choose_on_cluster(cluster.address, None, 1, 1.0, alone=False)
