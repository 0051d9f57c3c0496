"""What the protocol reports is what the networks do."""

import numpy as np
import pytest
import torch

from routebench import measures
from routebench.capsules.intercepted import intercepted, routed_layers
from routebench.data import load
from routebench.data.dataset import Dataset, Images
from routebench.errors import UserError
from routebench.models import build
from routebench.protocols.base import Fit, FitRequest
from routebench.protocols.sparsity import Sparsity
from routebench.protocols.static import HeldCoupling, layer_names, static_metrics
from routebench.protocols.traced import trace
from routebench.protocols.vote_distances import gathered, vote_distances
from routebench.recipe import Recipe

OPTIONS = {"follow": 4, "images": 16}


class Untrained:
    """Lends networks with the weights that they start with."""

    device = torch.device("cpu")

    def fit(self, request):
        torch.manual_seed(request.seed)
        shown = {} if request.iterations is None else {"iterations": request.iterations}
        network = build(
            request.model, shape=(1, 28, 28), classes=10, method=request.method,
            method_params={**request.method_params, **shown},
        )  # fmt: skip
        self.network = network.eval()
        return Fit(self.network, [], 0.0)

    def progress(self, share):
        assert 0 <= share <= 1


def request(method="dynamic", iterations=2, model="capsnet-small"):
    return FitRequest(
        model=model, data="mnist5k", recipe=Recipe(epochs=1), seed=0, method=method, iterations=iterations
    )


@pytest.fixture(scope="module")
def measured():
    context = Untrained()
    return Sparsity().measure(request(), OPTIONS, context), context.network


def value(found, metric, **where):
    (one,) = [
        each
        for each in found.metrics
        if each.metric == metric
        and all(each.where.get(key, getattr(each, key, None)) == known for key, known in where.items())
    ]
    return one.value


def test_activity_is_that_of_the_network(measured):
    found, network = measured
    pixels = load("mnist5k").test.pixels.float() / 255
    with torch.no_grad():
        scores = network(pixels).scores.double()
    assert value(found, "hoyer", layer="classes", of="activation") == pytest.approx(
        float(measures.hoyer(scores).mean()), rel=1e-4
    )
    right = (scores.argmax(dim=1) == load("mnist5k").test.labels).double().mean()
    assert value(found, "right_answers") == pytest.approx(100 * float(right))
    expected = float(measures.lifetime_sparsity(scores).mean())
    assert value(found, "lifetime_sparsity", layer="classes", of="activation") == pytest.approx(expected, rel=1e-3)
    assert found.arrays["example_labels"].tolist() == list(range(10))
    first = [int((load("mnist5k").test.labels == label).nonzero()[0, 0]) for label in range(10)]
    assert found.arrays["example_scores"].numpy() == pytest.approx(scores[first].numpy(), rel=1e-4)


def test_coupling_and_residual_are_those_of_each_iteration(measured):
    found, network = measured
    test = load("mnist5k").test
    places = torch.linspace(0, len(test) - 1, 16).round().long()
    assert len(test.labels[places].unique()) == 10
    pixels = test.pixels[places].float() / 255
    two, three = trace(network, pixels, 2), trace(network, pixels, 3)
    score = float(measures.t_score(three.layers[0].coupling.double()).mean())
    assert value(found, "t_score", test_iterations=3) == pytest.approx(score, rel=1e-5)
    moved = measures.residual(two.layers[0].capsules.poses, three.layers[0].capsules.poses)
    assert value(found, "residual", test_iterations=3) == pytest.approx(float(moved.mean()), rel=1e-5)
    assert value(found, "t_score", test_iterations=1) == pytest.approx(0, abs=1e-6)
    assert {each.test_iterations for each in found.metrics if each.metric == "residual"} == {2, 3, 4}


