"""300 real digits, their counterparts on a canvas, and untrained networks: what tests of linear probes measure."""

import torch

from routebench.data import Dataset, Images, load
from routebench.data.dataset import fingerprint
from routebench.models import build
from routebench.protocols.base import Fit, FitRequest
from routebench.recipe import Recipe
from routebench.registry import datasets

SMALL, CANVAS = "digits300", "digits300-canvas"


def few(name, source):
    whole = load(source)
    apart = len(whole.test) // 100
    parts = (
        whole.train.at(torch.arange(0, 3600, 24)),
        whole.held_out.at(torch.arange(0, 400, 8)),
        whole.test.at(torch.arange(0, len(whole.test), apart)),
    )
    return Dataset(name, whole.classes, *parts, fingerprint=fingerprint(*parts), source=source)


def register(monkeypatch):
    """Both data sets, for as long as the fixture lasts."""
    list(datasets)
    monkeypatch.setitem(datasets.entries, SMALL, lambda: few(SMALL, "mnist5k"))
    monkeypatch.setitem(datasets.entries, CANVAS, lambda: few(CANVAS, "affnist5k-synthetic"))


class Untrained:
    """Lends networks with the weights that they start with, and notes what was asked for."""

    device = torch.device("cpu")

    def __init__(self):
        self.asked = []

    def fit(self, request):
        self.asked.append(request)
        torch.manual_seed(request.seed)
        shown = {} if request.iterations is None else {"iterations": request.iterations}
        network = build(
            request.model, shape=load(request.data).train.shape, classes=10, method=request.method,
            method_params={**request.method_params, **shown},
        )  # fmt: skip
        return Fit(network.eval(), [], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


def request_of(method="dynamic", iterations=2, model="capsnet-small", seed=0):
    return FitRequest(model=model, data=SMALL, recipe=Recipe(epochs=1), seed=seed, method=method, iterations=iterations)


def with_test_labels(data, labels):
    return Dataset(
        data.name, data.classes, data.train, data.held_out, Images(data.test.pixels, labels), data.fingerprint, ""
    )
