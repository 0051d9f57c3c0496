"""CapsNet: sizes, layers, class scores and the decoder."""

import pytest
import torch
from torch.nn import functional

from routebench.errors import UserError
from routebench.models import build
from routebench.models.capsnet import Decoder
from routebench.models.network import Output, count_parameters
from routebench.ops import length
from tests.references.dynamic import dynamic, squash
from tests.references.problem import assert_close
from tests.references.votes import every_vote

SHAPE = (1, 28, 28)


def capsnet(model="capsnet", method="dynamic", **params):
    return build(model, shape=SHAPE, classes=10, method=method, **params)


@pytest.mark.parametrize("method", ["dynamic", "uniform", "none", "random"])
def test_capsnet_has_6_804_224_parameters(method):
    assert count_parameters(capsnet(method=method)) == 6_804_224


@pytest.mark.parametrize("params", [{"model": "capsnet-reconstruction"}, {"decoder": True}], ids=str)
def test_decoder_makes_it_8_215_568_parameters(params):
    assert count_parameters(capsnet(**params)) == 8_215_568


def test_the_small_decoder_adds_255_120_parameters():
    small = count_parameters(capsnet("capsnet-small"))
    decoder = 160 * 128 + 128 + 128 * 256 + 256 + 256 * 784 + 784
    assert count_parameters(capsnet("capsnet-small-reconstruction")) - small == decoder == 255_120


def test_a_decoder_changes_no_class_score():
    images = torch.rand(2, *SHAPE)
    scores = []
    for model in ("capsnet-small", "capsnet-small-reconstruction"):
        torch.manual_seed(3)
        network = capsnet(model)
        with torch.no_grad():
            scores.append(network(images).scores)
    assert torch.equal(*scores)
    assert network.reconstruct(network(images), torch.tensor([0, 1])).shape == (2, *SHAPE)


def test_routing_bias_adds_one_number_per_class_and_pose_element():
    network = build("capsnet", shape=SHAPE, classes=10, method="dynamic", method_params={"bias": True})
    assert count_parameters(network) == 6_804_224 + 10 * 16


def test_em_routing_adds_two_numbers_per_class():
    assert count_parameters(capsnet(method="em")) == 6_804_224 + 20


def test_inverted_attention_adds_a_gain_a_bias_and_one_linear_unit():
    assert count_parameters(capsnet(method="inverted-attention")) == 6_804_224 + 2 * 16 + 17


@pytest.mark.parametrize(("control", "of"), [("cnn", "capsnet"), ("cnn-small", "capsnet-small")])
def test_control_network_has_the_size_of_its_capsule_network(control, of):
    network = build(control, shape=SHAPE, classes=10)
    assert count_parameters(network) == pytest.approx(count_parameters(capsnet(of)), rel=0.01)


def test_capsules_on_a_residual_stem_have_a_baseline_of_their_size_and_stem():
    capsules, plain = (
        build(name, shape=(3, 32, 32), classes=10, method=method)
        for name, method in (("capsnet-residual", "uniform"), ("cnn-residual", None))
    )
    assert count_parameters(plain) == pytest.approx(count_parameters(capsules), rel=1e-4)
    assert str(plain.body[0]) == str(capsules.features)
    with torch.no_grad():
        primary, classes = capsules(torch.rand(2, 3, 32, 32)).layers
    assert tuple(primary.poses.shape) == (2, 3, 3, 8, 8)
    assert tuple(classes.poses.shape) == (2, 10, 16)
    for name, method in (("capsnet-residual", "uniform"), ("cnn-residual", None)):
        assert build(name, shape=(1, 9, 9), classes=3, method=method)(torch.rand(2, 1, 9, 9)).logits.shape == (2, 3)
        with pytest.raises(UserError, match="too small"):
            build(name, shape=(1, 8, 8), classes=3, method=method)


def test_primary_capsules_are_1152_of_8():
    with torch.no_grad():
        primary, digits = capsnet()(torch.rand(1, *SHAPE)).layers
    assert tuple(primary.poses.shape) == (1, 6, 6, 32, 8)
    assert tuple(digits.poses.shape) == (1, 10, 16)


def test_smallest_image_that_capsnet_takes_is_17_pixels_wide():
    network = build("capsnet", shape=(1, 17, 17), classes=10, method="uniform")
    with torch.no_grad():
        assert tuple(network(torch.rand(1, 1, 17, 17)).layers[0].poses.shape) == (1, 1, 1, 32, 8)


def test_small_capsnet_equals_a_transcription_from_image_to_class_lengths():
    network = capsnet("capsnet-small").double()
    images = torch.rand(2, *SHAPE, dtype=torch.float64)
    features = torch.nn.functional.conv2d(images, network.features[0].weight, network.features[0].bias, stride=2)
    maps = torch.nn.functional.conv2d(
        features.clamp(min=0), network.primary.convolution.weight, network.primary.convolution.bias, stride=2
    )
    capsules = [
        squash(maps[:, kind * 8 : kind * 8 + 8, row, column])
        for row in range(4)
        for column in range(4)
        for kind in range(8)
    ]
    votes = every_vote(torch.stack(capsules, dim=1), network.layers[0].weight)
    poses, lengths = dynamic(votes, None, {}, iterations=3)
    output = network(images)
    assert_close(output.layers[-1].poses, poses)
    assert_close(output.scores, lengths)


