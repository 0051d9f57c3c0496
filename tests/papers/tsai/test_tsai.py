"""The networks of Tsai et al. 2020: sizes, grids, one network written out, and what the paper leaves open."""

import math

import pytest
import torch
from torch.nn.functional import conv2d

from routebench.catalogue import catalogue
from routebench.errors import UserError
from routebench.models import build
from routebench.models.backbones import ResidualBlock, Standardise, resnet_backbone
from routebench.models.network import count_parameters
from routebench.registry import models
from tests.references.inverted_attention import layer_norm, update
from tests.references.problem import assert_close, disturb, gradients
from tests.references.votes import every_vote, seen_by

PARAMETERS = {
    ("tsai-simple", 10): 561_809,
    ("tsai-simple-cifar100", 100): 1_464_141,
    ("tsai-resnet", 10): 1_828_817,
    ("tsai-resnet-cifar100", 100): 2_799_629,
    ("tsai-simple-dynamic", 10): 7_992_576,
    ("tsai-simple-dynamic", 100): 31_585_536,
    ("tsai-resnet-dynamic", 10): 12_451_136,
    ("tsai-resnet-dynamic", 100): 36_044_096,
    ("tsai-resnet-dynamic-matched", 10): 6_616_128,
    ("tsai-resnet-dynamic-matched", 100): 30_209_088,
    ("tsai-cnn", 10): 18_919_434,
    ("tsai-cnn", 100): 19_011_684,
    ("resnet18", 10): 11_173_962,
    ("resnet18", 100): 11_220_132,
    ("tsai-multimnist-matrix", 10): 9_964_993,
    ("tsai-multimnist-vector", 10): 42_479_041,
    ("tsai-multimnist-cnn", 10): 19_553_162,
    ("tsai-multimnist-cnn-pooling", 10): 42_490_762,
}
WITHOUT_BETAS = {
    ("tsai-simple-em", 10): 452_896,
    ("tsai-simple-em", 100): 498_976,
    ("tsai-resnet-em", 10): 1_710_432,
    ("tsai-resnet-em", 100): 1_756_512,
}
"""EM routing: the counts of the paper leave the betas out, two for each capsule type above the primary ones."""


def counted(model, classes):
    """The network with the shape and the method of its facts, without memory."""
    known = models[model].facts
    with torch.device("meta"):
        return build(model, shape=known.shape, classes=classes, method=known.method if known.routed else None)


def small(model="tsai-small", method="inverted-attention", shape=(1, 28, 28), **params):
    return build(model, shape=shape, classes=10, method=method, method_params=params)


def poses_of(network, images):
    with torch.no_grad():
        return [tuple(capsules.poses.shape) for capsules in network(images).layers]


class TestSize:
    @pytest.mark.parametrize(("model", "classes"), PARAMETERS)
    def test_parameters_are_those_of_the_paper(self, model, classes):
        assert count_parameters(counted(model, classes)) == PARAMETERS[model, classes]

    @pytest.mark.parametrize(("model", "classes"), WITHOUT_BETAS)
    def test_em_routing_has_the_parameters_of_the_paper_and_its_betas(self, model, classes):
        network = counted(model, classes)
        betas = sum(value.numel() for name, value in network.named_parameters() if "beta_" in name)
        assert betas == 2 * (32 + 32 + classes)
        assert count_parameters(network) == WITHOUT_BETAS[model, classes] + betas

    def test_the_list_of_models_says_the_same(self):
        with_betas = {pair: count + 2 * (64 + pair[1]) for pair, count in WITHOUT_BETAS.items()}
        expected = {**PARAMETERS, **with_betas}
        listed = {one["name"]: one for one in catalogue(kinds=("models",))["models"]}
        for name, one in listed.items():
            if name.startswith(("tsai", "resnet")) and not {"small", "tiny"} & {*name.split("-")}:
                assert one["parameters"] == expected[name, one["counted_for"]["classes"]]

    def test_counting_without_memory_counts_the_same(self):
        assert count_parameters(small()) == count_parameters(counted("tsai-small", 10)) == 43_601

    def test_the_small_convolutional_network_has_the_size_of_the_small_capsule_network(self):
        cnn = count_parameters(counted("tsai-small-cnn", 10))
        assert cnn == pytest.approx(count_parameters(counted("tsai-small", 10)), rel=0.03)

    def test_capsules_and_convolutions_for_several_digits_have_the_same_units(self):
        for size in ("tsai-small-multimnist", "tsai-multimnist"):
            capsules, cnn = counted(f"{size}-matrix", 10), counted(f"{size}-cnn", 10)
            units = [layer.types * layer.pose for layer in (capsules.primary, capsules.layers[0])]
            convolutions = [layer.out_channels for layer in cnn.body if isinstance(layer, torch.nn.Conv2d)]
            assert convolutions == [capsules.features[1].out_channels, *units, 10 * capsules.layers[1].pose]


