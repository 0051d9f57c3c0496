"""Runs a function in its own process, which may crash, hang or be killed."""

from routebench.engine.isolation._alone import STEP_LIMIT, Ended, alone, import_plugin, step, with_plugins
from routebench.engine.isolation._litter import Scratch
from routebench.engine.isolation._messages import Unreadable, taken
from routebench.engine.isolation._process import (
    SAID_WHAT,
    Isolated,
    Step,
    die_with_starter,
    send,
    start_early,
    uninterrupted,
    wait_for,
)
from routebench.engine.isolation._stacks import STACK, signal_name, where

__all__ = [
    "SAID_WHAT",
    "STACK",
    "STEP_LIMIT",
    "Ended",
    "Isolated",
    "Scratch",
    "Step",
    "Unreadable",
    "alone",
    "die_with_starter",
    "import_plugin",
    "send",
    "signal_name",
    "start_early",
    "step",
    "taken",
    "uninterrupted",
    "wait_for",
    "where",
    "with_plugins",
]
