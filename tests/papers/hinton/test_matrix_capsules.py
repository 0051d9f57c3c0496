"""The networks of Hinton, Sabour and Frosst 2018: sizes, layers, starting values, windows and crops."""

import math

import numpy as np
import pytest
import torch

from routebench.capsules import Capsules
from routebench.capsules.coordinates import COORDINATES
from routebench.errors import UserError
from routebench.models import build
from routebench.models.network import count_parameters, routing_methods
from routebench.ops import description_length_logit
from routebench.papers.hinton.augmentations.jitter import around_window
from routebench.papers.hinton.models.window import SIDE, AveragedOverCrops, Window
from tests.references.problem import assert_close
from tests.references.votes import every_vote

NORB = (2, 48, 48)


def matrix_capsules(model="matrix-capsules-small", *, shape=NORB, classes=5, method="em", **params):
    return build(model, shape=shape, classes=classes, method=method, **params)


COUNTS = {
    "matrix-capsules": [((2, 48, 48), 5, 317_056), ((2, 32, 32), 5, 317_056), ((1, 28, 28), 10, 318_816)],
    "matrix-capsules-68k": [((2, 48, 48), 5, 68_680), ((1, 48, 48), 5, 67_080)],
    "matrix-capsules-cifar": [((3, 32, 32), 10, 459_296)],
    "matrix-capsules-vector": [((2, 48, 48), 5, 317_056 + (2 * 9 * 32 * 32 + 32 * 5) * (256 - 16))],
}


@pytest.mark.parametrize(
    ("model", "shape", "classes", "count"), [(model, *row) for model, rows in COUNTS.items() for row in rows]
)
def test_parameters_beside_betas_are_as_known_from_the_paper(model, shape, classes, count):
    assert count_parameters(matrix_capsules(model, shape=shape, classes=classes, method="uniform")) == count


def test_em_adds_two_betas_for_each_type_of_capsule():
    assert count_parameters(matrix_capsules("matrix-capsules")) == 317_056 + 2 * (32 + 32 + 5)


@pytest.mark.parametrize("shape", [(2, 48, 48), (2, 32, 32)])
def test_the_baseline_has_4_253_349_parameters(shape):
    assert count_parameters(build("smallnorb-cnn", shape=shape, classes=5)) == 4_253_349


@pytest.mark.parametrize(
    ("shape", "sides"), [((2, 48, 48), (14, 6, 4)), ((1, 32, 32), (14, 6, 4)), ((1, 28, 28), (12, 5, 3))]
)
def test_layers_have_the_grids_of_convolutions_without_padding(shape, sides):
    with torch.no_grad():
        layers = matrix_capsules(shape=shape)(torch.rand(2, *shape)).layers
    assert [tuple(layer.poses.shape) for layer in layers] == [
        *((2, side, side, 8, 16) for side in sides),
        (2, 5, 16),
    ]


@pytest.mark.parametrize(("model", "block"), [("", (4, 4)), ("-vector", (16, 16))])
def test_the_class_layer_shares_one_transformation_per_type(model, block):
    network = matrix_capsules(f"matrix-capsules-small{model}")
    assert tuple(network.layers[2].weight.shape) == (8, 5, *block)
    assert [tuple(layer.weight.shape) for layer in network.layers[:2]] == [(72, 8, *block)] * 2


PIXELS = torch.tensor([-7.5, -3.5, 0.5, 4.5]) / 100
RELEASED = torch.tensor([-8.0, -4.0, 0.0, 4.0]) / 100
K = torch.arange(4)
WANTED = {
    "paper": {3: ("row", PIXELS), 7: ("column", PIXELS)},
    "hinton": {0: ("column", RELEASED), 1: ("row", RELEASED)},
    "ibm": {3: ("column", (K + 0.5) / 4), 7: ("row", (K + 0.5) / 4)},
    "vb": {3: ("row", (K + 1) / 40), 7: ("column", (K + 1) / 40)},
    "yl1993": {0: ("row", K / 4), 1: ("column", K / 4)},
}
"""By element of the pose: the axis, and what its 4 cells add."""


