"""What the protocol says of models that learn without labels is what they do."""

import pytest
import torch

from routebench.errors import UserError
from routebench.papers.smith.models.duplicates import duplicates
from routebench.papers.smith.models.probabilistic.health import health
from routebench.papers.smith.protocols.generation import TURNS, Generation
from tests.protocols import small_digits
from tests.protocols.small_digits import SMALL, Untrained, few, request_of

OPTIONS = {"angles": [180], "images": 6, "probe_images": 40, "steps": 20, "optimiser": "adam", "learning_rate": 0.05}
MODELS = ("generative-capsules-small", "scae-small", "vae", "top-down-capsules")


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        small_digits.register(patch)
        yield {model: Generation().measure(request(model), OPTIONS, Untrained()) for model in MODELS}


def request(model):
    return request_of(None, None, model)


def values(found, metric, **where):
    return [each.value for each in found.metrics if each.metric == metric and where.items() <= each.where.items()]


def network(model, monkeypatch):
    small_digits.register(monkeypatch)
    return Untrained().fit(request(model)).network


@pytest.mark.parametrize("model", MODELS)
def test_reconstruction_error_is_that_of_all_test_images(model, measured, monkeypatch):
    images = few(SMALL, "mnist5k").test.pixels.float() / 255
    with torch.no_grad():
        gaps = network(model, monkeypatch).reconstruction(images) - images
    (found,) = values(measured[model], "reconstruction_error", angle=0)
    assert found == pytest.approx(float(gaps.square().sum(dim=(1, 2, 3)).mean()), rel=1e-4)
    assert len(values(measured[model], "reconstruction_error")) == 2


@pytest.mark.parametrize("model", ["generative-capsules-small", "scae-small"])
def test_shares_of_templates_are_those_that_are_seen(model, measured, monkeypatch):
    images = few(SMALL, "mnist5k").test.pixels.float() / 255
    with torch.no_grad():
        seen = network(model, monkeypatch).visible(images).sum(dim=(2, 3))
    expected = health(seen, torch.rand(len(seen), 3))
    found = measured[model]
    assert values(found, "template_share") == pytest.approx([100 * expected.largest], rel=1e-3)
    assert values(found, "dead_templates") == [expected.dead]
    assert values(found, "duplicate_templates") == [duplicates(torch.as_tensor(network(model, monkeypatch).templates))]
    assert values(found, "effective_templates") == pytest.approx([expected.effective], rel=1e-3)
    drawn = float((seen.sum(dim=1) > 0).double().mean())  # nothing is like nothing by a cosine of 0
    assert values(found, "template_reuse", angle=0) == pytest.approx([drawn])
    assert drawn == 0 or values(found, "template_reuse", angle=180)[0] < 1
    assert found.arrays["turned_parts"].shape[:2] == (len(TURNS), seen.shape[1])


def test_terms_of_the_bound_add_up(measured):
    found = measured["generative-capsules-small"]
    terms = [values(found, "bound", term=term)[0] for term in ("pixels", "parts", "objects")]
    assert values(found, "bound", term="total") == pytest.approx([sum(terms)])
    assert values(found, "generative_parameters") == [6928]


def test_free_form_inference_raises_the_bound_and_is_timed(measured):
    found = measured["generative-capsules-small"]
    for angle in (0, 180):
        before, after = (
            values(found, "free_form_bound", inference=name, angle=angle)[0] for name in ("encoder", "free-form")
        )
        assert after > before
        quick, slow = (
            values(found, "seconds_per_image", inference=name, angle=angle)[0] for name in ("encoder", "free-form")
        )
        assert 0 < quick < slow
        for name in ("encoder", "free-form"):
            for probe in ("free_form_accuracy", "refitted_accuracy", "refitted_both_accuracy", "reencoded_accuracy"):
                assert 0 <= values(found, probe, inference=name, angle=angle)[0] <= 100
        free, encoder = (
            values(found, "free_form_accuracy", inference=name, angle=angle)[0] for name in ("free-form", "encoder")
        )
        assert values(found, "free_form_gain", angle=angle)[0] == pytest.approx(free - encoder)
        of_encoder = {"inference": "encoder", "angle": angle}  # whose parts are what its objects were encoded from
        assert values(found, "reencoded_accuracy", **of_encoder) == values(found, "free_form_accuracy", **of_encoder)
    assert found.arrays["turned_free_form"].shape == found.arrays["turned"].shape


def test_generative_capsules_say_what_presences_tell_and_make_images_again(measured):
    found = measured["generative-capsules-small"]
    for kind in ("logits", "drawn"):
        assert 0 <= values(found, "presence_accuracy", presences=kind)[0] <= 100
    assert values(found, "presence_spread")[0] > 0
    samples, again = found.arrays["samples"], found.arrays["samples_again"]
    assert samples.shape[1:] == again.shape[1:] and len(again) == 32 and not torch.equal(samples, again)


def test_models_without_parts_say_nothing_of_them(measured):
    for model in ("vae", "top-down-capsules"):
        assert not values(measured[model], "template_share") and not values(measured[model], "bound")
        assert "turned_parts" not in measured[model].arrays
    assert "samples" in measured["top-down-capsules"].arrays


def test_no_images_no_free_form(monkeypatch):
    small_digits.register(monkeypatch)
    found = Generation().measure(request("generative-capsules-small"), {"images": 0}, Untrained())
    assert not values(found, "free_form_bound") and "turned_free_form" not in found.arrays


def test_a_network_that_draws_nothing_is_refused(monkeypatch):
    small_digits.register(monkeypatch)
    with pytest.raises(UserError, match="expected a model that reconstructs images, got cnn-small"):
        Generation().measure(request_of(None, None, "cnn-small"), OPTIONS, Untrained())
