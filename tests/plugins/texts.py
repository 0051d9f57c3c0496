"""What the plug-ins of these tests are made of."""

METHOD = """
from routebench import routing
from routebench.ops import length, squash

@routing.register("{name}")
class {class_name}(routing.RoutingMethod):
    "Uniform, under another name."

    def route(self, votes, activations):
        poses = squash(votes.sweep().first)
        return routing.Routed(poses, length(poses))
"""

SUITE = """
question = "How well does the plug-in do?"
version = 1
protocol = "accuracy"
[[methods]]
name = "{method}"
[presets.smoke]
data = "mnist5k"
model = "capsnet-small"
iterations = [1]
seeds = 1
training = {{ epochs = 1 }}
"""

ANALYSIS = """
import pandas as pd
from routebench import analyses
from routebench.analysis._result import Analysis

@analyses.register("{name}")
def count_cells(runs):
    "How many cells there are."
    return Analysis("Cells of the plug-in", "There are some.", pd.DataFrame({{"cells": [len(runs.planned)]}}))
"""


def method(name, class_name="Mine"):
    """The text of a file with a routing method."""
    return METHOD.format(name=name, class_name=class_name)


def suite(method_name):
    """The text of a suite with one method."""
    return SUITE.format(method=method_name)


def analysis(name):
    """The text of a file with an analysis that counts cells."""
    return ANALYSIS.format(name=name)
