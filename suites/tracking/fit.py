"""What a small fixed training run leaves: a change that makes a method learn worse shows here."""

from dataclasses import replace

import torch

from routebench.data import load
from routebench.models import build
from routebench.recipe import Recipe
from routebench.registry import routing
from routebench.training import evaluate, fit

RECIPE = Recipe(epochs=3, batch_size=16, loss="cross-entropy")  # a recipe under which every method learns in seconds


class SmallFit:
    """`capsnet-small` on every third training image of `mnist5k` (they are sorted by class), seed 0."""

    params = sorted(routing)
    param_names = ("method",)
    unit = "%"

    def track_test_error(self, method: str) -> float:
        """100 - accuracy on the 1,000 test images, because asv takes a rise for a regression."""
        if method not in routing:
            raise NotImplementedError  # see `layer.Layer.setup`
        torch.set_num_threads(1)  # the order of sums, and so the result, can depend on it
        torch.manual_seed(0)
        data = load("mnist5k")
        third = replace(data.for_training(), train=data.train.at(torch.arange(0, len(data.train), 3)))
        network = build("capsnet-small", method=method, shape=data.train.shape, classes=len(data.classes))
        fit(network, third, RECIPE, seed=0, device=torch.device("cpu"))
        return round(100 - evaluate(network, data.test, RECIPE, torch.device("cpu")).accuracy, 2)
