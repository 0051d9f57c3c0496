"""What every test gets: fixed seeds, deterministic operations, no window, and one thread."""

import os
import random
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")  # before matplotlib is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the programs that tests start, too: threads that share a core wait

import jaxtyping
import numpy as np
import pytest
import torch

from tests.first_calls import WITH_SHAPES, calls, checked_at_first

jaxtyping.jaxtyped = checked_at_first(jaxtyping.jaxtyped)  # before routebench is imported
jaxtyping.install_import_hook(
    [f"routebench.{name}" for name in WITH_SHAPES],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",  # an int passes for a float
)

from routebench.cache import cache_folder  # noqa: E402
from routebench.errors import UserError  # noqa: E402


def keep_caches_here() -> None:
    """Below the checkout, for a user without a home folder that can be written to."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        writable = os.access(cache_folder(), os.W_OK)
    except (OSError, UserError):
        writable = False
    if not writable:
        here = Path(__file__).parents[1] / "build" / "cache"
        os.environ.update(ROUTEBENCH_CACHE=str(here), MPLCONFIGDIR=str(here / "matplotlib"))


KEPT = {"ROUTEBENCH_BROWSER", "ROUTEBENCH_CACHE", "ROUTEBENCH_DATA"}
"""What tests read. Options that somebody has set for work of their own, such as `ROUTEBENCH_JOBS`, are left out."""
for variable in [name for name in os.environ if name.startswith("ROUTEBENCH_") and name not in KEPT]:
    del os.environ[variable]

keep_caches_here()

LONGEST = (
    "golden/test_golden_networks.py",
    "golden/test_golden.py",
    "test_notebook.py",
    "ranking/test_rank_command.py",
    "ranking/test_submissions.py",
    "comparing/test_alternate.py",
    "ranking/test_rank.py",
    "report/test_seen.py",
    "reports/test_gpu.py",
    "engine/test_interface.py",
    "conformance/test_broken_methods.py",
    "engine/test_cluster.py",
    "test_claims.py",
    "docs/test_examples.py",
    "papers/test_copied_out.py",
    "engine/test_isolation.py",
    "engine/test_repeated_trials.py",
    "test_bad_input.py",
    "conformance/test_check.py",
    "engine/test_execute.py",
    "capsules/test_equilibrium.py",
    "kernels/test_triton.py",
    "models/test_mixed_precision.py",
    "test_wheel.py",
    "report/test_page.py",
    "stress/test_stress.py",
    "capsules/test_memory.py",
    "analyses/test_all_analyses.py",
    "analyses/test_robustness_analyses.py",
    "test_cli.py",
    "plugins/test_new_method.py",
    "engine/test_queue.py",
    "test_training.py",
    "engine/test_tuning.py",
    "engine/test_fits.py",
    "report/test_browser.py",
    "docs/test_site.py",
    "protocols/test_cost.py",
)
"""Files that take long. Where files run side by side, none of these is to begin when all else ends."""


def pytest_collection_modifyitems(items):
    """The longest files first; the others in their order."""
    root = Path(__file__).parent
    place = {root / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    calls.clear()


@pytest.fixture(scope="session", autouse=True)
def deterministic_operations():
    """On the CPU, the same input gives the same bits; and memory that nobody has written to is NaN."""
    torch.set_num_threads(1)
    torch.set_warn_always(True)  # else a warning that came once is an error in no later test
    torch.set_deterministic_debug_mode("error")  # `use_deterministic_algorithms` imports torch's compiler first
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(autouse=True)
def fixed_seeds():
    """A test draws the same numbers alone and among others."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - libraries draw from the global generator
    torch.manual_seed(0)


@pytest.fixture
def no_data(monkeypatch):
    """Plans are made as if every data set suited them: none is downloaded or rendered."""
    from routebench.data.dataset import Dataset, Images

    images = Images(torch.zeros(1, 1, 48, 48, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
    data = Dataset("none", ("only",), images, images, images, fingerprint="f", source="nowhere")
    monkeypatch.setattr("routebench.engine.suites._points._usable", lambda suite, preset: (preset, data))


@pytest.fixture(scope="module", autouse=True)
def plugins_are_forgotten():
    """What the tests of one file register, those of the next do not find."""
    from routebench.registry import extensions

    with extensions.restored():
        yield
