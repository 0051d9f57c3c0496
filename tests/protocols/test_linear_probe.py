"""What the protocol reports is what a plain probe of the network's features says."""

import math
from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from routebench.data import load
from routebench.data.rotation import rotate
from routebench.models import build
from routebench.papers.smith.models.probabilistic.information import information, share_that_varies
from routebench.protocols import linear_probe as module
from routebench.protocols.features import UPRIGHT, View, features_of, look, shown
from routebench.protocols.linear_probe import LinearProbe, affine_data
from tests.protocols.small_digits import CANVAS, SMALL, Untrained, register, request_of, with_test_labels

CPU = torch.device("cpu")
OPTIONS = {"angles": [0, 90], "fixed_angles": [0, 45], "train_angles": [90], "affine": True}


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        patch.setattr(module, "affine_data", lambda name: CANVAS if name == SMALL else "")
        yield patch


@pytest.fixture(scope="module")
def measured(patched):
    context = Untrained()
    return LinearProbe().measure(request_of(), OPTIONS, context), context


def values(found, metric, split="test", **where):
    return [
        each.value
        for each in found.metrics
        if (each.metric, each.split) == (metric, split)
        and all(each.where.get(key) == known for key, known in where.items())
    ]


def pixels(images):
    return images.pixels.float() / 255


class TestFeatures:
    def test_of_a_capsule_network(self):
        network = build("capsnet-small", shape=(1, 28, 28), classes=10, method="dynamic").eval()
        images = pixels(load("mnist5k").test.at(torch.arange(3)))
        with torch.no_grad():
            found, output = features_of(network, images), network(images)
        shapes = {name: tuple(each.shape) for name, each in found.items()}
        assert shapes == {"lengths": (3, 10), "logits": (3, 10), "poses": (3, 160), "both": (3, 170)}
        assert found["lengths"].equal(output.scores)
        assert found["logits"].equal(output.logits)
        assert found["poses"].equal(output.layers[-1].poses.reshape(3, 160))
        assert found["both"].equal(torch.cat([output.scores, found["poses"]], dim=1))

    @pytest.mark.parametrize(
        ("model", "sizes"),
        [("cnn-small", {"hidden": 159, "logits": 10, "both": 169}), ("vae", {"mu": 10, "sigma": 10, "both": 20})],
    )
    def test_of_networks_that_say_what_theirs_are(self, model, sizes):
        network = build(model, shape=(1, 28, 28), classes=10).eval()
        seen = look(network, load("mnist5k").test.at(torch.arange(3)), UPRIGHT, CPU)
        assert {name: each.shape[1] for name, each in seen.features.items()} == sizes
        assert seen.main == "both"
        assert (seen.predicted is None) == (model == "vae")

    def test_the_hidden_layer_feeds_the_logits(self):
        network = build("cnn-small", shape=(1, 28, 28), classes=10)
        images = torch.rand(2, 1, 28, 28)
        found = network.features(images)
        assert found["logits"].equal(network(images).logits)
        assert bool((found["hidden"] >= 0).all())

    def test_a_network_without_either_gives_its_logits(self):
        class Plain(torch.nn.Module):
            def forward(self, images):
                logits = images.flatten(1)[:, :10]
                return module_output(logits)

        def module_output(logits):
            from routebench.models.network import Output

            return Output(logits, logits.sigmoid())

        seen = look(Plain(), load("mnist5k").test.at(torch.arange(2)), UPRIGHT, CPU)
        assert list(seen.features) == ["logits"] == [seen.main]


class TestViews:
    def test_fixed_angles_turn_all_alike(self):
        images = load("mnist5k").test.at(torch.arange(4))
        (batch,) = shown(images, View("fixed", 30), CPU)
        assert batch.equal(rotate(pixels(images), torch.full((4,), 30.0)))

    def test_largest_angles_turn_each_by_its_own_in_proportion_and_always_the_same(self):
        images = load("mnist5k").test
        small, large, again = (torch.cat(list(shown(images, View("maximal", angle), CPU))) for angle in (45, 90, 90))
        assert large.equal(again)
        angles = 2 * torch.rand(1000, generator=torch.Generator().manual_seed(0)) - 1
        assert torch.allclose(small, rotate(pixels(images), 45 * angles), atol=1e-5)
        assert torch.allclose(large, rotate(pixels(images), 90 * angles), atol=1e-5)

    def test_upright_is_as_it_is(self):
        images = load("mnist5k").test.at(torch.arange(3))
        (batch,) = shown(images, UPRIGHT, CPU)
        assert batch.equal(pixels(images))


def test_accuracies_are_those_of_a_plain_probe(measured):
    found, context = measured
    data, network = load(SMALL), context.fit(request_of()).network
    with torch.no_grad():
        train, turned = (
            features_of(network, images)["both"].numpy()
            for images in (pixels(data.train), rotate(pixels(data.test), torch.full((100,), 45.0)))
        )
    (strength,) = values(found, "probe_C", "held-out", train_angle=0, feature="both", tested_on=None)
    plain = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(train, data.train.labels)
    (accuracy,) = values(found, "probe_accuracy", feature="both", kind="fixed", angle=45)
    assert accuracy == pytest.approx(100 * plain.score(turned, data.test.labels))
    with torch.no_grad():
        own = network(pixels(data.test)).scores.argmax(dim=1)
    (accuracy,) = values(found, "network_accuracy", kind="maximal", angle=0, train_angle=0)
    assert accuracy == pytest.approx(100 * float((own == data.test.labels).double().mean()))


