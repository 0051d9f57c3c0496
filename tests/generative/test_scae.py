"""Stacked capsule autoencoders: every likelihood and loss against plain loops, every option, and where gradients go."""

import math

import pytest
import torch

from routebench.errors import UserError
from routebench.generative.affine_poses import after, pose_of
from routebench.generative.per_capsule import PerCapsuleMLP
from routebench.generative.scae import CODE, PAPER, weights_of
from routebench.generative.scae_object_decoder import Predictions
from routebench.generative.scae_part_decoder import PartDecoder
from routebench.generative.scae_part_encoder import Parts
from routebench.generative.scae_part_likelihood import explain
from routebench.generative.scae_sparsity import posterior_sparsity, prior_sparsity
from routebench.generative.templates import warp
from routebench.models import build
from routebench.models.network import count_parameters
from tests.references import scae as plain
from tests.references.problem import assert_close

SHAPE = (1, 28, 28)
TINY = {"parts": 5, "objects": 4, "width": 6, "features": 3, "template": 5, "encoded": 8, "parameters": 7, "hidden": 9}
NOBODY = {"normalised": True, "clutter": 0.01}


def network(seed=0, name="scae-small", **options):
    torch.manual_seed(seed)
    return build(name, shape=SHAPE, classes=10, **{**TINY, **options})


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def digits(count=3, seed=1):
    return torch.rand(count, *SHAPE, generator=generator(seed))


def spread(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def made_up(batch, objects=4, parts=5, seed=0):
    """Parts and what objects say of them, near enough to each other that none explains all."""
    poses = spread(batch, parts, 2, 3, seed=seed)
    seen = Parts(poses, spread(batch, parts, seed=seed + 1), spread(batch, parts, 3, seed=seed + 2))
    said = Predictions(
        poses=poses[:, None] + 0.5 * spread(batch, objects, parts, 2, 3, seed=seed + 3),
        deviations=0.3 + spread(batch, objects, parts, seed=seed + 4).sigmoid(),
        presences=torch.nn.functional.logsigmoid(spread(batch, objects, parts, seed=seed + 5)),
        deformation=torch.zeros(batch, dtype=torch.float64),
    )
    return seen, said


def in_loops(seen, said, image, **options):
    arguments = seen.poses.flatten(2), seen.presences.sigmoid(), said.poses.flatten(3), said.deviations
    return plain.explained(*(each[image].tolist() for each in (*arguments, said.presences.exp())), **options)


class TestPartLikelihood:
    @pytest.mark.parametrize("normalised", [True, False])
    @pytest.mark.parametrize("batch", [1, 3])
    def test_is_that_of_plain_loops(self, batch, normalised):
        seen, said = made_up(batch)
        found = explain(seen, said, normalised=normalised, clutter=0.02)
        for image in range(batch):
            likely, posterior = in_loops(seen, said, image, normalised=normalised, clutter=0.02)
            assert found.log_likelihood[image].item() == pytest.approx(likely, rel=1e-10)
            assert_close(found.responsibilities[image], torch.tensor(posterior, dtype=torch.float64))
            assert 0.01 < max(map(max, posterior)) < 1 - 1e-9

    def test_gradients_are_those_of_small_steps_in_plain_loops(self):
        seen, said = made_up(1, objects=2, parts=2)
        poses, deviations, presences = (
            value.clone().requires_grad_() for value in (said.poses, said.deviations, said.presences)
        )
        explain(
            seen, Predictions(poses, deviations, presences, said.deformation), **NOBODY
        ).log_likelihood.sum().backward()

        def moved(name, place, step):
            values = {name: getattr(said, name).clone() for name in ("poses", "deviations", "presences")}
            values[name].view(-1)[place] += step
            return in_loops(seen, Predictions(**values, deformation=said.deformation), 0, **NOBODY)[0]

        for name, value in (("poses", poses), ("deviations", deviations), ("presences", presences)):
            for place in range(value.numel()):
                slope = (moved(name, place, 1e-6) - moved(name, place, -1e-6)) / 2e-6
                assert value.grad.view(-1)[place].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)

    def test_stays_finite_where_no_object_is_near_and_none_is_there(self):
        seen, said = made_up(2)
        far = Predictions(said.poses + 1e3, said.deviations * 0 + 0.01, said.presences - 1e3, said.deformation)
        found = explain(seen, far, **NOBODY)
        assert_close(found.log_likelihood, seen.presences.sigmoid().sum(dim=1) * math.log(0.01))
        assert not found.responsibilities.any()

    def test_posterior_presences_are_expected_shares_of_parts(self):
        seen, said = made_up(3)
        found = explain(seen, said, **NOBODY)
        assert_close(found.posterior() * 5, found.responsibilities.sum(dim=2))
        assert bool((found.posterior().sum(dim=1) < 1).all())


