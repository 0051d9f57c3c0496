"""Imported once by the process that worker processes are forked from, so that each of them starts at once.

Everything that a worker needs is imported here; nothing is computed, because threads do not survive a fork.
"""

from routebench.engine import workers
from routebench.registry import EVERY

READY = workers.__name__, [len(registry) for registry in EVERY.values()]  # looks into the registries, which fills them
