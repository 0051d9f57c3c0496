"""What the protocol reports is what the weights of each epoch answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from routebench.data import Dataset, Images
from routebench.errors import UserError
from routebench.models import build
from routebench.papers.hinton.protocols import viewpoint
from routebench.papers.hinton.protocols.viewpoint import Viewpoint
from routebench.protocols.base import Fit, FitRequest
from routebench.recipe import Recipe
from routebench.training import Epoch

SHAPE = (1, 14, 14)
EPOCHS = 3


def views(count=45):
    """Noise, seen from 5 azimuths and 3 elevations: the protocol must not care for what is in the images."""
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, *SHAPE), generator=drawn, dtype=torch.uint8)
    images = Images(pixels, torch.arange(count) % 5)
    azimuth = 20 * (torch.arange(count) % 15 % 5)
    elevation = 30 + 5 * (torch.arange(count) % 3)
    conditions = {"azimuth": azimuth, "elevation": elevation, "familiar": azimuth <= 20}
    return Dataset("views", tuple("abcde"), images, images, images, "0", "noise", conditions=conditions)


class OtherWeightsEveryEpoch:
    """Lends a network with other random weights after each epoch."""

    device = torch.device("cpu")

    def fit(self, request):
        assert request.every_epoch
        self.networks = []
        for epoch in range(1, EPOCHS + 1):
            torch.manual_seed(100 * request.seed + epoch)
            method_params = {} if request.method is None else {"iterations": request.iterations}
            self.networks.append(
                build(request.model, shape=SHAPE, classes=5, method=request.method, method_params=method_params).eval()
            )
        epochs = [Epoch(epoch, 1.0 / epoch, 50.0, 1.0, 40.0 + epoch, 1e-3, 0.5) for epoch in range(1, EPOCHS + 1)]
        torch.manual_seed(0)
        network = build(request.model, shape=SHAPE, classes=5, method=request.method, method_params=method_params)
        return Fit(network.eval(), epochs, 1.5, lambda epoch: self.networks[epoch - 1].state_dict())

    def progress(self, share):
        assert 0 <= share <= 1


def request(model="capsnet-small", method="dynamic", iterations=2, seed=0):
    return FitRequest(
        model=model, data="views", recipe=Recipe(epochs=EPOCHS), seed=seed, method=method, iterations=iterations
    )


def measured_with(monkeypatch, known, data=None):
    data = views() if data is None else data
    monkeypatch.setattr(viewpoint, "load", lambda name: data)
    context = OtherWeightsEveryEpoch()
    return Viewpoint().measure(known, {}, context), context.networks, data


def value(found, metric, **where):
    (one,) = [
        each.value
        for each in found.metrics
        if each.metric == metric
        and all(each.where.get(key, getattr(each, key, None)) == known for key, known in where.items())
    ]
    return one


@pytest.mark.parametrize(
    ("model", "method", "iterations"), [("capsnet-small", "dynamic", 2), ("cnn-small", None, None)]
)
def test_every_epoch_is_tested_with_its_own_weights(monkeypatch, model, method, iterations):
    found, networks, data = measured_with(monkeypatch, request(model, method, iterations))
    familiar = data.conditions["azimuth"] <= 20
    for epoch, network in enumerate(networks, start=1):
        with torch.no_grad():
            right = network(data.test.pixels.float() / 255).scores.argmax(dim=1) == data.test.labels
        assert value(found, "familiar_accuracy", epoch=epoch) == pytest.approx(
            100 * float(right[familiar].double().mean())
        )
        assert value(found, "novel_accuracy", epoch=epoch) == pytest.approx(
            100 * float(right[~familiar].double().mean())
        )
        assert value(found, "held_out_accuracy", epoch=epoch) == 40 + epoch
        bits = np.unpackbits(found.arrays["correct_by_epoch"].numpy(), axis=1, count=len(right))[epoch - 1]
        assert bits.tolist() == right.int().tolist()
    assert found.arrays["correct"].tolist() == right.int().tolist()
    assert found.arrays["familiar"].tolist() == familiar.int().tolist()
    assert value(found, "accuracy", test_iterations=iterations) == pytest.approx(100 * float(right.double().mean()))
    assert len({bytes(row) for row in found.arrays["correct_by_epoch"].numpy()}) == EPOCHS


def test_accuracy_by_view_is_that_of_its_images(monkeypatch):
    found, _, data = measured_with(monkeypatch, request())
    right = found.arrays["correct"].double()
    there = data.conditions["azimuth"] == 40
    assert value(found, "accuracy_by_view", axis="azimuth", degrees=40) == pytest.approx(
        100 * float(right[there].mean())
    )
    kinds = {
        (each.where["axis"], each.where["degrees"]): each.where["viewpoints"] for each in found.metrics if each.where
    }
    assert {kinds["azimuth", angle] for angle in (0, 20)} == {"familiar"}
    assert {kinds["azimuth", angle] for angle in (40, 60, 80)} == {"novel"}
    assert {kinds["elevation", angle] for angle in (30, 35, 40)} == {"both"}


def test_a_data_set_without_viewpoints_is_refused(monkeypatch):
    data = replace(views(), conditions={})
    with pytest.raises(UserError, match=r"with familiar viewpoints to train on, got .* rendered-shapes-small-azimuth"):
        measured_with(monkeypatch, request(), data)


def test_a_condition_is_one_per_test_image():
    data = views()
    with pytest.raises(UserError, match=r"the condition 'azimuth' as \(45,\), one per test image, got int64 \(44,\)"):
        replace(data, conditions={"azimuth": data.conditions["azimuth"][1:]})


def test_images_that_are_changed_otherwise_have_no_viewpoints(monkeypatch):
    known = views()
    data = replace(known, conditions={"familiar": known.conditions["familiar"]})
    found, _, _ = measured_with(monkeypatch, request(), data)
    assert {"familiar_accuracy", "novel_accuracy", "accuracy"} < {one.metric for one in found.metrics}
    assert not any(one.metric == "accuracy_by_view" for one in found.metrics)