def test_static_coupling_is_the_mean_over_training_images_of_every_iteration(measured):
    found, network = measured
    data = load("mnist5k")
    places = torch.linspace(0, len(data.train) - 1, 1000).round().long()

    def votes_of(pixels):
        layer = trace(network, pixels.float() / 255, 2).layers[0]
        return layer.votes.dense().detach(), layer.coupling

    _, coupling = votes_of(data.train.pixels[places])
    votes, own = votes_of(data.test.pixels)
    total = torch.einsum("cp,lcpd->lpd", coupling.mean(dim=0), votes)
    static = 100 * float((total.norm(dim=2).argmax(dim=1) == data.test.labels).double().mean())
    right = 100 * float(
        (network(data.test.pixels.float() / 255).scores.argmax(dim=1) == data.test.labels).double().mean()
    )
    assert value(found, "static_accuracy") == pytest.approx(static, abs=0.11)  # one image may be tied
    assert value(found, "static_loss") == pytest.approx(right - static, abs=0.11)
    assert right != static
    some = part_of(data, 16)
    _, own = votes_of(some.pixels)
    between = own.double().var(dim=0, correction=0).mean() / own.double().var(correction=0)
    assert value(found, "share_between", test_iterations=2) == pytest.approx(float(between), rel=1e-4)


def test_gradients_are_those_of_the_loss_at_poses(measured):
    found, network = measured
    data = load("mnist5k")
    some = data.train.at(torch.linspace(0, len(data.train) - 1, 1000).round().long())
    some = some.at(torch.linspace(0, 999, 250).round().long())
    assert len(some.labels.unique()) == 10
    output = network(some.pixels.float() / 255)
    hot = torch.nn.functional.one_hot(some.labels, 10)
    lengths = output.layers[-1].poses.norm(dim=2)
    loss = hot * (0.9 - lengths).relu() ** 2 + 0.5 * (1 - hot) * (lengths - 0.1).relu() ** 2
    for layer, name in zip(output.layers, ("primary", "classes"), strict=True):
        (gradient,) = torch.autograd.grad(loss.sum(), layer.poses, retain_graph=True)
        norms = gradient.flatten(1).norm(dim=1)
        assert value(found, "gradient_norm", layer=name) == pytest.approx(float(norms.mean()), rel=1e-3)


def test_poses_that_the_loss_does_not_see_have_no_gradient():
    found = Sparsity().measure(request("em", 2), OPTIONS, Untrained())
    assert {each.where["layer"] for each in found.metrics if each.metric == "gradient_norm"} == {"primary"}


@pytest.mark.parametrize("method", ["uniform", "random"])
def test_coupling_that_no_image_changes_loses_nothing(method):
    found = Sparsity().measure(request(method, None), OPTIONS, Untrained())
    assert value(found, "static_loss") == 0
    assert value(found, "share_between") == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("method", "iterations"), [("em", 2), ("inverted-attention", 2), ("self-attention", None)])
def test_static_coupling_changes_what_dynamic_coupling_answers(method, iterations):
    context = Untrained()
    network, data = context.fit(request(method, iterations)).network, load("mnist5k")
    images = data.test.at(torch.arange(40))
    pixels = images.pixels.float() / 255
    means = HeldCoupling(images=40)
    with torch.no_grad(), intercepted(routed_layers(network), means.see):
        before = network(pixels).scores
        means.is_used = True
        static = network(pixels).scores
    assert means.found and not torch.allclose(before, static, atol=1e-4)
    assert torch.allclose(network(pixels).scores, before, atol=1e-4)  # all is as it was


def test_scores_that_are_not_made_of_weighted_votes_are_left_out():
    context, data = Untrained(), load("mnist5k")
    network = context.fit(request("self-routing", None)).network
    for name, gate in network.named_parameters():
        if name.endswith("gate"):  # which starts at zero, with uniform coupling
            torch.nn.init.normal_(gate)
    some = (data.train.at(torch.arange(60)), data.test.at(torch.arange(40)))
    assert not [*static_metrics(network, *some, torch.device("cpu"))]


def part_of(data, count):
    return data.test.at(torch.linspace(0, len(data.test) - 1, count).round().long())


def test_the_network_is_left_as_it_was(measured):
    _, network = measured
    assert network.layers[0].routing.iterations == 2
    assert "votes" not in vars(network.layers[0])


def test_a_trace_holds_the_coupling_that_makes_the_parents():
    context = Untrained()
    network = context.fit(request("em", 3)).network
    pixels = torch.rand(4, 1, 28, 28)
    layer = trace(network, pixels, 3).layers[0]
    shares = layer.coupling * layer.present[..., None]
    mean = torch.einsum("lcp,lcpd->lpd", shares, layer.votes.dense().detach()) / shares.sum(dim=1)[..., None]
    assert torch.allclose(mean, layer.capsules.poses, atol=1e-4)