class TestGrids:
    @pytest.mark.parametrize(("side", "grids"), [(32, (16, 7, 5)), (28, (14, 6, 4)), (13, (7, 3, 1))])
    def test_capsules_lie_on_grids_of(self, side, grids):
        found = poses_of(small(shape=(1, side, side)), torch.rand(1, 1, side, side))
        assert found == [*((1, grid, grid, 8, 16) for grid in grids), (1, 10, 16)]

    def test_several_digits_are_seen_on_8_x_8_and_6_x_6_positions(self):
        network = small("tsai-small-multimnist-vector", shape=(1, 36, 36))
        assert poses_of(network, torch.rand(1, 1, 36, 36)) == [(1, 8, 8, 8, 16), (1, 6, 6, 8, 16), (1, 10, 16)]

    def test_the_residual_backbone_leaves_16_x_16_of_128_channels(self):
        with torch.no_grad():
            assert tuple(resnet_backbone(3)(torch.rand(1, 3, 32, 32)).shape) == (1, 128, 16, 16)

    @pytest.mark.parametrize("model", ["tsai-small", "tsai-small-em", "tsai-small-multimnist-matrix"])
    def test_images_that_leave_no_class_capsules_anything_to_see_are_refused(self, model):
        with pytest.raises(UserError, match="images of 12 x 40 are too small for this network"):
            small(model, shape=(1, 12, 40))


class TestWrittenOut:
    def test_small_network_equals_a_transcription_from_image_to_logits(self):
        """Procedure 2: two iterations of all layers together, the second from the old values of the first."""
        network = disturb(small(shape=(1, 14, 14), iterations=2)).double()
        images = torch.rand(2, 1, 14, 14, dtype=torch.float64)
        convolution, primary = network.features[1], network.primary.convolution
        maps = conv2d((images - 0.5) / 0.5, convolution.weight, convolution.bias, stride=2, padding=1).clamp(min=0)
        poses = conv2d(maps, primary.weight, primary.bias).permute(0, 2, 3, 1).reshape(2, -1, 16)
        cells = layer_norm(poses, network.primary.norm.weight, network.primary.norm.bias)
        windows = [seen_by((7, 7, 8), 3, 2), seen_by((3, 3, 8), 3, 1), None]
        old = [cells, *self.routed(network, [cells, None, None], [None] * 3, windows, fresh=True)]
        new = self.routed(network, old[:3], old[1:], windows, fresh=False)
        logits = new[-1] @ network.readout.weight[0] + network.readout.bias
        assert_close(network(images).logits, logits)

    def routed(self, network, below, parents, windows, fresh):
        found = []
        for layer, cells, previous, seen in zip(network.layers, below, parents, windows, strict=True):
            children = found[-1] if fresh and found else cells
            positions = 1 if seen is None else len(seen)
            lanes = children if seen is None else children[:, torch.as_tensor(seen)].flatten(0, 1)
            votes = every_vote(lanes, layer.weight)
            start = torch.zeros_like(votes[:, 0]) if previous is None else previous.reshape(votes[:, 0].shape)
            poses, _ = update(start, votes, dict(layer.routing.named_parameters()))
            found.append(poses.reshape(2, positions * poses.shape[1], 16))
        return found

    @pytest.mark.parametrize(("model", "shape"), [("tsai-small", (1, 28, 28)), ("tsai-simple", (3, 32, 32))])
    def test_one_iteration_is_the_same_in_both_schedules(self, model, shape):
        images, found = torch.rand(2, *shape, dtype=torch.float64), []
        for schedule in ("sequential", "concurrent"):
            torch.manual_seed(3)
            network = disturb(small(model, shape=shape, iterations=1, schedule=schedule)).double()
            logits = network(images).logits
            found.append([logits, *gradients([logits], list(network.parameters()))])
        assert_close(*found)

    def test_two_iterations_differ_between_the_schedules(self):
        logits = []
        for schedule in ("sequential", "concurrent"):
            torch.manual_seed(3)
            with torch.no_grad():
                logits.append(disturb(small(iterations=2, schedule=schedule))(torch.rand(2, 1, 28, 28)).logits)
        assert not torch.allclose(*logits, rtol=1e-3)

    def test_weights_start_as_in_the_code_of_the_authors(self):
        first, second, last = small("tsai-simple", shape=(3, 32, 32)).layers
        for layer, children, parents in ((first, 9 * 32, 32), (second, 9 * 32, 32), (last, 800, 10)):
            assert float(layer.weight.detach().std()) == pytest.approx(math.sqrt(parents / (4 * children)), rel=0.02)