def test_every_view_is_there_once(measured):
    found, _ = measured
    views = [
        (each.where.get("train_angle"), each.where["kind"], each.where.get("angle"), each.where.get("tested_on"))
        for each in found.metrics
        if each.metric == "probe_accuracy" and each.split == "test" and each.where["feature"] == "poses"
    ]
    assert views == [
        (0, "maximal", 0, None), (0, "maximal", 90, None), (0, "fixed", 45, None),
        (90, "maximal", 90, None), (0, "affine", None, CANVAS),
    ]  # fmt: skip


def test_further_networks_are_asked_for_where_training_differs_and_nowhere_else(measured):
    _, context = measured
    upright, turned, placed = context.asked[:3]
    assert upright == request_of()
    assert turned == replace(upright, recipe=replace(upright.recipe, augmentation="rotate90"))
    assert placed == replace(upright, data=CANVAS)


def test_correct_is_that_of_the_main_probe_on_upright_images(measured):
    found, _ = measured
    (accuracy,) = values(found, "probe_accuracy", feature="both", kind="maximal", angle=0)
    assert 100 * float(found.arrays["correct"].double().mean()) == pytest.approx(accuracy)
    right = (found.arrays["predicted"] == load(SMALL).test.labels).to(torch.uint8)
    assert found.arrays["correct"].equal(right)


def test_probes_never_see_a_test_label(measured, patched):
    found, _ = measured
    data = load(SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load", lambda _: with_test_labels(data, data.test.labels.roll(7)))
        other = LinearProbe().measure(request_of(), {"angles": [0, 90]}, Untrained())
    assert other.arrays["predicted"].equal(found.arrays["predicted"])
    for metric in ("probe_C", "probe_loss", "probe_accuracy"):
        before = values(found, metric, "held-out", train_angle=0, tested_on=None)
        assert values(other, metric, "held-out") == before
    assert other.arrays["correct"].sum() < found.arrays["correct"].sum()


def test_an_unsupervised_model_has_no_answer_of_its_own_and_shows_its_reconstructions(patched):
    found = LinearProbe().measure(request_of(None, None, "vae"), {"angles": [90]}, Untrained())
    assert not [each for each in found.metrics if each.metric == "network_accuracy"]
    assert {each.where["feature"] for each in found.metrics} == {"mu", "sigma", "both"}
    images, decoded = found.arrays["example_images"], found.arrays["example_reconstructions"]
    assert images.shape == decoded.shape == (2, 10, 1, 28, 28)
    assert found.arrays["example_angles"].tolist() == [0, 90]
    first = int((load(SMALL).test.labels == 3).nonzero()[0, 0])
    assert images[0, 3].equal(load(SMALL).test.pixels[first])


def test_generative_capsules_say_how_they_explain_the_images_that_each_network_is_trained_on(patched):
    context = Untrained()
    request = request_of(None, None, "generative-capsules-small")
    found = LinearProbe().measure(request, {"angles": [0], "train_angles": [90]}, context)
    network = context.fit(request).network
    for angle in (0, 90):
        where = {"train_angle": angle, "poses": "certain"}
        (total,) = values(found, "bound", term="total", **where)
        terms = [values(found, "bound", term=term, **where)[0] for term in ("pixels", "parts", "objects")]
        assert total == pytest.approx(sum(terms))
        (without,) = values(found, "bound", term="total without constant", **where)
        assert without - total == pytest.approx(16 * 3 * math.log(2 * math.pi))  # 16 poses of 6 normal numbers
        view = View("maximal", angle)
        (images,) = shown(load(SMALL).test, view, CPU)
        with torch.no_grad():
            said = network.middle(images)
        for layer, belief in vars(said).items():
            (present,) = values(found, "mean_presence", layer=layer, train_angle=angle)
            assert present == pytest.approx(float(belief.log_odds.sigmoid().mean()), rel=1e-5)
            (told,) = values(found, "presence_information", layer=layer, train_angle=angle)
            draws = torch.Generator().manual_seed(0)
            assert told == pytest.approx(information(belief.log_odds, 1.0, draws=16, generator=draws), rel=1e-4)
        choices = network.part_whole.responsibilities(said.objects.middle(), said.parts.middle())
        assert values(found, "varying_choices", train_angle=angle) == [100 * share_that_varies(choices)]


def test_the_affine_counterpart_of_a_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("ROUTEBENCH_DATA", str(tmp_path))
    names = {name: affine_data(name) for name in ("mnist", "mnist5k", "cifar10")}
    assert names == {"mnist": "affnist-synthetic", "mnist5k": "affnist5k-synthetic", "cifar10": ""}
    file = tmp_path / "affNIST/transformed/test.mat"
    file.parent.mkdir(parents=True)
    file.touch()
    assert affine_data("mnist") == "affnist"
