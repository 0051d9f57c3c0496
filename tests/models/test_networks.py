"""What holds of every network with every routing method."""

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build, options_of, set_iterations, set_progress
from routebench.models.facts import facts
from routebench.models.network import count_parameters, routing_methods
from routebench.registry import models, routing
from routebench.routing import hyperparameters_of
from tests import first_calls
from tests.references.problem import assert_close

SHAPE = (1, 28, 28)
OF_IMAGES = [name for name in models if models[name].facts.takes == "images" and not name.startswith("part-")]
"""All but those for constellations and for tokens, which have tests of their own."""
ROUTED = [name for name in OF_IMAGES if models[name].facts.routed and not models[name].facts.unsupervised]
PLAIN = [name for name in OF_IMAGES if not models[name].facts.routed and not models[name].facts.unsupervised]
LIGHT = [name for name in OF_IMAGES if (models[name].facts.stated_parameters or 0) < 1e6]
SMALL = [
    *(("capsnet-small", method) for method in routing),
    *((name, models[name].facts.method) for name in LIGHT if name.startswith("tsai-small") and name in ROUTED),
]
ALL = [*SMALL, ("capsnet", "dynamic"), *((name, None) for name in PLAIN if name in LIGHT)]

UNREACHED = {"self-routing": {"layers.0.weight"}}
"""Its activations are gates of the poses below; votes make poses, which in the last layer only a decoder reads."""


def network_of(model, method, shape=SHAPE, **params):
    return build(model, shape=shape, classes=10, method=method, method_params=params)


def ids(pairs):
    return [f"{model}-{method}" for model, method in pairs]


@pytest.mark.parametrize(("model", "method"), ALL, ids=ids(ALL))
def test_an_image_is_judged_the_same_alone_and_in_a_batch(model, method):
    network = network_of(model, method).double().eval()
    images = torch.rand(3, *SHAPE, dtype=torch.float64)
    with torch.no_grad():
        together = network(images)
        alone = [network(image[None]) for image in images]
    assert_close(torch.cat([output.scores for output in alone]), together.scores)
    assert_close(torch.cat([output.logits for output in alone]), together.logits)


@pytest.mark.parametrize(("model", "method"), ALL, ids=ids(ALL))
def test_scores_are_probabilities_of_every_class(model, method):
    with torch.no_grad():
        output = network_of(model, method)(torch.rand(2, *SHAPE))
    assert tuple(output.scores.shape) == tuple(output.logits.shape) == (2, 10)
    assert bool((output.scores >= 0).all()) and bool((output.scores <= 1).all())


@pytest.mark.parametrize(("model", "method"), SMALL, ids=ids(SMALL))
def test_logits_are_the_log_odds_of_the_scores(model, method):
    with torch.no_grad():
        output = network_of(model, method)(torch.rand(2, *SHAPE))
    assert_close(output.logits.sigmoid(), output.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("model", "method"), SMALL, ids=ids(SMALL))
def test_gradient_reaches_every_parameter(model, method):
    network = network_of(model, method)
    with torch.no_grad():  # a gate that starts at zero would hide what is below it
        for value in network.parameters():
            if not value.any():
                value.normal_(std=0.1)
    output = network(torch.rand(2, *SHAPE))
    (output.scores * torch.randn(2, 10)).sum().backward()
    learned = network.named_parameters()
    unreached = {name for name, value in learned if value.grad is None or not bool(value.grad.abs().sum() > 0)}
    assert unreached == UNREACHED.get(method, set())


@pytest.mark.parametrize("method", routing)
def test_network_without_images_worth_looking_at_stays_finite(method):
    network = network_of("capsnet-small", method)
    for parameter in network.primary.parameters():
        parameter.data.zero_()
    output = network(torch.zeros(2, *SHAPE))
    output.scores.sum().backward()
    assert bool(torch.isfinite(output.logits).all())
    assert all(bool(torch.isfinite(value.grad).all()) for value in network.parameters() if value.grad is not None)


@pytest.mark.parametrize("method", [name for name in routing if "iterations" in hyperparameters_of(name)])
def test_number_of_iterations_can_be_set_afterwards(method):
    few = network_of("capsnet-small", method, iterations=1).eval()
    many = network_of("capsnet-small", method, iterations=4).eval()
    many.load_state_dict(few.state_dict())
    images = torch.rand(2, *SHAPE)
    with torch.no_grad():
        assert not torch.equal(few(images).scores, many(images).scores)
        set_iterations(few, 4)
        assert torch.equal(few(images).scores, many(images).scores)


def test_setting_iterations_leaves_methods_without_iterations_alone():
    network = network_of("capsnet-small", "uniform")
    set_iterations(network, 4)
    assert not hasattr(routing_methods(network)[0], "iterations")


def test_progress_reaches_every_routing_method():
    network = network_of("capsnet-small", "em")
    set_progress(network, 0.25)
    assert [method.progress for method in routing_methods(network)] == [0.25]


@pytest.mark.parametrize("method", routing)
def test_weights_survive_saving_and_loading(method):
    one, other = network_of("capsnet-small", method).eval(), network_of("capsnet-small", method).eval()
    images = torch.rand(2, *SHAPE)
    other.load_state_dict(one.state_dict())
    with torch.no_grad():
        assert torch.equal(one(images).scores, other(images).scores)