class TestCoordinates:
    """4 x 4 children, which see windows whose centres are at 8, 12, 16 and 20 of 32 pixels."""

    @pytest.mark.parametrize("name", WANTED)
    @pytest.mark.parametrize("model", ["matrix-capsules-small", "matrix-capsules-small-vector"])
    def test_votes_for_classes_are_moved_by_the_place_of_the_child(self, model, name):
        layer = matrix_capsules(model, coordinates=name).layers[2].double()
        children = Capsules(torch.randn(1, 4, 4, 8, 16).double(), torch.rand(1, 4, 4, 8).double())
        unmoved = every_vote(children.flat().poses, layer.weight.repeat(16, 1, 1, 1))
        moved = (layer.votes(children)[0].dense() - unmoved).unflatten(1, (4, 4, 8))
        expected = torch.zeros(4, 4, 16).double()
        for element, (axis, values) in WANTED[name].items():
            expected[..., element] = values[:, None] if axis == "row" else values[None, :]
        assert_close(moved, expected[None, :, :, None, None].expand_as(moved), atol=1e-7)

    def test_the_released_grid_is_averaged_and_swapped_by_every_convolution(self):
        """Transcribed from its `add_convs` and `conv_pos`: images of 32 pixels, kernels of 5, 3 and 3."""
        grid = np.mgrid[-16:16, -16:16] / 100
        for kernel, stride in ((5, 2), (3, 2), (3, 1)):
            windows = np.lib.stride_tricks.sliding_window_view(grid, (kernel, kernel), axis=(1, 2))
            grid = windows[:, ::stride, ::stride].mean(axis=(3, 4))[::-1]
        place = matrix_capsules(coordinates="hinton").layers[2].offset.unflatten(0, (4, 4, -1))[:, :, 0, :2]
        assert_close(place.permute(2, 0, 1).double(), torch.from_numpy(grid.copy()), atol=1e-7, rtol=0)

    def test_every_way_is_tested(self):
        assert set(WANTED) == set(COORDINATES)

    def test_centres_are_where_an_image_reaches_a_capsule(self):
        """The pixels that change the capsule in the first row and last column have the centre (8, 20)."""
        network = matrix_capsules(shape=(1, 32, 32))
        image = torch.rand(1, 1, 32, 32, requires_grad=True)
        maps = network.features[1](image)  # without standardisation, which every pixel reaches
        capsules = network.primary(maps)
        for layer in network.layers[:2]:
            layer.routing.competition = "types"  # or parents of other places compete
            capsules = layer(capsules)
        capsules.poses[0, 0, 3].sum().backward()
        rows, columns = image.grad[0, 0].nonzero().unbind(dim=1)
        assert ((rows.min() + rows.max()) / 2, (columns.min() + columns.max()) / 2) == (8, 20)

    def test_without_them_votes_are_not_moved(self):
        assert matrix_capsules(coordinates="none").layers[2].offset is None
        assert matrix_capsules("matrix-capsules-small", coordinates="none").layers[2].offset is None

    def test_unknown_way_is_refused(self):
        with pytest.raises(UserError, match=r"coordinates must be one of paper, .*none, got 'polar'"):
            matrix_capsules(coordinates="polar")


CUT = 0.8796
"""Deviation of normal numbers of deviation 1 without those beyond 2."""


