"""Maps of coupling are what the network's routing did, place by place."""

import json

import numpy as np
import pytest
import torch

import routebench
from routebench.analysis.coupling import figure_of_coupling
from routebench.data import load
from routebench.errors import UserError
from routebench.models import build
from routebench.protocols import coupling_maps as maps_module
from routebench.protocols.coupling_maps import mapped_examples, right_and_wrong
from routebench.protocols.traced import trace
from tests.protocols.test_sparsity import Untrained, request

IMAGES = load("take:40:mnist5k").test


def network_of(method, model="capsnet-small", iterations=2):
    return Untrained().fit(request(method, iterations, model)).network


def pixels(count):
    return IMAGES.pixels[:count].float() / 255


def coupling_maps(network, images, iterations):
    return maps_module.coupling_maps(trace(network, images, iterations))


@pytest.mark.parametrize("method", ["dynamic", "em", "self-routing", "expert-choice"])
def test_each_place_has_the_mean_coupling_of_its_types_weighted_by_activation(method):
    iterations = None if method in {"self-routing", "expert-choice"} else 2
    network = network_of(method, iterations=iterations)
    maps = coupling_maps(network, pixels(3), iterations)
    traced = trace(network, pixels(3), iterations)
    children, layer = traced.output.layers[-2], traced.layers[-1]
    _, rows, columns, types, _ = children.poses.shape
    assert maps.shape == (3, 10, rows, columns)
    for image, row, column in ((0, 0, 0), (1, 2, 3), (2, rows - 1, columns - 1)):
        first = (row * columns + column) * types
        weights = layer.present[image, first : first + types]
        own = layer.coupling[image, first : first + types]
        expected = sum(float(weight) * one for weight, one in zip(weights, own, strict=True)) / float(weights.sum())
        torch.testing.assert_close(maps[image, :, row, column], expected.float(), rtol=1e-5, atol=1e-7)


def test_uniform_routing_sends_the_same_everywhere_and_children_without_a_grid_lie_in_a_row():
    torch.testing.assert_close(
        *torch.broadcast_tensors(
            coupling_maps(network_of("uniform", iterations=None), pixels(2), None), torch.tensor(0.1)
        )
    )
    in_between = build("capsnet-small-intermediate", shape=(1, 28, 28), classes=10, method="dynamic").eval()
    assert coupling_maps(in_between, pixels(2), 1).shape[:3] == (2, 10, 1)
    cnn = build("cnn", shape=(1, 28, 28), classes=10).eval()
    assert coupling_maps(cnn, pixels(2), None) is None and not mapped_examples(
        cnn, IMAGES.at(torch.arange(2)), None, torch.device("cpu")
    )


def test_maps_are_kept_for_the_right_class_and_the_strongest_other():
    network, some = network_of("dynamic"), IMAGES.at(torch.arange(8))
    found = mapped_examples(network, some, 2, torch.device("cpu"))
    scores, maps = network(pixels(8)).scores.detach(), coupling_maps(network, pixels(8), 2)
    for image, label in enumerate(some.labels.tolist()):
        other = max((score, one) for one, score in enumerate(scores[image].tolist()) if one != label)[1]
        assert found["coupling_classes"][image].tolist() == [label, other]
        assert int(found["coupling_answers"][image]) in {label, other}
        torch.testing.assert_close(found["coupling_maps"][image], maps[image, [label, other]])


def test_right_images_of_several_classes_come_before_wrong_ones():
    labels = torch.tensor([2, 2, 1, 1, 0, 0, 1, 2])
    answers = torch.tensor([2, 2, 2, 0, 1, 0, 1, 0])
    assert right_and_wrong(labels, answers).tolist() == [5, 6, 0, 4, 2, 7]
    assert right_and_wrong(labels, labels).tolist() == [4, 2, 0]


def test_chosen_images_are_drawn_from_a_trained_run_and_others_are_refused_in_a_line(tmp_path):
    run = routebench.run_suite(
        "accuracy", preset="smoke", methods="dynamic", data="take:200:mnist5k", results=tmp_path, report=False
    )
    cells = run.results.drop_duplicates("cell").set_index(["label", "iterations"])["cell"]
    figure = routebench.draw_coupling(tmp_path, cells["dynamic", 3], [3, 17])
    (axes,) = figure.axes
    assert "dynamic T=3" in axes.get_title(loc="left") and len(axes.texts) == 2
    labels = load(
        json.loads((tmp_path / "records" / f"{cells['dynamic', 3]}.json").read_text())["identity"]["data"]
    ).test.labels
    for text, image in zip(axes.texts, (3, 17), strict=True):
        assert text.get_text().split("→")[0] == str(int(labels[image]))
    sheet = np.asarray(axes.images[0].get_array())
    assert sheet.shape[0] == 3 * 28 + 2 and sheet[29:].min() < 255  # pictures, and two rows of maps with ink
    for cell, images, told in (
        (cells["dynamic", 3], [], "expected numbers of test images, 0 to"),
        (cells["dynamic", 3], [10**6], "got [1000000]"),
        (run.results.query("label == 'cnn'")["cell"].iloc[0], [0], "no coupling to draw"),
    ):
        with pytest.raises(UserError, match=told.replace("[", r"\[")):
            routebench.draw_coupling(tmp_path, cell, images)


@pytest.mark.parametrize("count", [1, 3, 14, 25])
def test_every_image_has_its_label_and_none_is_larger_than_a_sixth(count):
    some = load("mnist5k").test.at(torch.arange(count))
    arrays = mapped_examples(network_of("dynamic"), some, 2, torch.device("cpu"))
    figure = figure_of_coupling({"some": {name: value.numpy() for name, value in arrays.items()}})
    labels = [text.get_text().split("→")[0] for axes in figure.axes for text in axes.texts]
    assert labels == [str(int(label)) for label in some.labels]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["some"] + [""] * (len(figure.axes) - 1)
    for axes in figure.axes:
        sheet = np.asarray(axes.images[0].get_array())
        assert sheet.shape[1] >= 6 * 29 - 1 and (sheet[..., 3] == 255).sum() >= 3 * 28 * 28 * len(axes.texts)
    assert figure.get_figheight() < 3.5 * len(figure.axes)
    assert figure._repr_svg_().count("<svg ") == 1  # as a notebook asks


def test_one_number_alone_is_taken_and_images_of_several_classes_are_refused(tmp_path):
    given = {"preset": "smoke", "methods": "dynamic", "results": tmp_path, "report": False, "jobs": 1}
    run = routebench.run_suite("accuracy", data="take:200:mnist5k", **given)
    cell = run.results.query("label == 'dynamic'")["cell"].iloc[0]
    for one in (3, (3,)):
        assert len(routebench.draw_coupling(tmp_path, cell, one).axes[0].texts) == 1
    several = routebench.run_suite("overlap", data="take:200:diverse-multimnist5k", **given)
    with pytest.raises(UserError, match="expected pictures of one class each"):
        routebench.draw_coupling(tmp_path, several.results.query("label == 'dynamic'")["cell"].iloc[0], 3)
