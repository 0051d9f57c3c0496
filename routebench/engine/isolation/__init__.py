"""Runs a function in its own process, which may crash, hang or be killed."""

from routebench.engine.isolation._alone import Ended, Step, alone, step, with_plugins
from routebench.engine.isolation._process import Isolated, send, start_early, uninterrupted, wait_for
from routebench.engine.isolation._stacks import STACK, signal_name, where

__all__ = [
    "STACK",
    "Ended",
    "Isolated",
    "Step",
    "alone",
    "send",
    "signal_name",
    "start_early",
    "step",
    "uninterrupted",
    "wait_for",
    "where",
    "with_plugins",
]
