"""What the protocol reports is what a plain transcription finds."""

import numpy as np
import pytest
import torch
from scipy import ndimage
from sklearn.metrics import adjusted_rand_score

from routebench.data import load
from routebench.errors import UserError
from routebench.models import build
from routebench.protocols.base import Fit, FitRequest
from routebench.protocols.traced import trace
from routebench.recipe import Recipe
from routebench.studies.objects.data.composed_shapes import GROUND, compose
from routebench.studies.objects.protocols.objects import SEED, ObjectDiscovery, SceneSet, baselines, components
from routebench.training import Epoch

OPTIONS = {"objects": [2], "scenes": 8}


class Untrained:
    """Lends networks with the weights that they start with."""

    device = torch.device("cpu")

    def fit(self, request):
        torch.manual_seed(request.seed)
        shown = {} if request.iterations is None else {"iterations": request.iterations}
        params = {**request.method_params, **shown} if request.method else None
        network = build(request.model, shape=(3, 24, 24), classes=3, method=request.method, method_params=params)
        self.network = network.eval()
        return Fit(self.network, [Epoch(1, 0.5, float("nan"), 0.4, float("nan"), 1e-3, 1.0)], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


def request(method="inverted-attention", iterations=2, model="slot-autoencoder"):
    recipe = Recipe(epochs=1, loss="own")
    return FitRequest(
        model=model, data="take:2000:composed-shapes", recipe=recipe, seed=0, method=method, iterations=iterations
    )


@pytest.fixture(scope="module")
def measured():
    context = Untrained()
    return ObjectDiscovery().measure(request(), OPTIONS, context), context.network


def value(found, metric, **where):
    (one,) = [
        each
        for each in found.metrics
        if each.metric == metric and all(each.where.get(k) == v for k, v in where.items())
    ]
    return one.value


def plain_index(groups, owners):
    """Mean over the pictures of several shapes."""
    found = []
    for group, owner in zip(groups, owners, strict=True):
        seen = owner != GROUND
        if len(set(owner[seen])) > 1:
            found.append(adjusted_rand_score(owner[seen], group[seen]))
    return np.mean(found)


@pytest.mark.parametrize("objects", [2, 4])
def test_indices_are_those_of_masks_and_of_coupling(measured, objects):
    found, network = measured
    true = compose(8, SEED, exactly=objects)
    images = true.pixels.float() / 255
    with torch.no_grad():
        drawn = network.draw(images)
    owners = true.owners.numpy()
    assert value(found, "fg_ari", objects=objects) == pytest.approx(
        plain_index(drawn.masks.argmax(dim=1).numpy(), owners)
    )
    coupling = trace(network, images, 2).layers[0].coupling.argmax(dim=2).numpy()
    on_pixels = np.empty_like(owners)
    for row in range(24):
        for column in range(24):
            on_pixels[:, row, column] = coupling[:, 12 * (row // 2) + column // 2]
    assert value(found, "fg_ari_coupling", objects=objects) == pytest.approx(plain_index(on_pixels, owners))
    error = ((drawn.picture.double() - true.pixels / 255) ** 2).mean()
    assert value(found, "squared_error", objects=objects) == pytest.approx(float(error), rel=1e-4)


def test_losses_of_every_epoch_are_kept_and_no_accuracy(measured):
    found, _ = measured
    assert value(found, "train_loss") == 0.5 and value(found, "held_out_loss") == 0.4
    assert not [one for one in found.metrics if "accuracy" in one.metric]


def test_examples_are_of_pictures_with_the_most_shapes(measured):
    found, network = measured
    true = compose(8, SEED, exactly=4)
    assert torch.equal(found.arrays["example_images"], true.pixels[:6])
    assert torch.equal(found.arrays["example_owners"] == 255, true.owners[:6] == GROUND)
    with torch.no_grad():
        masks = network.draw(true.pixels[:6].float() / 255).masks
    assert torch.equal(found.arrays["example_masks"].long(), masks.argmax(dim=1))


def test_neighbours_are_the_components_of_each_colour():
    true = compose(12, SEED)
    found = components(true).numpy()
    for groups, pixels in zip(found, true.pixels.numpy(), strict=True):
        number = sum(ndimage.label(colour > 0)[1] for colour in pixels)
        assert set(groups.flat) == set(range(number + 1))
        assert not groups[pixels.max(axis=0) == 0].any()
        for group in range(1, number + 1):
            assert len(np.unique(pixels[:, groups == group], axis=1).T) == 1
            assert ndimage.label(groups == group)[1] == 1


def test_baselines_stand_in_every_record_and_are_better_than_chance(measured):
    found, _ = measured
    assert all(one in found.metrics for one in baselines(SceneSet(2, 8)))
    assert value(found, "baseline_components", objects=4) > 0.5
    assert value(found, "baseline_kmeans", objects=4) > 0.5


def test_a_method_without_coupling_has_no_index_of_it():
    found = ObjectDiscovery().measure(request("max-pooling", None), OPTIONS, Untrained())
    assert not [one for one in found.metrics if one.metric == "fg_ari_coupling"]
    assert "example_coupling" not in found.arrays


def test_other_data_and_other_models_are_refused():
    with pytest.raises(UserError, match="expected pictures of which each pixel's shape is known, got mnist5k"):
        ObjectDiscovery().expect(load("mnist5k"))
    with pytest.raises(UserError, match="expected a model whose slots draw masks, got vae"):
        ObjectDiscovery().measure(request(None, None, "vae"), OPTIONS, Untrained())
