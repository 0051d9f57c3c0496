"""Stacked capsule autoencoders as a whole: parameters, every option, features, noise, and where gradients go."""

import math

import pytest
import torch

from routebench.errors import UserError
from routebench.models import build
from routebench.models.network import count_parameters
from routebench.papers.smith.models.stacked.model import CODE, PAPER, weights_of
from routebench.papers.smith.models.stacked.per_capsule import PerCapsuleMLP
from tests.references.problem import assert_close

SHAPE = (1, 28, 28)
TINY = {"parts": 5, "objects": 4, "width": 6, "features": 3, "template": 5, "encoded": 8, "parameters": 7, "hidden": 9}


def network(seed=0, name="scae-small", **options):
    torch.manual_seed(seed)
    return build(name, shape=SHAPE, classes=10, **{**TINY, **options})


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def digits(count=3, seed=1):
    return torch.rand(count, *SHAPE, generator=generator(seed))


def test_every_capsule_has_a_network_of_its_own():
    networks = PerCapsuleMLP(3, (4, 5, 2), last_bias=False)
    networks.biases[0].data.normal_(generator=generator())
    rows = torch.randn(7, 3, 4, generator=generator())
    for k in range(3):
        hidden = (rows[:, k] @ networks.weights[0][k] + networks.biases[0][k]).relu()
        assert_close(networks(rows)[:, k], hidden @ networks.weights[1][k], rtol=1e-4, atol=1e-5)
    assert count_parameters(networks) == 3 * (4 * 5 + 5 + 5 * 2)


def counted(*, parts, objects, width, encoded, hidden, places, features=16, template=11, numbers=32):
    """Parameters of `scae` for images of one channel; `places` that the last convolution leaves."""
    convolutions = (9 * width + width) + 3 * (9 * width * width + width) + places * width
    heads = (width + 1) * parts * (6 + features + 1) + (width + 1) * parts
    decoder = 2 * parts * template**2 + 2 + (features + 1) * 32 + 32 + 1
    block = 4 * (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16) + 2 * 2 * 16
    encoder = (6 + 1 + features + template**2 + 1) * 16 + 3 * block + 17 * encoded
    pooling = objects * encoded + 4 * (encoded + 1) * encoded
    said = 6 + 1 + 2 * parts
    own = (encoded + 1) * hidden + (hidden + 1) * numbers + (numbers + 1 + 1) * hidden + hidden * (6 * parts + said)
    return convolutions + heads + decoder + encoder + pooling + objects * (own + said + 6 * parts)


def test_parameters_are_counted_by_arithmetic():
    sizes = {"parts": 24, "objects": 24, "width": 128, "encoded": 256, "hidden": 128, "places": 2 * 2}
    assert count_parameters(build("scae", shape=SHAPE, classes=10)) == counted(**sizes) == 2_417_019
    larger = {**sizes, "parts": 40, "objects": 32, "places": 5 * 5}
    script = build("scae", shape=(1, 40, 40), classes=10, parts=40, objects=32)
    assert count_parameters(script) == counted(**larger) == 3_539_923
    small = {"parts": 16, "objects": 24, "width": 32, "encoded": 64, "hidden": 64, "places": 2 * 2}
    assert count_parameters(build("scae-small", shape=SHAPE, classes=10)) == counted(**small) == 486_155


class TestGradients:
    OBJECTS = ("parts", "deformation", "prior_within", "prior_between", "posterior_within", "posterior_between")

    def reached(self, names, **options):
        model = network(**options)
        losses = model.losses(digits(), generator())
        sum(losses[name] for name in names).backward()
        return {
            name for name, value in model.named_parameters() if value.grad is not None and value.grad.abs().sum() > 0
        }

    def test_reach_every_parameter_and_are_finite_for_one_image(self):
        model = network()
        model.objective(digits(1), generator()).backward()
        for name, parameter in model.named_parameters():
            assert bool(torch.isfinite(parameter.grad).all()), name
            # Adding one number to all logits of a softmax changes nothing, and nor does it to all members of a set.
            known = {"object_encoder.key.bias", *(f"object_encoder.layers.{k}.block.key_value.bias" for k in range(3))}
            assert name in known or name == "part_encoder.pooling.attention.bias" or parameter.grad.abs().sum() > 0, (
                name
            )

    def test_of_objects_do_not_reach_the_parts(self):
        reached = self.reached(self.OBJECTS, stop="all")
        assert reached and all(name.startswith("object_") for name in reached)

    def test_of_objects_reach_special_features_alone_as_in_the_code(self):
        model, images = network(), digits()
        parts = model.part_encoder(images, generator())
        for value in (parts.poses, parts.presences, parts.features):
            value.retain_grad()
        model.part_encoder.forward = lambda *_: parts
        losses = model.losses(images, generator())
        sum(losses[name] for name in self.OBJECTS).backward()
        assert parts.poses.grad is None and parts.presences.grad is None
        assert bool(parts.features.grad.abs().sum() > 0)
        assert model.part_decoder.logits.grad is None

    def test_of_objects_reach_all_that_is_seen_where_nothing_stops(self):
        reached = self.reached(self.OBJECTS, stop="nothing")
        assert {"part_decoder.logits", "part_decoder.colour.0.weight", "part_encoder.pooling.places"} <= reached

    def test_of_pixels_do_not_reach_the_objects(self):
        reached = self.reached(["pixels"])
        assert reached and all(name.startswith("part_") for name in reached)


