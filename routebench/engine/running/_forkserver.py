"""Imported once by the process that worker processes are forked from, so that each of them starts at once.

Everything that a worker needs is imported here; nothing is computed, because threads do not survive a fork. Analyses,
which no cell draws, take as long to import as torch and come only where a plug-in brings some.
"""

from routebench import terminal
from routebench.engine.running import _processes as workers
from routebench.registry import EVERY, leave_out_environment

leave_out_environment()  # no plug-in runs in the process that all others come from
NEEDED = [kind for kind in EVERY if kind != "analyses"]
terminal.prepare()
READY = workers.__name__, [len(EVERY[kind]) for kind in NEEDED]  # looks into the registries, which fills them
