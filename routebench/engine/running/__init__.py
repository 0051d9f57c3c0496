"""Executes the runs of a plan that have no result yet: in this process, in several, on a Ray cluster."""

from routebench.engine.running._choose import choose_backend, choose_device
from routebench.engine.running._config import Listener, RunConfig, prepare_torch, torch_as_before
from routebench.engine.running._fits import StoreContext, key_of_fit, load_fit
from routebench.engine.running._progress import Display, Follower, Progress, follow
from routebench.engine.running._queue import Queue
from routebench.engine.running._run import run_cells
from routebench.engine.running._status import listing, plan_as_plain, time_ahead
from routebench.engine.running._suite import Call, Counts, PlannedRun, prepare

__all__ = [
    "Call",
    "Counts",
    "Display",
    "Follower",
    "Listener",
    "PlannedRun",
    "Progress",
    "Queue",
    "RunConfig",
    "StoreContext",
    "choose_backend",
    "choose_device",
    "follow",
    "key_of_fit",
    "listing",
    "load_fit",
    "plan_as_plain",
    "prepare",
    "prepare_torch",
    "run_cells",
    "time_ahead",
    "torch_as_before",
]
