"""What the protocol reports is what a plain transcription finds."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import adjusted_rand_score, r2_score

from routebench.data import load
from routebench.errors import UserError
from routebench.models import build
from routebench.protocols.base import Fit, FitRequest
from routebench.protocols.traced import trace
from routebench.recipe import Recipe
from routebench.studies.parts.constellations import Constellation, draw, encoded
from routebench.studies.parts.protocols.parts import (
    TEST_SEED,
    Assignment,
    SceneGroup,
    ceiling,
    constellation_of,
    coupling_metrics,
)

OPTIONS = {"objects": [1, 3], "clutter": [0, 2], "scenes": 12, "follow": 3}
DATA = "take:2000:constellations"


class Untrained:
    """Lends networks with the weights that they start with."""

    device = torch.device("cpu")

    def fit(self, request):
        torch.manual_seed(request.seed)
        shown = {} if request.iterations is None else {"iterations": request.iterations}
        params = {**request.method_params, **shown} if request.method else None
        network = build(request.model, shape=(7, 5, 8), classes=8, method=request.method, method_params=params)
        self.network = network.eval()
        return Fit(self.network, [], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


def request(method="em", iterations=2, model="part-capsules-true"):
    return FitRequest(model=model, data=DATA, recipe=Recipe(epochs=1), seed=0, method=method, iterations=iterations)


@pytest.fixture(scope="module")
def measured():
    context = Untrained()
    return Assignment().measure(request(), OPTIONS, context), context.network


def value(found, metric, **where):
    (one,) = [
        each
        for each in found.metrics
        if each.metric == metric
        and all(each.where.get(key, getattr(each, key, None)) == known for key, known in where.items())
    ]
    return one.value


def scenes_of(objects, clutter):
    return draw(Constellation(objects=objects, clutter=clutter), 12, TEST_SEED, exactly=objects)


def coupled(network, scenes, iterations):
    """Coupling as a plain list of parts of each scene: (true parent, coupling with all)."""
    layer = trace(network, encoded(scenes).float() / 255, iterations).layers[0]
    parents = scenes.parents.permute(0, 2, 1).reshape(len(scenes.parents), -1)
    return [[*zip(p.tolist(), c.double().numpy(), strict=True)] for p, c in zip(parents, layer.coupling, strict=True)]


@pytest.mark.parametrize(("objects", "clutter", "iterations"), [(2, 0, 1), (2, 0, 2), (2, 0, 3), (3, 0, 2), (3, 2, 2)])
def test_index_and_share_are_those_of_coupling(measured, objects, clutter, iterations):
    found, network = measured
    every = coupled(network, scenes_of(objects, clutter), iterations)
    where = {"objects": objects, "clutter": clutter, "test_iterations": iterations}
    indices, shares = [], []
    for scene in every:
        parts = [(true, coupling) for true, coupling in scene if true >= 0]
        indices.append(adjusted_rand_score([true for true, _ in parts], [c.argmax() for _, c in parts]))
        shares += [coupling[true] / coupling.sum() for true, coupling in parts]
    assert value(found, "ari", **where) == pytest.approx(np.mean(indices))
    assert value(found, "true_share", **where) == pytest.approx(np.mean(shares))


def test_clutter_is_one_group_more(measured):
    found, network = measured
    every = coupled(network, scenes_of(3, 2), 2)
    there = [[(true, coupling) for true, coupling in scene if true != -2] for scene in every]
    indices = [adjusted_rand_score([t for t, _ in scene], [c.argmax() for _, c in scene]) for scene in there]
    assert value(found, "ari_clutter", objects=3, clutter=2) == pytest.approx(np.mean(indices))
    mass = {kind: np.mean([c.sum() for s in there for t, c in s if (t >= 0) is kind]) for kind in (True, False)}
    assert value(found, "clutter_mass", objects=3, clutter=2) == pytest.approx(mass[False] / mass[True])


def test_poses_are_compared_after_a_linear_map_of_each_kind(measured):
    found, network = measured
    training, test = draw(Constellation(), 2000, 4), scenes_of(3, 0)
    own = [network(encoded(scenes).float() / 255).layers[-1].poses.detach().double() for scenes in (training, test)]
    predicted, true = [], []
    for kind in range(8):
        seen, asked = training.shown[:, kind], test.shown[:, kind]
        if asked.any():
            fitted = LinearRegression().fit(own[0][seen, kind], training.objects[seen, kind].flatten(1))
            predicted.append(fitted.predict(own[1][asked, kind]))
            true.append(test.objects[asked, kind].flatten(1).numpy())
    expected = r2_score(np.concatenate(true), np.concatenate(predicted), multioutput="variance_weighted")
    assert value(found, "pose_r2", objects=3, clutter=0) == pytest.approx(expected, abs=1e-4)


def test_answers_are_those_of_the_network(measured):
    found, network = measured
    data, test = load(DATA), scenes_of(3, 0)
    with torch.no_grad():
        held_out, asked = (network(part.pixels.float() / 255).scores for part in (data.held_out, data.test))
        scores = network(encoded(test).float() / 255).scores
    shares = {n: ((held_out > n / 100) == data.held_out.labels).all(dim=1).double().mean() for n in range(1, 100)}
    best = max(shares, key=lambda n: (shares[n], -abs(n - 50)))
    right = ((asked > best / 100) == data.test.labels).all(dim=1)
    assert value(found, "chosen_threshold") == pytest.approx(best / 100)
    exact = ((scores > best / 100) == test.shown).all(dim=1)
    assert value(found, "exact_match", objects=3, clutter=0) == pytest.approx(100 * float(exact.double().mean()))
    assert value(found, "accuracy") == pytest.approx(100 * float(right.double().mean()))
    assert torch.equal(found.arrays["correct"].bool(), right)
    counted = [
        set(row.argsort()[-3:].tolist()) == set(s.nonzero()[:, 0].tolist())
        for row, s in zip(scores, test.shown, strict=True)
    ]
    assert value(found, "exact_match_given_count", objects=3, clutter=0) == pytest.approx(100 * np.mean(counted))


def test_the_ceiling_stands_in_every_record(measured):
    found, _ = measured
    part = SceneGroup(Constellation(objects=3, clutter=2), 3, 12)
    assert all(one in found.metrics for one in ceiling(part))
    assert value(found, "ceiling_ari", objects=3, clutter=2) > 0.95
    assert value(found, "ceiling_exact_match", objects=3, clutter=2) > 90
    assert value(found, "ceiling_clutter_mass", objects=3, clutter=2) < 0.1


def test_equal_shares_are_the_floor_and_a_plain_network_has_no_coupling():
    floor = Assignment().measure(request("uniform", None), OPTIONS, Untrained())
    assert value(floor, "ari", objects=3, clutter=0) == pytest.approx(0)
    assert value(floor, "true_share", objects=3, clutter=0) == pytest.approx(1 / 8)
    plain = Assignment().measure(request(None, None, "part-sets"), OPTIONS, Untrained())
    assert not [one for one in plain.metrics if one.metric in ("ari", "pose_r2", "true_share")]
    assert value(plain, "exact_match", objects=3, clutter=0) >= 0


def test_a_scene_of_one_object_has_no_index():
    coupling, parents = torch.full((2, 3, 2), 0.5), torch.tensor([[0, 0, -2], [1, 1, 1]])
    assert dict(coupling_metrics(coupling, parents)) == {"true_share": 0.5}


def test_only_constellations_are_measured():
    assert constellation_of("fold:1/3:constellations:clutter=2") == Constellation(clutter=2)
    with pytest.raises(UserError, match="expected scenes whose part-whole tree is known, got mnist5k"):
        Assignment().expect(load("mnist5k"))