@pytest.mark.parametrize(("model", "method"), ALL, ids=ids(ALL))
def test_the_seed_fixes_the_initial_weights(model, method):
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(torch.cat([value.flatten() for value in network_of(model, method).parameters()]).detach())
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize("model", [*ROUTED, *PLAIN])
def test_colour_images_of_another_size_are_taken(model):
    with torch.device("cpu" if model in LIGHT else "meta"), torch.no_grad():  # on meta there are shapes, but no numbers
        network = network_of(model, None if model in PLAIN else "uniform", shape=(3, 20, 24))
        for method in routing_methods(network):
            method._trusted = model not in LIGHT  # else it looks whether numbers are finite
        assert tuple(network(torch.rand(2, 3, 20, 24)).scores.shape) == (2, 10)


@pytest.mark.parametrize("model", [*ROUTED, *PLAIN])
def test_images_that_are_too_small_are_refused(model):
    with pytest.raises(UserError, match="8 x 8 are too small"), torch.device("meta"):
        network_of(model, None if model in PLAIN else "uniform", shape=(1, 8, 8))


@pytest.mark.parametrize(
    "shape", [(1, 28.0, 28), (-1, 28, 28), (0, 28, 28), "abc", 28, (28,), (1, 1, 28, 28), (True, 28, 28)]
)
def test_what_is_no_shape_is_refused_in_one_line(monkeypatch, shape):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    with pytest.raises(UserError, match=r"expected a shape, .*, got "):
        build("capsnet-small", shape=shape, classes=10, method="uniform")


@pytest.mark.parametrize(
    ("name", "value"), [("classes", 0), ("classes", 2.5), ("classes", "ten"), ("method_params", [1])]
)
def test_other_arguments_that_cannot_be_are_refused_in_one_line(monkeypatch, name, value):
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    given = {"shape": (1, 28, 28), "classes": 10, "method": "uniform", name: value}
    with pytest.raises(UserError, match=rf"{name}: expected .*, got "):
        build("capsnet-small", **given)


@pytest.mark.parametrize("model", ROUTED)
def test_capsule_network_needs_a_routing_method(model):
    with pytest.raises(UserError, match="needs a routing method"):
        network_of(model, None)


@pytest.mark.parametrize("model", PLAIN)
def test_network_without_capsules_takes_no_routing_method(model):
    with pytest.raises(UserError, match="takes no routing method"):
        network_of(model, "dynamic")


def test_unknown_argument_of_a_model_suggests_the_right_one():
    with pytest.raises(UserError, match="did you mean 'decoder'"):
        build("capsnet", shape=SHAPE, classes=10, method="dynamic", decodr=True)


def test_arguments_behind_two_stars_are_for_a_plug_in_to_know(monkeypatch):
    @facts(source="none", routed=False)
    def open_to_all(shape, classes, **options):
        return torch.nn.Linear(options["width"], classes)

    monkeypatch.setitem(models.entries, "open-to-all", open_to_all)
    assert build("open-to-all", shape=SHAPE, classes=10, width=3).in_features == 3


NOT_EXACT = {"matrix-capsules": 0.025, "matrix-capsules-68k": 0.015, "smallnorb-cnn": 0.015}
"""Where a paper's own sizes give another count than it states: by how much."""


@pytest.mark.parametrize("model", [name for name in models if models[name].facts.stated_parameters])
def test_parameter_count_is_the_published_one_to_two_digits(model):
    known = models[model].facts
    with torch.device("meta"):  # counted, not drawn
        network = build(model, shape=known.shape, classes=known.classes, method=known.method if known.routed else None)
    assert count_parameters(network) == pytest.approx(known.stated_parameters, rel=NOT_EXACT.get(model, 0.007))


@pytest.mark.parametrize("model", [name for name in models if models[name].facts.unsupervised])
def test_an_unsupervised_network_has_an_objective_and_features_of_every_image(model):
    method = models[model].facts.method if models[model].facts.routed else None
    network = build(model, shape=SHAPE, classes=10, method=method).eval()
    images = torch.rand(3, *SHAPE)
    loss = network.objective(images, torch.Generator().manual_seed(0))
    assert loss.shape == () and bool(torch.isfinite(loss))
    with torch.no_grad():
        together, alone = network.features(images), network.features(images[1:2])
    assert all(values.ndim == 2 and len(values) == 3 for values in together.values())
    for name, values in alone.items():
        assert_close(values, together[name][1:2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", models)
def test_model_names_its_source(model):
    assert models[model].facts.source


WRONG = ("misspelt", -1, -0.5, 1.5, True, None, [], 10**400)


@pytest.mark.parametrize("name", sorted(models))
def test_a_value_that_an_option_cannot_have_is_refused_before_anything_is_built(name):
    known = models[name].facts
    for option, (legal, _) in options_of(name).items():
        for wrong in (one for one in WRONG if not legal.fits(one)):
            with pytest.raises(UserError, match=option):
                build(
                    name,
                    shape=known.shape,
                    classes=known.classes,
                    method=known.method if known.routed else None,
                    **{option: wrong},
                )


@pytest.mark.parametrize("iterations", [0, -5, True, 1.5, "2"])
def test_a_number_of_iterations_that_is_none_is_refused(monkeypatch, iterations):
    monkeypatch.setattr(first_calls, "CHECKED", 0)  # as in a run, where nothing looks at annotations
    with pytest.raises(ValueError, match="iterations must be an integer of at least 1"):
        set_iterations(torch.nn.Identity(), iterations)


@pytest.mark.parametrize("progress", [float("nan"), 7, -0.1, True])
def test_a_progress_that_is_no_share_is_refused(monkeypatch, progress):
    monkeypatch.setattr(first_calls, "CHECKED", 0)
    with pytest.raises(ValueError, match="progress must be a number from 0 to 1"):
        set_progress(torch.nn.Identity(), progress)