CHANGED = {
    "weights": "paper",
    "noise": 1.0,
    "places": False,
    "coloured": False,
    "weighed": False,
    "deviation": 0.2,
    "gain": 3.0,
    "mask": "code",
    "stop": "nothing",
    "normalised": False,
    "clutter": 0.1,
    "batch": None,
    "set_layers": 2,
    "set_width": 8,
    "set_heads": 2,
    **{name: size + 1 for name, size in TINY.items()},
}


class TestOptions:
    @pytest.mark.parametrize("name", CHANGED)
    def test_each_changes_the_objective_or_its_gradient(self, name):
        found = []
        for options in ({}, {name: CHANGED[name]}):
            model = network(**options)
            if model.part_encoder.pooling.places is not None:
                model.part_encoder.pooling.places.data.normal_(generator=generator())
            loss = model.objective(digits(), generator())
            loss.backward()
            found.append((loss.item(), model.part_decoder.logits.grad.sum().item()))
        assert found[0] != pytest.approx(found[1], rel=1e-7)

    def test_gain_leaves_the_start_as_it_is_and_slopes_so_many_times_as_steep(self):
        one, other = network(gain=1.0), network(gain=4.0)
        losses = [model.losses(digits(), generator())["pixels"] for model in (one, other)]
        assert_close(losses[0], losses[1], rtol=1e-6)
        for loss in losses:
            loss.backward()
        for name in ("logits", "alphas", "ground"):
            slopes = [getattr(model.part_decoder, name).grad for model in (one, other)]
            assert_close(4 * slopes[0], slopes[1], rtol=1e-3, atol=1e-5)

    def test_presences_count_in_attention_in_three_ways(self):
        found = [network(mask=mask).eval().features(digits())["prior"] for mask in ("log", "code", "none")]
        assert not torch.allclose(found[0], found[1]) and not torch.allclose(found[0], found[2])
        assert not torch.allclose(found[1], found[2])

    def test_weights_are_those_of_the_code_of_the_paper_or_numbers(self):
        assert network().weights == CODE == weights_of("code") == weights_of({})
        assert (CODE.prior_within, CODE.prior_between, CODE.posterior_within, CODE.posterior_between) == (
            2,
            0.35,
            0.7,
            0.2,
        )
        assert (PAPER.prior_within, PAPER.prior_between, PAPER.posterior_within, PAPER.posterior_between) == (
            1,
            1,
            10,
            10,
        )
        assert network().objects_per_image == 4.3
        assert network(weights="paper").objects_per_image == 0.4  # 4 objects, 10 classes
        assert (
            weights_of({"deformation": 3.0}).deformation == 3.0 and weights_of({"deformation": 3.0}).prior_within == 2
        )

    @pytest.mark.parametrize(
        "name",
        [
            "part_likelihood",
            "deformation",
            *(f"{a}_{b}" for a in ("prior", "posterior") for b in ("within", "between")),
        ],
    )
    def test_each_weight_multiplies_its_loss(self, name):
        of = {"part_likelihood": "parts"}.get(name, name)
        base, other = (network(weights={name: weight}).losses(digits(), generator()) for weight in (1.0, 3.0))
        assert_close(3 * base[of], other[of], rtol=1e-5, atol=1e-6)
        assert all(torch.equal(base[key], other[key]) for key in base if key != of)

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"weights": "papre"}, "expected weights to be code, paper or a table of numbers, got 'papre'"),
            ({"weights": {"prior_witin": 1.0}}, "unknown loss 'prior_witin'.*'prior_within'"),
            ({"mask": "soft"}, "mask must be one of log, code, none, got 'soft'"),
            ({"deviation": 0.01}, "deviation must be a number of at least 0.1, got 0.01"),
            ({"stop": "some"}, "stop must be one of poses, all, nothing, got 'some'"),
            *(
                ({name: 0}, f"{name} must be an integer of at least 1, got 0")
                for name in ("parts", "objects", "width", "template", "set_width", "set_heads", "encoded", "parameters")
            ),
            ({"hidden": 0}, "hidden must be an integer of at least 1, got 0"),
            ({"batch": 0}, "batch must be an integer of at least 1, or none, got 0"),
            ({"set_layers": -1}, "set_layers must be an integer of at least 0, got -1"),
            ({"gain": 0}, "gain must be a number above 0, got 0"),
            ({"clutter": 0}, "clutter must be a number above 0, got 0"),
            ({"noise": -4}, "noise must be a number of at least 0, got -4"),
            ({"weights": {"deformation": -5}}, "deformation must be a number of at least 0, got -5"),
            ({"deviaton": 1.0}, "unknown argument 'deviaton'; did you mean 'deviation'"),
        ],
        ids=str,
    )
    def test_what_is_not_known_is_refused(self, options, says):
        with pytest.raises(UserError, match=says):
            network(**options)

    @pytest.mark.parametrize("asked", [{"by": "foo"}, {"of": "foo"}], ids=str)
    def test_a_reconstruction_that_is_not_known_is_refused(self, asked):
        with pytest.raises(ValueError, match=r"(by|of) must be one of \w+, \w+, got 'foo'"):
            network().reconstruction(digits(), **asked)