class TestActivations:
    """The ablation with activations, of which the paper says nothing more."""

    def test_primary_capsules_have_none_unless_the_method_weights_by_them(self):
        with torch.no_grad():
            primary = small()(torch.rand(1, 1, 28, 28)).layers[0]
        assert bool((primary.activations == 1).all())

    @pytest.mark.parametrize(("method", "params"), [("inverted-attention", {"activations": True}), ("em", {})])
    def test_otherwise_they_come_from_one_more_channel(self, method, params):
        network = small(method=method, **params)
        with torch.no_grad():
            primary = network(torch.rand(1, 1, 28, 28)).layers[0]
        assert network.primary.convolution.out_channels == 8 * 17
        assert 0 < float(primary.activations.min()) < float(primary.activations.max()) < 1
        assert float(primary.poses.mean(dim=-1).abs().max()) < 1e-5  # layer-normalised as without activations

    def test_they_add_a_channel_per_type_and_two_betas_and_replace_the_linear_unit(self):
        params = {"activations": True}
        with torch.device("meta"):
            network = build(
                "tsai-simple", shape=(3, 32, 32), classes=10, method="inverted-attention", method_params=params
            )
        assert count_parameters(network) == 561_809 + 32 * 257 + 2 * (32 + 32 + 10) - 17

    def test_every_parameter_learns(self):
        network = small(activations=True)
        network(torch.rand(4, 1, 28, 28)).scores.square().sum().backward()
        assert all(bool(value.grad.abs().sum() > 0) for value in network.parameters())


class TestBelowCapsules:
    def test_colours_are_standardised_as_in_the_code_of_the_authors(self):
        images = torch.tensor([0.4914, 0.4822 + 0.1994, 0.4465 - 0.2010])[None, :, None, None]
        assert_close(Standardise(3)(images).flatten(), torch.tensor([0.0, 1.0, -1.0]), rtol=0, atol=1e-6)

    @pytest.mark.parametrize("channels", [1, 2])
    def test_other_images_are_brought_to_minus_one_to_one(self, channels):
        images = torch.stack([torch.zeros(channels, 2, 2), torch.ones(channels, 2, 2)])
        assert Standardise(channels)(images).flatten(1).tolist() == [[-1.0] * 4 * channels, [1.0] * 4 * channels]

    def test_standardising_learns_nothing_and_is_in_no_checkpoint(self):
        layer = Standardise(3)
        assert count_parameters(layer) == 0 and not layer.state_dict()

    def test_residual_block_adds_what_came_in(self):
        block = ResidualBlock(4, 4).eval()
        torch.nn.init.zeros_(block.residual[4].weight)  # the gain of the last batch norm
        maps = torch.randn(1, 4, 5, 5)
        with torch.no_grad():
            assert torch.equal(block(maps), maps.clamp(min=0))


class TestEM:
    def test_positions_enter_votes_for_classes_in_units_of_100_pixels_from_the_centre(self):
        last = small("tsai-simple-em", "em", shape=(3, 32, 32)).layers[-1]
        offset = last.offset.reshape(5, 5, 32, 16)
        assert tuple(last.weight.shape) == (32, 10, 4, 4)  # shared over positions
        assert_close(offset[:, 0, 0, 3], torch.tensor([-0.08, -0.04, 0.0, 0.04, 0.08]), rtol=1e-5, atol=1e-7)
        assert_close(offset[0, :, 0, 7], torch.tensor([-0.08, -0.04, 0.0, 0.04, 0.08]), rtol=1e-5, atol=1e-7)
        assert int((offset != 0).sum(dim=-1).max()) == 2


class TestPlain:
    @pytest.mark.parametrize(("model", "units"), [("tsai-small-cnn", 48), ("tsai-small-multimnist-cnn", 160)])
    def test_logits_are_a_linear_map_of_hidden_features(self, model, units):
        network = small(model, None).eval()
        images = torch.rand(2, 1, 28, 28)
        with torch.no_grad():
            features, output = network.features(images), network(images)
        assert tuple(features["hidden"].shape) == (2, units)
        assert torch.equal(features["logits"], output.logits)
        assert_close(
            output.logits,
            features["hidden"] @ network.classifier.weight.T + network.classifier.bias,
            rtol=1e-5,
            atol=1e-6,
        )

    def test_the_last_pooling_of_the_paper_is_the_mean_over_2_x_2_positions(self):
        network = small("tsai-small-cnn", None, shape=(3, 32, 32)).eval()
        maps = torch.randn(2, 48, 2, 2)
        assert_close(network.body[-2](maps), torch.nn.functional.avg_pool2d(maps, 2), rtol=1e-5, atol=1e-6)
        with torch.no_grad():
            assert tuple(network.body[:-2](torch.rand(2, 3, 32, 32)).shape) == (2, 48, 2, 2)
