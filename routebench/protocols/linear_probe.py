"""Accuracy of a linear classifier that reads classes off frozen features, upright, turned and affinely transformed."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from routebench.data import Dataset, Images, affnist_is_there, load, rotate
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol, expect_one_label
from routebench.protocols.features import UPRIGHT, Seen, View, explanation_metrics, look
from routebench.protocols.probe import Probe, fit_probe
from routebench.protocols.spared import spared
from routebench.registry import protocols

ANGLES = [0, 45, 90, 135, 180]


@protocols.register("linear-probe")
class LinearProbe(Protocol):
    """Freezes a network and fits a linear classifier to each of its features, on training images.

    Its regulariser is chosen on the held-out part of the training images. Test images are turned after training; the
    network's own answers to the same images are counted too. Unsupervised models are measured alike, by their features.

    Options:
        angles: largest angles, in degrees, of test images each turned by an angle of its own, trained upright.
        fixed_angles: angles by which all test images are turned.
        train_angles: largest angles for networks of their own, trained and tested on turned images, probes included;
            each needs an augmentation of that name, such as `rotate90`.
        affine: whether networks of their own are trained on digits placed on a canvas, and tested on transformed ones.
            For `mnist` that is `affnist`, or without its official files `affnist-synthetic` under its own name; for
            `mnist5k` it is `affnist5k-synthetic`; for other data there is none.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", section 5.2, table 1 and figure 4.
    """

    options: ClassVar[dict[str, Any]] = {
        "angles": list[int],
        "fixed_angles": list[int],
        "train_angles": list[int],
        "affine": bool,
    }
    unsupervised: ClassVar[bool] = True
    chooses = "the C of a classifier"
    preload: ClassVar[tuple[str, ...]] = ("sklearn.linear_model", "sklearn.pipeline", "sklearn.preprocessing")

    def expect(self, data: Dataset) -> None:
        """Expects one class per image, which the probe reads.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: images may show several classes.
        """
        expect_one_label("linear-probe", data)

    def fits(self, request: FitRequest, options: Mapping[str, Any]) -> Iterator[FitRequest]:
        """One fit upright, one for each of `train_angles`, and one for `affine`."""
        yield request
        for angle in options.get("train_angles", []):
            yield _turned(request, angle)
        if options.get("affine") and (name := affine_data(request.data)):
            yield replace(request, data=name)

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Accuracies per feature and view; arrays `predicted` and `correct` of the main probe on upright images."""
        data = load(request.data)
        self.expect(data)
        probed = _Probed(context.fit(request).network, data, UPRIGHT, {"train_angle": 0}, context.device)
        metrics = [*probed.fitted()]
        with spared(metrics, "how objects explain images"):
            metrics += probed.explained()
        for view in _views(options):
            with nullcontext() if view == UPRIGHT else spared(metrics, f"probes of {view.kind} turns, {view.angle}°"):
                metrics += probed.tested(view)
        arrays = {**probed.answers(), **_reconstructions(probed.network, data.test, options, context.device)}
        context.progress(0.5)
        for angle in options.get("train_angles", []):
            with spared(metrics, f"training on images turned by up to {angle}°"):
                metrics += self._trained_turned(request, angle, context)
        if options.get("affine") and (name := affine_data(request.data)):
            with spared(metrics, f"training for {name}"):
                metrics += self._trained_on_a_canvas(request, name, context)
        return Measurement(metrics, arrays)

    def _trained_turned(self, request: FitRequest, angle: int, context: Context) -> list[Metric]:
        """Metrics of a network that is trained and tested on turned images: Smith et al., figure 4."""
        view, network = View("maximal", angle), context.fit(_turned(request, angle)).network
        probed = _Probed(network, load(request.data), view, {"train_angle": angle}, context.device)
        return [*probed.fitted(), *probed.explained(), *probed.tested(view)]

    def _trained_on_a_canvas(self, request: FitRequest, name: str, context: Context) -> list[Metric]:
        """Metrics of a network that is trained for transformed digits: Smith et al., table 1, last column."""
        network = context.fit(replace(request, data=name)).network
        probed = _Probed(network, load(name), UPRIGHT, {"train_angle": 0, "tested_on": name}, context.device)
        return [*probed.fitted(), *probed.explained(), *probed.tested(None)]


def affine_data(name: str) -> str:
    """The data set that is to this one what affNIST is to MNIST; empty if there is none.

    Args:
        name: the data set that a run names.
    """
    known = {"mnist": "affnist" if affnist_is_there() else "affnist-synthetic", "mnist5k": "affnist5k-synthetic"}
    return known.get(name, "")