class TestSparsity:
    @pytest.mark.parametrize(("batch", "images"), [(1, None), (1, 128), (6, None), (6, 128)])
    def test_prior_losses_are_those_of_plain_loops(self, batch, images):
        presences = spread(batch, 4).sigmoid()
        wanted = {"objects_per_image": 1.3, "share": 0.1, "images": images}
        found = prior_sparsity(presences, **wanted)
        assert [found.within.item(), found.between.item()] == pytest.approx(
            plain.prior_losses(presences.tolist(), **wanted), rel=1e-10
        )

    @pytest.mark.parametrize("batch", [1, 6])
    def test_posterior_losses_are_those_of_plain_loops(self, batch):
        presences = spread(batch, 4).sigmoid()
        found = posterior_sparsity(presences)
        assert [found.within.item(), found.between.item()] == pytest.approx(
            plain.posterior_losses(presences.tolist()), rel=1e-7
        )

    def test_gradients_are_those_of_small_steps(self):
        presences = spread(3, 4).sigmoid().requires_grad_()
        wanted = {"objects_per_image": 1.3, "share": 0.1, "images": 128}
        for losses in (lambda given: prior_sparsity(given, **wanted), posterior_sparsity):
            assert torch.autograd.gradcheck(lambda given, of=losses: (of(given).within, of(given).between), presences)

    def test_presences_of_exactly_nothing_give_finite_gradients(self):
        presences = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
        found = posterior_sparsity(presences)
        (found.within + found.between).backward()
        assert found.within.item() == pytest.approx(0, abs=1e-6)
        assert bool(torch.isfinite(presences.grad).all())

    def test_between_examples_does_not_depend_on_how_often_a_batch_is_repeated(self):
        presences = spread(3, 4).sigmoid()
        wanted = {"objects_per_image": 1.3, "share": 0.1}
        one, twice = (prior_sparsity(given, images=128, **wanted) for given in (presences, presences.repeat(2, 1)))
        assert_close(one.between, twice.between)
        raw = prior_sparsity(presences.repeat(2, 1), images=None, **wanted)
        assert_close(raw.between, 4 * prior_sparsity(presences, images=None, **wanted).between)


class TestPoses:
    def test_are_scales_shears_turns_and_shifts(self):
        numbers = spread(6)
        scale_x, scale_y, turns, shear, x, y = numbers.tolist()
        scale_x, scale_y = (1 / (1 + math.exp(-scale)) + 0.01 for scale in (scale_x, scale_y))
        angle = 2 * math.pi * turns
        turned = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        scaled = torch.tensor([[scale_x, math.tanh(5 * shear) * scale_y], [0, scale_y]])
        expected = torch.cat([scaled @ turned, torch.tensor([[math.tanh(5 * x)], [math.tanh(5 * y)]])], dim=1)
        assert_close(pose_of(numbers), expected.double(), rtol=1e-5, atol=1e-6)

    def test_one_after_another_is_a_product_of_matrices(self):
        outer, inner = spread(3, 1, 2, 3), spread(1, 4, 2, 3, seed=1)
        below = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        whole = [torch.cat([each, below.expand(*each.shape[:-2], 1, 3)], dim=-2) for each in (outer, inner)]
        assert_close(after(outer, inner), (whole[0] @ whole[1])[..., :2, :])


