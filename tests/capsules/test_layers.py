"""Layers make the votes that their definitions say, in the order that they say."""

import re

import numpy as np
import pytest
import torch

from routebench.capsules import Capsules, Sizes
from routebench.capsules.layers import ConvCapsules, DenseCapsules, PrimaryCapsules, _below, _made
from routebench.ops import length, squash
from routebench.registry import routing
from routebench.routing import factory, make
from tests.references.problem import assert_close
from tests.references.votes import every_vote, seen_by

SIZES = Sizes(6, 4, 5, 3)
METHODS = ["uniform", "dynamic", "em", "inverted-attention"]


def grid_capsules(height, width, types, pose, images=2):
    shape = (images, height, width, types)
    return Capsules(torch.randn(*shape, pose, dtype=torch.float64), torch.rand(*shape, dtype=torch.float64))


class TestPrimaryCapsules:
    def test_a_pose_is_made_of_channels_at_one_position(self):
        layer = PrimaryCapsules(2, types=3, pose=4, presence="none").double()
        features = torch.randn(2, 2, 5, 6, dtype=torch.float64)
        maps = layer.convolution(features)
        found = layer(features).poses
        for row, column, kind in [(0, 0, 0), (1, 4, 2), (4, 5, 1)]:
            channels = maps[:, kind * 4 : kind * 4 + 4, row, column]
            assert_close(found[:, row, column, kind], layer.norm(channels))

    def test_a_pixel_reaches_only_the_capsules_at_its_position(self):
        layer = PrimaryCapsules(1, types=3, pose=4)
        features = torch.zeros(1, 1, 4, 5)
        still = layer(features).poses
        features[0, 0, 2, 3] = 1.0
        changed = (layer(features).poses != still).any(dim=-1).any(dim=-1)[0]
        assert changed.nonzero().tolist() == [[2, 3]]

    @pytest.mark.parametrize(("presence", "channels"), [("length", 12), ("logistic", 15), ("none", 12)])
    def test_channels_are_those_of_poses_and_of_activations(self, presence, channels):
        assert PrimaryCapsules(2, types=3, pose=4, presence=presence).convolution.out_channels == channels

    def test_length_squashes_poses_and_takes_their_lengths_as_activations(self):
        layer = PrimaryCapsules(2, types=3, pose=4).double()
        features = torch.randn(2, 2, 5, 6, dtype=torch.float64)
        found = layer(features)
        raw = layer.convolution(features).unflatten(1, (3, 4)).permute(0, 3, 4, 1, 2)
        assert_close(found.poses, squash(raw))
        assert_close(found.activations, length(found.poses))

    def test_logistic_activations_come_from_the_last_channels(self):
        layer = PrimaryCapsules(2, types=3, pose=4, presence="logistic").double()
        features = torch.randn(2, 2, 5, 6, dtype=torch.float64)
        maps, found = layer.convolution(features), layer(features)
        assert_close(found.activations, maps[:, 12:].sigmoid().permute(0, 2, 3, 1))
        assert_close(found.poses, maps[:, :12].unflatten(1, (3, 4)).permute(0, 3, 4, 1, 2))

    def test_without_presence_poses_are_normalised_and_every_capsule_is_there(self):
        found = PrimaryCapsules(2, types=3, pose=64, presence="none")(torch.randn(2, 2, 5, 6))
        assert_close(found.poses.mean(dim=-1), torch.zeros(2, 5, 6, 3), atol=1e-5)
        assert bool((found.activations == 1).all())

    def test_stride_and_kernel_make_the_grid(self):
        found = PrimaryCapsules(1, types=3, pose=4, kernel=3, stride=2)(torch.randn(2, 1, 9, 7))
        assert tuple(found.poses.shape) == (2, 4, 3, 3, 4)

    def test_bias_can_be_left_out(self):
        assert PrimaryCapsules(1, types=3, pose=4, bias=False).convolution.bias is None

    def test_unknown_presence_is_refused(self):
        with pytest.raises(ValueError, match="presence must be one of"):
            PrimaryCapsules(1, types=3, pose=4, presence="norm")


