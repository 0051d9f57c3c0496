"""A small board of its own: a suite of seconds, its published results, and methods that join it."""

from pathlib import Path

SUITE = """
question = "Is it better than uniform routing?"
version = 1
protocol = "accuracy"

[tuning]
trials = 2
folds = 3
scored = 1
take = 300

[tuning.training]
learning_rate = { low = 3e-3, high = 3e-2, scale = "log" }

[primary]
against = ["uniform", "cnn"]
margin = 1.0

[training]
epochs = 3
batch_size = 64

[[methods]]
name = "em"

[[baselines]]
name = "cnn"
models = { capsnet-small = "cnn-small" }

[presets.quick]
data = "mnist5k"
take = 600
model = "capsnet-small"
iterations = [1]
seeds = 3
settings = "tiny.quick.settings.json"
"""
METHOD = '''
from torch import Tensor

from routebench import Routed, RoutingMethod, Sizes, routing
from routebench.capsules import Votes
from routebench.ops import length, squash


@routing.register("{name}")
class {title}(RoutingMethod):
    """Coupling is a softmax over parents of the lengths of votes."""

    def __init__(self, sizes: Sizes, *, sharpness: float = {sharpness}):
        super().__init__(sizes)
        self.sharpness = sharpness

    def route(self, votes: Votes, activations: Tensor) -> Routed:
        coupling = votes.competition.couple(self.sharpness * length(votes.dense()))
        parents = squash(votes.aggregate(coupling))
        return Routed(parents, length(parents))
'''


def method(folder: Path, name: str = "sharper", sharpness: float = 1.0) -> Path:
    """A file with a routing method; sharpness 0 makes it uniform routing."""
    file = folder / f"{name.replace('-', '_')}.py"
    title = "".join(part.capitalize() for part in name.split("-"))
    file.write_text(METHOD.format(name=name, title=title, sharpness=sharpness))
    return file