class TestStart:
    def test_votes_have_the_same_deviation_in_matrices_and_vectors(self):
        for model in ("matrix-capsules", "matrix-capsules-vector"):
            for layer in matrix_capsules(model).layers:
                products = 4 if layer.weight.shape[-1] == 4 else 16
                deviation = float(layer.weight.detach().square().mean() * products) ** 0.5
                assert deviation == pytest.approx(0.6, rel=0.1)

    def test_authors_weights_have_their_deviations(self):
        network = matrix_capsules("matrix-capsules", start="authors")
        weights = [network.features[1].weight, *(layer.weight for layer in network.layers)]
        found = [float(weight.detach().std()) / CUT for weight in weights]
        assert found == pytest.approx([0.05, 0.3, 0.3, 0.01], rel=0.1)
        assert float(weights[1].detach().abs().max()) <= 0.6  # cut off at two deviations
        assert network.features[1].bias.tolist() == pytest.approx([0.1] * 32)
        assert network.primary.convolution.bias.tolist() == [0.0] * 512 + [-1.0] * 32

    def test_authors_primary_weights_are_large_in_the_last_two_capsules(self):
        """Their code draws 512 channels with 0.5 and 32 with 3, and gives each capsule 17 in a row."""
        weight = matrix_capsules("matrix-capsules", start="authors").primary.convolution.weight.detach()
        poses, logits = weight[:512].reshape(32, 16, 32), weight[512:].reshape(32, 32)
        assert float(poses[:30].std()) / CUT == pytest.approx(0.5, rel=0.05)
        assert float(logits[:30].std()) / CUT == pytest.approx(0.5, rel=0.1)
        assert float(poses[31].std()) / CUT == pytest.approx(3, rel=0.1)
        assert float(logits[30:].std()) / CUT == pytest.approx(3, rel=0.25)
        assert (poses[30, :2].abs().max() <= 1, poses[30, 2:].abs().max() > 1) == (True, True)  # channels 510 and 511

    @pytest.mark.parametrize("unit", [1.0, 2500.0])
    def test_authors_betas_give_the_logit_of_their_code(self, unit):
        params = {"final_lambda": 0.02, "beta_a_unit": unit}
        network = matrix_capsules(start="authors", method_params=params, class_lambda=0.25)
        mass, variance = torch.rand(3, 5) * 20, torch.rand(3, 5, 16)
        for layer, b_u, b_a, theirs in zip(
            network.layers, (0.5, 0.5, 2.0), (0.5, 0.5, 1.0), (0.01, 0.01, 0.0025), strict=True
        ):
            method = layer.routing
            betas = (method.beta_u[:5].detach(), unit * method.beta_a[:5].detach())
            found = method.inverse_temperature(1) * description_length_logit(mass, variance, *betas)
            cost = variance.log().sum(dim=-1) + b_u * 16 * (math.log(2 * math.pi) + 1)
            assert_close(found, theirs * 0.05 * (-mass * cost - 5000 * b_a), rtol=1e-5, atol=1e-6)

    def test_class_lambda_scales_the_class_layer_alone(self):
        network = matrix_capsules(class_lambda=0.25, method_params={"final_lambda": 0.4})
        assert [method.final_lambda for method in routing_methods(network)] == [0.4, 0.4, 0.1]

    def test_the_class_layer_has_a_mass_floor_of_its_own(self):
        network = matrix_capsules(class_mass_floor=1e-5, method_params={"mass_floor": 1e-7})
        assert [method.mass_floor for method in routing_methods(network)] == [1e-7, 1e-7, 1e-5]

    def test_a_method_without_lambda_or_floor_is_left_alone(self):
        routings = routing_methods(matrix_capsules(method="dynamic", class_lambda=0.25, class_mass_floor=1e-5))
        assert not hasattr(routings[2], "mass_floor")
        assert not hasattr(routing_methods(matrix_capsules(method="dynamic", class_lambda=0.25))[2], "final_lambda")

    @pytest.mark.parametrize(
        "given",
        [
            {"start": "zero"},
            {"class_lambda": -1.0},
            {"class_lambda": True},
            {"class_mass_floor": 0},
            {"crops": 9},
            {"crop": 13},
        ],
        ids=str,
    )
    def test_what_makes_no_sense_is_refused(self, given):
        with pytest.raises(UserError, match=next(iter(given))):
            matrix_capsules(**given)