class TestDenseCapsules:
    @pytest.mark.parametrize("matrix", [False, True])
    def test_shared_weights_are_weights_repeated_over_positions(self, matrix):
        shared = DenseCapsules((2, 3, 4), 5, 9, 9, factory("dynamic"), matrix=matrix, share=True).double()
        apart = DenseCapsules((2, 3, 4), 5, 9, 9, factory("dynamic"), matrix=matrix).double()
        for row in range(2):
            for column in range(3):
                for kind in range(4):
                    apart.weight.data[(row * 3 + column) * 4 + kind] = shared.weight.data[kind]
        children = grid_capsules(2, 3, 4, 9)
        assert_close(shared(children).poses, apart(children).poses)

    def test_shared_weights_are_counted_once(self):
        assert DenseCapsules((2, 3, 4), 5, 9, 9, factory("dynamic"), share=True).weight.shape == (4, 5, 9, 9)

    def test_coordinates_go_to_the_last_column_of_the_first_two_rows(self):
        layer = DenseCapsules((2, 3, 1), 2, 16, 16, factory("em"), matrix=True, share=True, coordinates=0.5).double()
        children = grid_capsules(2, 3, 1, 16)
        added = layer.votes(children)[0].dense() - every_vote(children.flat().poses, layer.weight.repeat(6, 1, 1, 1))
        for image, child, parent in torch.cartesian_prod(torch.arange(2), torch.arange(6), torch.arange(2)).tolist():
            row, column = divmod(child, 3)
            matrix = torch.zeros(4, 4, dtype=torch.float64)
            matrix[0, 3] = 0.5 * (row - 0.5)
            matrix[1, 3] = 0.5 * (column - 1)
            assert_close(added[image, child, parent].reshape(4, 4), matrix)

    def test_coordinates_are_not_learned_and_not_saved(self):
        layer = DenseCapsules((2, 3, 1), 2, 16, 16, factory("uniform"), coordinates=0.5)
        assert set(layer.state_dict()) == {"weight"}

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ((0, 2, 8, 8), "children must be an integer of at least 1, got 0"),
            (((2, 0, 3), 2, 8, 8), "children must be an integer of at least 1, got 0"),
            ((6, -1, 8, 8), "parents must be an integer of at least 1, got -1"),
            ((6, 2, 0, 8), "pose_in must be an integer of at least 1, got 0"),
            ((6, 2, 8, 0), "pose must be an integer of at least 1, got 0"),
        ],
        ids=str,
    )
    def test_sizes_are_at_least_one(self, given, expected):
        with pytest.raises(ValueError, match=f"^{expected}$"):
            DenseCapsules(*given, factory("uniform"))

    @pytest.mark.parametrize("std", [0, -0.1, float("nan")])
    def test_weights_start_with_a_spread(self, std):
        for layer, below in ((DenseCapsules, 6), (ConvCapsules, (5, 5, 1))):
            with pytest.raises(ValueError, match="weight_std must be a number above 0, got"):
                layer(below, 2, 8, 8, factory("uniform"), weight_std=std)

    @pytest.mark.parametrize("given", [{"share": True}, {"coordinates": 0.1}], ids=str)
    def test_positions_need_a_grid(self, given):
        with pytest.raises(ValueError, match="share and coordinates need children as"):
            DenseCapsules(6, 2, 16, 16, factory("uniform"), **given)

    @pytest.mark.parametrize(("pose_in", "pose"), [(8, 8), (9, 16)])
    def test_matrix_poses_need_one_square_number_of_elements(self, pose_in, pose):
        with pytest.raises(ValueError, match="square number"):
            DenseCapsules(6, 2, pose_in, pose, factory("uniform"), matrix=True)

    @pytest.mark.parametrize(("matrix", "fan"), [(False, 16), (True, 4)])
    def test_weights_start_with_the_stated_deviation(self, matrix, fan):
        layer = DenseCapsules(200, 8, 16, 16, factory("uniform"), matrix=matrix)
        assert float(layer.weight.std().detach()) == pytest.approx((8 / (fan * 200)) ** 0.5, rel=0.05)

    def test_weight_deviation_can_be_given(self):
        layer = DenseCapsules(200, 8, 4, 4, factory("uniform"), weight_std=0.1)
        assert float(layer.weight.std().detach()) == pytest.approx(0.1, rel=0.05)

    def test_routing_gets_the_sizes_of_the_layer(self):
        assert DenseCapsules((2, 3, 4), 5, 8, 16, factory("uniform")).routing.sizes == Sizes(24, 5, 16, 8, (2, 3, 4))