class TestFeatures:
    def test_are_presences_between_0_and_1(self):
        found = network(name="scae-small").eval().features(digits(4))
        assert {name: tuple(values.shape) for name, values in found.items()} == {"prior": (4, 4), "posterior": (4, 4)}
        for values in found.values():
            assert bool((values >= 0).all()) and bool((values <= 1).all()) and bool((values > 0).any())

    def test_do_not_depend_on_the_rest_of_the_batch_and_are_not_noisy(self):
        model, images = network().double().eval(), digits(4).double()
        together, alone = model.features(images), model.features(images[2:3])
        for name, values in alone.items():
            assert_close(values, together[name][2:3])
            assert torch.equal(model.features(images)[name], together[name])

    def test_prior_is_the_greatest_presence_of_a_part_of_the_object(self):
        model = network().eval()
        said = model.see(digits()).predictions
        assert_close(model.features(digits())["prior"], said.presences.exp().max(dim=2).values)

    def test_objects_reconstruct_with_the_poses_that_winners_say(self):
        model, images = network().eval(), digits(2)
        model.part_decoder.ground.data.fill_(-9.0)
        model.part_decoder.alphas.data.fill_(5.0)  # templates before the ground
        by_parts, by_objects = model.reconstruction(images), model.reconstruction(images, by="objects")
        assert by_parts.shape == by_objects.shape == images.shape
        assert not torch.allclose(by_parts, by_objects)
        with torch.no_grad():
            seen = model.see(images)
            for image in range(2):
                for part in range(5):
                    best = int(seen.explanation.responsibilities[image, :, part].argmax())
                    seen.parts.poses[image, part] = seen.predictions.poses[image, best, part]
            assert_close(model.part_decoder.picture(seen.parts), by_objects)


class TestNoise:
    def test_comes_of_the_generator_in_training_alone(self):
        model, images = network(), digits()
        one, same, other = (model.objective(images, generator(seed)).item() for seed in (0, 0, 1))
        assert one == same != other
        torch.manual_seed(3)
        before = torch.get_rng_state()
        model.objective(images, generator())
        assert torch.equal(before, torch.get_rng_state())  # torch's own is not touched
        model.eval()
        assert model.objective(images, generator(0)).item() == model.objective(images, generator(1)).item()

    def test_is_as_wide_as_is_said(self):
        model, images = network(noise=3.0), digits(200)
        with torch.no_grad():
            noisy = model.part_encoder(images, generator()).presences
            away = noisy - model.eval().part_encoder(images).presences
        assert float(away.abs().max()) < 1.5 + 1e-5
        assert float(away.std()) == pytest.approx(3 / math.sqrt(12), rel=0.1)


def test_images_of_another_shape_are_taken():
    for shape in [(3, 32, 32), (1, 40, 40)]:
        torch.manual_seed(0)
        model = build("scae-small", shape=shape, classes=10, **TINY)
        images = torch.rand(2, *shape, generator=generator())
        assert bool(torch.isfinite(model.objective(images, generator())))
        assert model.reconstruction(images).shape == images.shape


def test_visible_parts_add_up_to_the_picture_without_its_ground():
    network = build("scae-small", shape=SHAPE, classes=10).eval()
    images = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        network.part_decoder.ground.fill_(-1e4)  # black
        visible, picture = network.visible(images), network.reconstruction(images)
    assert visible.shape[:2] == (3, network.templates.shape[0])
    assert torch.allclose(visible.sum(dim=1), picture[:, 0], atol=1e-6)