def test_vote_distances_are_weighted_counts():
    context = Untrained()
    network, test = context.fit(request()).network, load("mnist5k").test
    found = vote_distances(network, test, 2, context.device)
    assert found["vote_distances"].shape == (3, 3, 10, 60)
    assert found["vote_labels"].tolist() == [0, 1, 2]
    pixels = torch.stack([test.pixels[(test.labels == label).nonzero()[0, 0]] for label in range(3)]).float() / 255
    layer = trace(network, pixels, 2).layers[0]
    distances = (layer.votes.dense().detach() - layer.capsules.poses[:, None]).norm(dim=-1)[1, :, 4].numpy()
    weights = (layer.coupling * layer.present[..., None])[1, :, 4].numpy()
    edges = found["vote_distances_zoomed_edges"].numpy()
    expected, _ = np.histogram(distances, bins=edges, weights=weights)
    assert found["vote_distances_zoomed"][1, 1, 4].numpy() == pytest.approx(expected, abs=1e-4)


def test_votes_gather_where_weight_is_near_the_right_class():
    """Two children and three classes: half of the weight for the right class lies nearest after the last iteration."""
    distances = torch.tensor([[[1.0, 2.0, 3.0], [4.0, 1.0, 9.0]]])
    spread = torch.full((1, 2, 3), 0.25)
    drawn = torch.tensor([[[0.6, 0.2, 0.0], [0.2, 0.2, 0.3]]])
    labels = torch.tensor([0])
    first, last = gathered([(distances, spread), (distances, drawn)], labels)
    assert last == pytest.approx(100 * (0.6 - 0.2 / 2) / 1.5)
    assert first == pytest.approx(100 * (0.25 - 0.25 / 2) / 1.5)


def test_gathering_is_that_of_the_class_capsules(measured):
    found, network = measured
    test = load("mnist5k").test
    some = test.at(torch.linspace(0, len(test) - 1, 16).round().long())
    apart = []
    for iterations in (1, 2):
        layer = trace(network, some.pixels.float() / 255, iterations).layers[0]
        apart.append(
            (
                (layer.votes.dense() - layer.capsules.poses[:, None]).norm(dim=-1).detach(),
                layer.coupling * layer.present[..., None],
            )
        )
    expected = gathered(apart, some.labels)
    assert [value(found, "gathered", test_iterations=number) for number in (1, 2)] == pytest.approx(expected, rel=1e-4)
    assert {each.test_iterations for each in found.metrics if each.metric == "gathered"} == {1, 2}  # as trained


@pytest.mark.parametrize("method", ["uniform", "none", "random"])
def test_methods_without_iterations_have_coupling_and_no_residual(method):
    found = Sparsity().measure(request(method, None), OPTIONS, Untrained())
    assert {"t_score", "hoyer"} <= {each.metric for each in found.metrics}
    assert "residual" not in {each.metric for each in found.metrics}


def test_a_network_without_capsules_has_class_scores_only():
    found = Sparsity().measure(request(None, None, "cnn-small"), OPTIONS, Untrained())
    by_layer = [each for each in found.metrics if each.metric != "right_answers"]
    assert {(each.where["layer"], each.where["of"]) for each in by_layer} == {("classes", "activation")}


def test_data_without_an_image_of_one_class_is_refused_and_one_such_image_is_enough():
    pixels, labels = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([[True, True], [True, False]])
    images = Images(pixels, labels)
    Sparsity().expect(Dataset("some", ("a", "b"), images, images, images, "f", "here"))
    pairs = images.at(torch.tensor([0]))
    with pytest.raises(UserError, match="show one class alone, got pairs"):
        Sparsity().expect(Dataset("pairs", ("a", "b"), pairs, pairs, pairs, "f", "here"))


def test_layers_have_names():
    assert layer_names(2) == ["primary", "classes"]
    assert layer_names(3) == ["primary", "middle", "classes"]
    assert layer_names(4) == ["primary", "middle-1", "middle-2", "classes"]
    assert layer_names(0) == []