class TestConvCapsules:
    @pytest.mark.parametrize(("height", "width", "stride"), [(4, 5, 1), (5, 7, 2), (6, 4, 2)])
    @pytest.mark.parametrize("name", ["uniform", "dynamic", "em"])
    def test_each_position_routes_the_children_of_its_window(self, name, height, width, stride):
        method = factory(name, **({} if name == "uniform" else {"competition": "types"}))
        layer = ConvCapsules((height, width, 2), 3, 4, 4, method, stride=stride).double()
        children = grid_capsules(height, width, 2, 4)
        found, flat = layer(children), children.flat()
        alone = DenseCapsules(18, 3, 4, 4, method).double()
        alone.weight.data[:] = layer.weight.data
        for position, seen in enumerate(seen_by((height, width, 2), 3, stride)):
            row, column = divmod(position, layer.grid[1])
            expected = alone(Capsules(flat.poses[:, seen], flat.activations[:, seen]))
            assert_close(found.poses[:, row, column], expected.poses)
            assert_close(found.activations[:, row, column], expected.activations)

    def test_a_window_over_the_whole_grid_is_a_dense_layer(self):
        method = factory("em")
        convolutional = ConvCapsules((3, 3, 2), 4, 9, 9, method, matrix=True).double()
        dense = DenseCapsules((3, 3, 2), 4, 9, 9, method, matrix=True).double()
        dense.weight.data[:] = convolutional.weight.data
        children = grid_capsules(3, 3, 2, 9)
        assert_close(convolutional(children).poses[:, 0, 0], dense(children).poses)

    def test_shifted_children_give_shifted_parents(self):
        layer = ConvCapsules((5, 6, 2), 3, 4, 4, factory("dynamic")).double()
        children = grid_capsules(5, 6, 2, 4)
        shifted = Capsules(children.poses.roll(1, dims=2), children.activations.roll(1, dims=2))
        assert_close(layer(shifted).poses[:, :, 1:], layer(children).poses[:, :, :-1])

    def test_a_change_in_one_cell_reaches_only_the_windows_that_see_it(self):
        layer = ConvCapsules((5, 5, 1), 2, 4, 4, factory("dynamic")).double()
        children = grid_capsules(5, 5, 1, 4, images=1)
        before = layer(children).poses
        children.poses[0, 0, 1] += 1.0
        changed = (layer(children).poses != before).any(dim=-1).any(dim=-1)[0]
        assert changed.nonzero().tolist() == [[0, 0], [0, 1]]

    @pytest.mark.parametrize("given", [{"kernel": 0}, {"stride": 0}, {"stride": -1}], ids=str)
    def test_windows_have_a_size_and_a_step(self, given):
        with pytest.raises(ValueError, match=r"(kernel|stride) must be an integer of at least 1, got"):
            ConvCapsules((5, 5, 1), 2, 4, 4, factory("uniform"), **given)

    def test_grid_smaller_than_the_kernel_is_refused(self):
        with pytest.raises(ValueError, match="at least 3 x 3"):
            ConvCapsules((2, 5, 1), 2, 4, 4, factory("uniform"))

    @pytest.mark.parametrize("name", METHODS)
    def test_layers_stack(self, name):
        method = factory(name)
        first = ConvCapsules((5, 5, 2), 3, 4, 4, method, stride=2)
        second = DenseCapsules(first.grid, 4, 4, 4, method)
        shape = (2, 5, 5, 2)
        found = second(first(Capsules(torch.randn(*shape, 4), torch.rand(*shape))))
        assert tuple(found.poses.shape) == (2, 4, 4)
        assert tuple(found.activations.shape) == (2, 4)

    def test_log_odds_have_the_grid_of_the_activations(self):
        layer = ConvCapsules((4, 4, 2), 3, 4, 4, factory("em"))
        shape = (2, 4, 4, 2)
        found = layer(Capsules(torch.randn(*shape, 4), torch.rand(*shape)))
        assert_close(found.logits.sigmoid(), found.activations, rtol=1e-5, atol=1e-6)


def a_layer(**options):
    return DenseCapsules(6, 4, 3, 5, factory("dynamic"), **options)


