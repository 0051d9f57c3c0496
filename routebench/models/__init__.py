"""Networks, one file per network of a paper."""

from routebench.models.build import build, options_of
from routebench.models.facts import Facts, facts
from routebench.models.network import CapsuleNetwork, Output, set_iterations, set_progress
from routebench.registry import models as registry

register = registry.register

__all__ = [
    "CapsuleNetwork",
    "Facts",
    "Output",
    "build",
    "facts",
    "options_of",
    "register",
    "set_iterations",
    "set_progress",
]