class TestWindow:
    @pytest.mark.parametrize(("shape", "seen"), [((2, 48, 50), 32), ((1, 28, 28), 28), ((3, 32, 32), 32)])
    def test_standardises_the_middle_of_large_images_and_the_whole_of_small_ones(self, shape, seen):
        images = torch.rand(3, *shape)
        top, left = (shape[1] - seen) // 2, (shape[2] - seen) // 2
        for image, found in zip(images, Window(shape)(images), strict=True):
            cut = image[:, top : top + seen, left : left + seen]
            assert_close(found, (cut - cut.mean()) / cut.std(correction=0), rtol=1e-4, atol=1e-5)

    def test_a_constant_image_becomes_zero_and_its_gradient_is_finite(self):
        images = torch.full((1, 1, 28, 28), 0.3, requires_grad=True)
        found = Window((1, 28, 28))(images)
        found.square().sum().backward()
        assert float(found.detach().abs().max()) < 1e-5
        assert bool(torch.isfinite(images.grad).all())

    def test_brightness_and_contrast_of_a_window_change_nothing(self):
        images = torch.rand(2, *NORB)
        assert_close(Window(NORB)(0.3 * images + 0.2), Window(NORB)(images), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("shape", [(1, 28, 28), (2, 47, 60), (2, 48, 48), (2, 60, 56)])
    def test_training_shifts_by_what_is_around_the_window(self, shape):
        _, height, width = Window(shape).shape
        expected = 0 if height != SIDE else (min(shape[1:]) - height) // 2
        assert around_window(*shape[1:]) == expected if height == width == SIDE else around_window(*shape[1:]) == 0


class TestCrops:
    @pytest.mark.parametrize(("model", "method"), [("matrix-capsules-small", "em"), ("smallnorb-cnn", None)])
    def test_thirteen_crops_are_the_mean_of_single_ones(self, model, method):
        network = build(model, shape=NORB, classes=5, method=method, crops=13).double().eval()
        images = torch.rand(2, *NORB, dtype=torch.float64)
        begins = {
            side * n: int(48 / 2 + side * n / 2 - 32 / 2) - 8 for n in (1, 2, 3) for side in (-1, 1)
        }  # TensorFlow
        asked = [(down * n, right * n) for n in (1, 2, 3) for down in (-1, 1) for right in (-1, 1)]
        places = [(0, 0), *((begins[down], begins[right]) for down, right in asked)]
        with torch.no_grad():
            single = [network.network(images.roll((-down, -right), dims=(2, 3))).scores for down, right in places]
            found = network(images)
        assert (len(single), len(set(places))) == (13, 10)
        assert not torch.allclose(single[0], single[1], atol=1e-9)
        assert_close(found.scores, torch.stack(single).mean(dim=0))
        assert_close(found.logits.sigmoid(), found.scores)

    def test_training_sees_one(self):
        network = matrix_capsules(crops=13)
        images = torch.rand(2, *NORB)
        with torch.no_grad():
            assert torch.equal(network(images).scores, network.network(images).scores)

    def test_a_fitted_network_can_be_averaged(self):
        network = matrix_capsules().eval()
        images = torch.rand(2, *NORB)
        with torch.no_grad():
            averaged = AveragedOverCrops(network, NORB).eval()(images)
        assert not torch.equal(averaged.scores, network(images).scores)
        assert torch.equal(averaged.layers[-1].poses, network(images).layers[-1].poses)

    def test_images_without_room_are_refused(self):
        with pytest.raises(UserError, match="images of at least 48 x 48"):
            matrix_capsules(shape=(1, 32, 32), crops=13)


class TestBaseline:
    def test_convolutions_keep_the_size_and_pooling_halves_it(self):
        network = build("smallnorb-cnn-small", shape=NORB, classes=5)
        sizes = []
        for layer in network.body:
            layer.register_forward_hook(lambda module, _, out: sizes.append((type(module).__name__, out.shape[-1])))
        network(torch.rand(1, *NORB))
        assert [size for name, size in sizes if name in ("Window", "Conv2d", "MaxPool2d")] == [32, 32, 16, 16, 8]

    def test_dropout_is_for_training(self):
        network = build("smallnorb-cnn-small", shape=NORB, classes=5)
        images = torch.rand(2, *NORB)
        assert not torch.equal(network(images).logits, network(images).logits)
        network.eval()
        assert torch.equal(network(images).logits, network(images).logits)
        still = build("smallnorb-cnn-small", shape=NORB, classes=5, dropout=0.0)
        assert torch.equal(still(images).logits, still(images).logits)

    def test_features_are_the_hidden_layer_and_the_logits(self):
        network = build("smallnorb-cnn-small", shape=NORB, classes=5).eval()
        images = torch.rand(2, *NORB)
        with torch.no_grad():
            found = network.features(images)
            assert found["hidden"].shape == (2, 64) and bool((found["hidden"] >= 0).all())
            assert torch.equal(found["logits"], network(images).logits)
