"""A function in a process of its own, which may crash, hang or be stopped."""

from routebench.engine.isolation._alone import Ended, Step, alone, begin_group, clean_processes, signal_group, step
from routebench.engine.isolation._last_words import STACK, ask_where, one_line, signal_name, where

__all__ = [
    "STACK",
    "Ended",
    "Step",
    "alone",
    "ask_where",
    "begin_group",
    "clean_processes",
    "one_line",
    "signal_group",
    "signal_name",
    "step",
    "where",
]