def test_class_scores_are_the_lengths_of_class_capsules():
    output = capsnet("capsnet-small")(torch.rand(2, *SHAPE))
    assert torch.equal(output.scores, length(output.layers[-1].poses))


def test_without_activations_all_classes_share_one_linear_unit():
    network = capsnet("capsnet-small", "inverted-attention")
    output = network(torch.rand(2, *SHAPE))
    poses = output.layers[-1].poses
    assert_close(output.logits, poses @ network.readout.weight[0] + network.readout.bias, rtol=1e-5, atol=1e-6)
    assert torch.equal(output.scores, output.logits.sigmoid())


class TestDecoder:
    def test_reconstruction_sees_only_the_capsule_of_the_given_class(self):
        network = capsnet("capsnet-small", decoder=True).eval()
        images, labels = torch.rand(2, *SHAPE), torch.tensor([3, 7])
        output = network(images)
        output.layers[-1].poses.retain_grad()
        network.reconstruct(output, labels).sum().backward()
        reached = output.layers[-1].poses.grad.abs().sum(dim=-1) > 0
        assert reached.nonzero().tolist() == [[0, 3], [1, 7]]

    def test_pixels_are_between_zero_and_one_and_shaped_as_the_image(self):
        decoded = Decoder(160, (3, 8, 9))(torch.randn(2, 160))
        assert tuple(decoded.shape) == (2, 3, 8, 9)
        assert float(decoded.detach().min()) >= 0 and float(decoded.detach().max()) <= 1

    def test_has_1_411_344_parameters_for_mnist(self):
        assert count_parameters(Decoder(160, SHAPE)) == 1_411_344

    def test_network_without_one_says_so(self):
        network = capsnet("capsnet-small")
        with pytest.raises(ValueError, match="no decoder"):
            network.reconstruct(Output(torch.zeros(1, 10), torch.zeros(1, 10)), torch.tensor([0]))


class TestStartOfTheAuthors:
    def test_weights_and_biases_are_those_of_the_released_code(self):
        network = build("capsnet", shape=(1, 28, 28), classes=10, method="dynamic", start="authors", decoder=True)
        for name, value in network.state_dict().items():
            if name.endswith("bias"):
                assert torch.equal(value, torch.full_like(value, 0.1))
                continue
            deviation = {"features": 0.05, "primary": 0.1 / 32}.get(name.partition(".")[0], 0.1)
            assert float(value.abs().max()) <= 2 * deviation
            assert float(value.std()) == pytest.approx(0.8796 * deviation, rel=0.02)  # what is left without the tails

    def test_primary_capsules_are_as_long_as_those_of_the_released_code(self):
        """Its routing of one iteration halves nothing: it multiplies votes by 1 / 32 types, and then adds the bias."""
        network = build("capsnet", shape=(1, 28, 28), classes=10, method="dynamic", start="authors").eval()
        maps = network.features(torch.rand(4, 1, 28, 28))
        weight = 32 * network.primary.convolution.weight
        votes = functional.conv2d(maps, weight, stride=2) / 32 + 0.1
        expected = squash(votes.unflatten(1, (32, 8)).permute(0, 3, 4, 1, 2))
        assert_close(network.primary(maps).poses, expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("given", [{"start": "author"}, {"presence": "batchnorm"}], ids=str)
    def test_misspelt_values_are_refused(self, given):
        with pytest.raises(UserError, match=next(iter(given))):
            build("capsnet-small", shape=(1, 28, 28), classes=10, method="dynamic", **given)

    @pytest.mark.parametrize(("start", "value"), [("authors", 0.1), ("torch", 0.0)])
    def test_the_bias_of_dynamic_routing_starts_alike(self, start, value):
        network = build(
            "capsnet-small", shape=(1, 28, 28), classes=10, method="dynamic", method_params={"bias": True}, start=start
        )
        assert torch.equal(network.layers[0].routing.bias, torch.full((10, 16), value))


def test_primary_capsules_of_self_routing_are_batch_normalised_with_a_presence_of_their_own():
    """Two convolutions, as the authors have them, their batch norms, and a sigmoid."""
    network = build("capsnet-small", shape=(1, 28, 28), classes=10, method="self-routing", presence="batch-norm")
    primary = network.primary.train()
    features = torch.randn(5, 32, 12, 12)
    found = primary(features)
    of_poses, of_presence = primary.convolution.weight.split([64, 8])
    poses, presence = (
        functional.batch_norm(functional.conv2d(features, weight, stride=2), None, None, training=True)
        for weight in (of_poses, of_presence)
    )
    assert torch.allclose(found.poses, poses.unflatten(1, (8, 8)).permute(0, 3, 4, 1, 2), atol=1e-5)
    assert torch.allclose(found.activations, presence.sigmoid().permute(0, 2, 3, 1), atol=1e-5)
