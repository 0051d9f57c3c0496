"""What every capsule network is made of: capsules, the votes between two layers, layers, and schedules."""

from routebench.capsules.competition import AXES, Competition, Windows
from routebench.capsules.population import Activations, Capsules, Poses, Sizes
from routebench.capsules.votes import Sums, Votes

__all__ = ["AXES", "Activations", "Capsules", "Competition", "Poses", "Sizes", "Sums", "Votes", "Windows"]