class TestPartDecoder:
    def decoder(self, **options):
        torch.manual_seed(0)
        sizes = {"parts": 3, "features": 2, "template": 4, "coloured": True, "weighed": True, "deviation": 1.0}
        made = PartDecoder((1, 6, 5), **{**sizes, **options}).double()
        for value in made.parameters():
            value.data += 0.5 * torch.randn_like(value)
        return made

    def parts(self, batch=2):
        poses = pose_of(0.3 * spread(batch, 3, 6) + torch.tensor([1.0, 1, 0, 0, 0, 0]))
        return Parts(poses, spread(batch, 3, seed=1), spread(batch, 3, 2, seed=2))

    @pytest.mark.parametrize("batch", [1, 2])
    @pytest.mark.parametrize("deviation", [1.0, 0.2])
    def test_likelihood_of_pixels_is_that_of_plain_loops(self, batch, deviation):
        decoder, parts = self.decoder(deviation=deviation), self.parts(batch)
        images = spread(batch, 1, 6, 5, seed=3).sigmoid()
        found = decoder.log_likelihood(images, parts)
        moved = warp(decoder.logits.sigmoid(), parts.poses, (6, 5))
        alphas = warp(decoder.alphas, parts.poses, (6, 5))
        for image in range(batch):
            colours = decoder.colour(parts.features[image]).sigmoid()[:, 0]
            templates = (moved[:, image, 0] * colours[:, None, None]).flatten(1)
            weights = (alphas[:, image, 0].exp() * parts.presences[image].sigmoid()[:, None, None]).flatten(1)
            ground = decoder.ground.sigmoid().item(), (1 + decoder.ground_weight.exp()).item()  # exp(softplus(x))
            expected = plain.pixels(
                images[image].flatten().tolist(), templates.tolist(), weights.tolist(), *ground, deviation
            )
            assert found[image].item() == pytest.approx(expected, rel=1e-9)

    def test_colours_before_and_after_moving_are_the_same(self):
        decoder, parts = self.decoder(), self.parts()
        coloured = decoder.coloured(parts)
        for image in range(2):
            one = Parts(*(value[image : image + 1] for value in (parts.poses, parts.presences, parts.features)))
            assert_close(decoder.draw(one).values[:-1], warp(coloured[image], one.poses, (6, 5)))

    def test_pictures_are_of_the_heaviest_and_of_the_mean(self):
        decoder, parts = self.decoder(), self.parts()
        drawing = decoder.draw(parts)
        shares = drawing.weights.exp() / drawing.weights.exp().sum(dim=0)
        assert_close(decoder.picture(parts, of="mean"), sum(shares[k] * drawing.values[k] for k in range(4)))
        mode = decoder.picture(parts)
        for b, y, x in [(0, 0, 0), (0, 3, 2), (1, 5, 4), (1, 2, 3)]:
            best = max(range(4), key=lambda k: drawing.weights[k, b, 0, y, x].item())
            assert mode[b, 0, y, x].item() == drawing.values[best, b, 0, y, x].item()

    def test_templates_start_orthogonal_but_for_their_mean(self):
        torch.manual_seed(0)
        decoder = PartDecoder(SHAPE, parts=24, features=2, template=11, coloured=False, weighed=False, deviation=1.0)
        assert decoder.logits.min().item() == 0 and decoder.logits.max().item() == pytest.approx(1)
        rows = decoder.logits.detach().flatten(1)
        scale = 1 / rows.var(dim=1, unbiased=False).sum().sqrt()
        assert float((rows - rows.mean()).mul(scale).norm()) > 1
        assert torch.linalg.matrix_rank(rows) == 24


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
            ({"mask": "soft"}, "expected mask to be one of log, code, none, got 'soft'"),
            ({"deviation": 0.01}, "deviation must be a number of at least 0.1, got 0.01"),
            ({"stop": "some"}, "expected stop to be one of poses, all, nothing, got 'some'"),
            *(
                ({name: 0}, f"{name} must be an integer of at least 1, got 0")
                for name in ("parts", "objects", "width", "template", "set_width", "set_heads", "encoded", "parameters")
            ),
            ({"hidden": 0}, "hidden must be an integer of at least 1, got 0"),
            ({"batch": 0}, "batch must be an integer of at least 1, got 0"),
            ({"set_layers": -1}, "set_layers must be an integer of at least 0, got -1"),
            ({"gain": 0}, "gain must be a number above 0, got 0"),
            ({"clutter": 0}, "clutter must be a number above 0, got 0"),
            ({"noise": -4}, "noise must be a number of at least 0.0, got -4"),
            ({"weights": {"deformation": -5}}, "deformation must be a number of at least 0.0, got -5"),
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