class TestWhatDoesNotFit:
    """One line says what was expected and what came."""

    @pytest.mark.parametrize(
        ("make", "expected", "found"),
        [
            (lambda: ConvCapsules((5, 4, 2), 3, 4, 4, factory("dynamic")), (5, 4, 2), (4, 5, 2)),
            (lambda: ConvCapsules((4, 4, 3), 3, 4, 4, factory("dynamic")), (4, 4, 3), (4, 3, 4)),
            (lambda: DenseCapsules((2, 3, 4), 5, 4, 4, factory("dynamic"), share=True), (2, 3, 4), (3, 2, 4)),
            (lambda: DenseCapsules((2, 3, 4), 5, 4, 4, factory("dynamic"), coordinates=1.0), (2, 3, 4), (3, 2, 4)),
            (lambda: DenseCapsules((2, 3, 4), 5, 4, 4, factory("dynamic")), (2, 3, 4), (2, 4, 3)),
        ],
    )
    def test_a_grid_of_another_shape_with_as_many_capsules(self, make, expected, found):
        told = f"expected a grid of {expected} (height, width, types) below, got {found}"
        with pytest.raises(ValueError, match=re.escape(told)):
            make()(grid_capsules(*found, 4))

    def test_a_layer_that_was_given_a_number_takes_any_grid_of_as_many(self):
        layer = DenseCapsules(24, 5, 4, 4, factory("dynamic")).double()
        children = grid_capsules(2, 3, 4, 4)
        assert_close(layer(children).poses, layer(children.flat()).poses)

    def test_another_number_of_capsules(self):
        with pytest.raises(ValueError, match="DenseCapsules: expected 6 capsules below, got 7"):
            a_layer()(Capsules(torch.randn(2, 7, 3)))

    @pytest.mark.parametrize("layer", [a_layer(), DenseCapsules(6, 4, 9, 9, factory("em"), matrix=True)])
    def test_poses_of_another_size(self, layer):
        expected = layer.routing.sizes.pose_below
        with pytest.raises(ValueError, match=f"expected children with poses of {expected} elements, got 4"):
            layer(Capsules(torch.randn(2, 6, 4), torch.rand(2, 6)))

    def test_a_plain_tensor(self):
        with pytest.raises(
            TypeError, match=r"expected Capsules\(poses, activations\), got Tensor of shape \(2, 6, 3\)"
        ):
            a_layer()._check(torch.randn(2, 6, 3))

    @pytest.mark.parametrize("routing", ["dynamic", "em[iterations=2]"])
    def test_a_name_in_place_of_routing(self, routing):
        with pytest.raises(TypeError, match=r"expected routing such as routebench.routing.factory\('dynamic'\), got '"):
            _made(routing, Sizes(6, 4, 5))

    def test_a_method_that_is_made_already(self):
        with pytest.raises(TypeError, match="got an instance of DynamicRouting"):
            DenseCapsules(6, 4, 3, 5, a_layer().routing)

    def test_sizes_from_numpy(self):
        assert [type(size) for size in _below((np.int64(2), np.int64(3), 4))] == [int, int, int]
        assert type(_below(np.int64(6))) is int


class TestCapsulesWithoutActivations:
    @pytest.mark.parametrize("name", [name for name in routing if not make(name, SIZES).uses_activations])
    def test_methods_that_ignore_them_need_none(self, name):
        layer = DenseCapsules(6, 4, 3, 5, factory(name)).eval()
        poses = torch.randn(2, 6, 3)
        found, expected = layer(Capsules(poses)), layer(Capsules(poses, torch.rand(2, 6)))
        assert_close(found.poses, expected.poses)
        assert_close(found.activations, expected.activations)

    @pytest.mark.parametrize("name", [name for name in routing if make(name, SIZES).uses_activations])
    def test_methods_that_use_them_refuse(self, name):
        layer = DenseCapsules(6, 4, 3, 5, factory(name))
        with pytest.raises(ValueError, match=r"got poses alone, but .* weights children by their activations"):
            layer(Capsules(torch.randn(2, 6, 3)))

    def test_they_are_one(self):
        assert_close(Capsules(torch.randn(2, 3, 4, 1, 5)).activations, torch.ones(2, 3, 4, 1))

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ((torch.zeros(6, 3),), r"expected poses of shape .* got \(6, 3\)"),
            ((torch.zeros(2, 6, 3), torch.zeros(2, 5)), r"expected activations of shape \(2, 6\), got \(2, 5\)"),
        ],
    )
    def test_shapes_that_no_capsules_have(self, given, told):
        with pytest.raises(ValueError, match=told):
            Capsules(*given)


def test_flat_capsules_run_by_row_column_and_type():
    capsules = grid_capsules(2, 3, 4, 5)
    flat = capsules.flat()
    assert flat.flat() is flat
    for number in range(24):
        cell, kind = divmod(number, 4)
        row, column = divmod(cell, 3)
        assert torch.equal(flat.poses[:, number], capsules.poses[:, row, column, kind])
        assert torch.equal(flat.activations[:, number], capsules.activations[:, row, column, kind])


def test_windows_that_were_first_seen_in_evaluation_can_be_trained():
    method = factory("self-routing", competition="types+positions")
    layer, below = ConvCapsules((5, 5, 2), 3, 8, 8, method).double(), grid_capsules(5, 5, 2, 8)
    with torch.inference_mode():
        layer(below)
    layer(below).poses.sum().backward()
    assert layer.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["dynamic", "em", "heinsen", "self-routing", "variational-bayes"])
def test_no_images_give_no_parents(name):
    layer = ConvCapsules((3, 3, 2), 3, 4, 4, factory(name)).eval()
    assert layer(Capsules(torch.randn(0, 3, 3, 2, 4), torch.rand(0, 3, 3, 2))).poses.shape == (0, 1, 1, 3, 4)


def test_capsules_without_a_grid_keep_what_they_have():
    plain = Capsules(torch.randn(2, 3, 3, 2, 4)).flat()
    assert not plain.has_activations
    whole = Capsules(torch.randn(2, 3, 3, 2, 4), torch.rand(2, 3, 3, 2), torch.randn(2, 3, 3, 2)).flat()
    assert whole.has_activations and whole.logits.shape == (2, 18)
