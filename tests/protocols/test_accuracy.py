"""What the protocol says of rest is what an equilibrium schedule does with the test images."""

import math
from dataclasses import replace

import pytest
import torch

from routebench.capsules.equilibrium import noting
from routebench.data import Dataset, load
from routebench.data.dataset import fingerprint
from routebench.models import build
from routebench.protocols.accuracy import Accuracy
from routebench.protocols.base import Fit, FitRequest
from routebench.recipe import Recipe
from routebench.registry import datasets

IMAGES = 260
"""More than are tested at once, so that the protocol has to put two batches together."""
REST = ("updates", "residual", "at_rest")


class Untrained:
    """Lends a network with the weights that it starts with."""

    device = torch.device("cpu")

    def fit(self, request):
        torch.manual_seed(request.seed)
        params = {**request.method_params, "iterations": request.iterations}
        network = build(request.model, shape=(1, 28, 28), classes=10, method=request.method, method_params=params)
        self.network = network.eval()
        return Fit(self.network, [], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


@pytest.fixture
def digits(monkeypatch):
    """The first test images of the digits, as a data set."""
    whole = load("mnist5k")
    parts = (whole.train, whole.held_out, whole.test.at(torch.arange(IMAGES)))
    few = Dataset("few-digits", whole.classes, *parts, fingerprint=fingerprint(*parts), source="mnist5k")
    list(datasets)
    monkeypatch.setitem(datasets.entries, "few-digits", lambda: few)
    return few


def measured(schedule, iterations, test_iterations=(), data="few-digits"):
    request = FitRequest(
        model="capsnet-small-intermediate",
        data=data,
        recipe=Recipe(epochs=1),
        seed=0,
        method="inverted-attention",
        method_params={"schedule": schedule},
        iterations=iterations,
    )
    context = Untrained()
    found = Accuracy().measure(request, {"test_iterations": list(test_iterations)}, context)
    return found, context.network


def rest(found):
    """Metrics of rest, by name and number of iterations."""
    return {(one.metric, one.test_iterations): one for one in found.metrics if one.metric in REST}


def test_rest_is_counted_over_all_test_images(digits):
    found, network = measured("equilibrium", 20)
    with noting() as solves, torch.no_grad():
        network(digits.test.pixels / 255)
    (solve,) = solves
    worst = solve.residual.amax(dim=0)  # over layers
    expected = {
        "updates": float(solve.updates.double().mean()),
        "residual": float(worst.double().mean()),
        "at_rest": 100 * float((worst < 1e-4).double().mean()),
    }
    assert 0 < expected["at_rest"] < 100
    assert 2 < expected["updates"] < 20
    assert {name: one.value for (name, _), one in rest(found).items()} == pytest.approx(expected, rel=1e-3)


def test_rest_is_told_for_every_number_of_iterations_and_one_has_no_residual(digits):
    found, network = measured("equilibrium", 20, [1, 3])
    told = rest(found)
    assert set(told) == {("updates", 1), *((name, count) for name in REST for count in (3, 20))}
    assert told["updates", 1].value == 1
    assert told["updates", 3].value <= 3
    assert told["residual", 20].value < told["residual", 3].value
    assert told["at_rest", 20].value > told["at_rest", 3].value
    assert {module.iterations for module in network.modules() if hasattr(module, "iterations")} == {20}


@pytest.mark.parametrize("schedule", ["sequential", "concurrent"])
def test_schedules_that_look_for_no_rest_tell_none(digits, schedule):
    found, _ = measured(schedule, 3)
    assert rest(found) == {}


def test_units_and_directions_of_rest(digits):
    told = {name: one for (name, _), one in rest(measured("equilibrium", 3)[0]).items()}
    assert {name: (one.unit, one.higher_is_better) for name, one in told.items()} == {
        "updates": ("count", None),
        "residual": ("", False),
        "at_rest": ("%", True),
    }
    assert all(math.isfinite(one.value) and one.split == "test" for one in told.values())


def with_test_labels(monkeypatch, labels):
    """The same digits under other labels, as an untrained network answers them; what the protocol says of them."""
    whole = load("mnist5k")
    test = replace(whole.test.at(torch.arange(len(labels))), labels=labels)
    name = f"digits-{len(labels)}-of-{int(labels.sum())}"  # what was loaded by a name stays loaded
    list(datasets)
    monkeypatch.setitem(datasets.entries, name, lambda: replace(whole, name=name, test=test))
    found, _ = measured("concurrent", 2, (1,), name)
    return found, {(one.metric, one.test_iterations): one.value for one in found.metrics}


@pytest.mark.parametrize(
    ("counts", "is_unbalanced"),
    [((90, 10), True), ((30, 20), True), ((29, 20), False), ((25, 25), False), ((40,), False)],
)
def test_balanced_accuracy_is_measured_where_classes_are_unbalanced(monkeypatch, counts, is_unbalanced):
    labels = torch.cat([torch.full((count,), 3 * label) for label, count in enumerate(counts)])
    found, values = with_test_labels(monkeypatch, labels)
    told = {place for place in values if place[0] in ("commonest_share", "balanced_accuracy")}
    every = {("commonest_share", None), ("balanced_accuracy", 1), ("balanced_accuracy", 2)}
    assert told == (every if is_unbalanced else set())
    if is_unbalanced:
        right = found.arrays["predicted"] == labels
        recalls = [float(right[labels == label].double().mean()) for label in labels.unique()]
        assert values["balanced_accuracy", 2] == pytest.approx(100 * sum(recalls) / len(recalls))
        assert values["commonest_share", None] == pytest.approx(100 * max(counts) / sum(counts))
