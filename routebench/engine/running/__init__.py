"""Runs the cells of a plan that have no result yet: in this process, in several, on a Ray cluster."""

from routebench.engine.running._config import Listener, Setting, prepare_torch
from routebench.engine.running._execute import execute
from routebench.engine.running._fits import StoreContext
from routebench.engine.running._progress import Display
from routebench.engine.running._queue import Queue
from routebench.engine.running._session import (
    choose_backend,
    choose_device,
    choose_setting,
    run,
    slow_back_end,
    write_plan,
)
from routebench.engine.running._status import Standing, listing, standing, time_ahead

__all__ = [
    "Display",
    "Listener",
    "Queue",
    "Setting",
    "Standing",
    "StoreContext",
    "choose_backend",
    "choose_device",
    "choose_setting",
    "execute",
    "listing",
    "prepare_torch",
    "run",
    "slow_back_end",
    "standing",
    "time_ahead",
    "write_plan",
]