def _turned(request: FitRequest, angle: int) -> FitRequest:
    return replace(request, recipe=replace(request.recipe, augmentation=f"rotate{angle}"))


class _Probed:
    """A network and the probes of its features.

    Args:
        network: the frozen network.
        data: the data set that it was trained on.
        view: how training and held-out images are shown for the probes.
        where: coordinates of every metric.
        device: the network's device.
    """

    def __init__(
        self, network: nn.Module, data: Dataset, view: View, where: Mapping[str, int | str], device: torch.device
    ):
        self.network, self.data, self.where, self.device = network, data, where, device
        self.view = view
        train, held_out = (look(network, part, view, device) for part in (data.train, data.held_out))
        self.main = train.main
        self.probes: dict[str, Probe] = {
            name: fit_probe(features, data.train.labels, held_out.features[name], data.held_out.labels)
            for name, features in train.features.items()
        }
        self.upright = look(network, data.test, UPRIGHT, device)
        self.sizes = {name: features.shape[1] for name, features in train.features.items()}

    def fitted(self) -> Iterator[Metric]:
        """Metrics of how each probe came about."""
        for name, probe in self.probes.items():
            where = {**self.where, "feature": name}
            yield Metric.of("probe_C", "held-out", probe.regulariser, where=where)
            yield Metric.of("probe_loss", "held-out", probe.held_out_loss, where=where)
            yield Metric.of("probe_accuracy", "held-out", probe.held_out_accuracy, where=where)
            yield Metric.of("probe_steps", "", probe.steps, where=where)
            yield Metric.of("probe_converged", "", float(probe.converged), where=where)
            yield Metric.of("feature_size", "", self.sizes[name], where=where)

    def explained(self) -> Iterator[Metric]:
        """Metrics of how a network that explains images explains test images, shown as those that it was trained on."""
        yield from explanation_metrics(self.network, self.data.test, self.view, self.where, self.device)

    def tested(self, view: View | None) -> list[Metric]:
        """Accuracy of every probe, and of the network itself, on test images; None shows them as they are.

        Args:
            view: how test images are shown.
        """
        where = {**self.where, "kind": "affine"}
        if view is not None:
            where |= {"kind": view.kind, "angle": view.angle}
        seen, labels = self.seen(view), self.data.test.labels
        found = []
        for name, probe in self.probes.items():
            right = _percent(probe.predict(seen.features[name]), labels)
            found.append(Metric.of("probe_accuracy", "test", right, where={**where, "feature": name}))
        if seen.predicted is not None:
            found.append(Metric.of("network_accuracy", "test", _percent(seen.predicted, labels), where=where))
        return found

    def answers(self) -> dict[str, Tensor]:
        """Answers of the main probe to upright test images, and where it is right."""
        predicted = self.probes[self.main].predict(self.upright.features[self.main])
        return {"predicted": predicted, "correct": (predicted == self.data.test.labels).to(torch.uint8)}

    def seen(self, view: View | None) -> Seen:
        """Answers of the network to test images.

        Args:
            view: how test images are shown; None for as they are.
        """
        if view is None or not view.angle:
            return self.upright
        return look(self.network, self.data.test, view, self.device)


def _views(options: Mapping[str, Any]) -> list[View]:
    """The views of test images; upright ones, which both kinds would hold, once."""
    maximal = [View("maximal", angle) for angle in sorted({0, *options.get("angles", ANGLES)})]
    return [*maximal, *(View("fixed", angle) for angle in sorted({*options.get("fixed_angles", [])} - {0}))]


def _percent(predicted: Tensor, labels: Tensor) -> float:
    return 100 * float((predicted == labels).double().mean())


@torch.no_grad()
def _reconstructions(
    network: nn.Module, test: Images, options: Mapping[str, Any], device: torch.device
) -> dict[str, Tensor]:
    """One test image per class, turned by each angle, and as the network reconstructs it, where it can."""
    if not hasattr(network, "reconstruction"):
        return {}
    angles = [view.angle for view in _views(options) if view.kind == "maximal"]
    first = [int((test.labels == label).nonzero()[0, 0]) for label in sorted(set(test.labels.tolist()))]
    pixels = test.pixels[first].to(device).float() / 255
    images = torch.stack([rotate(pixels, torch.full((len(first),), float(angle))) for angle in angles])
    decoded = torch.stack([network.reconstruction(turned) for turned in images])  # type: ignore[operator]
    both = {"example_images": images, "example_reconstructions": decoded}
    grey = {name: (255 * values).round().clamp(0, 255).to(torch.uint8).cpu() for name, values in both.items()}
    return {**grey, "example_angles": torch.tensor(angles)}
