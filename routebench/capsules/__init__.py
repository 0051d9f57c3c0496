"""Parts of every capsule network: capsules, the votes between two layers, layers, and schedules."""

from routebench.capsules.population import Activations, Capsules, Poses, Sizes
from routebench.capsules.votes import Votes
from routebench.kernels import Sums, is_transformed
from routebench.ops import AXES, Competition, Windows

__all__ = [
    "AXES",
    "Activations",
    "Capsules",
    "Competition",
    "Poses",
    "Sizes",
    "Sums",
    "Votes",
    "Windows",
    "is_transformed",
]
