"""Accuracy on viewpoints, or other changes of images, that training had and that it had not, after every epoch."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from routebench.data import Dataset, load
from routebench.errors import UserError
from routebench.models.network import set_progress
from routebench.protocols.base import Context, Fit, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of, training_curves
from routebench.registry import protocols
from routebench.training import evaluate

AXES = ("azimuth", "elevation")


@protocols.register("viewpoint", version=1)
class Viewpoint(Protocol):
    """Trains on familiar viewpoints only, and tests what every epoch left on all viewpoints of other objects.

    Other changes of images than the viewpoint do as well, where the data say which test images are `familiar`.

    Nothing is selected here. Networks may be compared at epochs of equal accuracy afterwards, as the paper does it
    with the familiar part of the test images, or by the held-out images, which are of familiar viewpoints too.

    Source: Hinton, Sabour and Frosst, Matrix capsules with EM routing, ICLR 2018, section 5.1 and table 2.
    """

    chooses = "epochs of equal accuracy"

    def expect(self, data: Dataset) -> None:
        """Expects test images that are known to be of familiar viewpoints, or of others.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: the data set has no condition `familiar`.
        """
        if "familiar" not in data.conditions:
            raise UserError(
                f"protocol viewpoint: expected a data set with familiar viewpoints to train on, got {data.name}, which "
                "has none; choose one such as rendered-shapes-small-azimuth or affine-digits5k with --data"
            )

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics per epoch, and per viewpoint at the last one; arrays `correct`, `familiar` and `correct_by_epoch`.

        `correct_by_epoch` is uint8, (epochs, n_test / 8 rounded up): the bits of each epoch, as `numpy.packbits` has
        them.

        Raises:
            UserError: the data set does not say which test images are of familiar viewpoints.
        """
        data = load(request.data)
        self.expect(data)
        fit = context.fit(replace(request, every_epoch=True))
        right = _right_by_epoch(fit, request, data, context)
        metrics = [*training_curves(fit), *_by_epoch(right, data), *_by_view(request, right[-1], data)]
        metrics += cost_of(fit)
        packed = torch.from_numpy(np.packbits(right.numpy(), axis=1))
        familiar = data.conditions["familiar"].to(torch.uint8)
        arrays = {"correct": right[-1].to(torch.uint8), "familiar": familiar, "correct_by_epoch": packed}
        return Measurement(metrics, arrays)


def _right_by_epoch(fit: Fit, request: FitRequest, data: Dataset, context: Context) -> Tensor:
    """Tells which test images were right after each epoch: bool, (epochs, n_test). Leaves the network at the last."""
    found = []
    for epoch in fit.epochs:
        fit.network.load_state_dict(fit.weights_after(epoch.epoch))
        set_progress(fit.network, epoch.epoch / len(fit.epochs))
        found.append(evaluate(fit.network, data.test, request.recipe, context.device).correct)
        context.progress(epoch.epoch / len(fit.epochs))
    return torch.stack(found)


def _by_epoch(right: Tensor, data: Dataset) -> Iterator[Metric]:
    familiar = data.conditions["familiar"]
    for epoch, correct in enumerate(right, 1):
        yield Metric.of("familiar_accuracy", "test", _percent(correct[familiar]), epoch=epoch)
        yield Metric.of("novel_accuracy", "test", _percent(correct[~familiar]), epoch=epoch)


def _by_view(request: FitRequest, correct: Tensor, data: Dataset) -> Iterator[Metric]:
    """Metrics of the last epoch: over all test images, and for each known azimuth and elevation, in degrees."""
    yield Metric.of("accuracy", "test", _percent(correct), test_iterations=request.iterations)
    for axis in (axis for axis in AXES if axis in data.conditions):
        familiar, degrees = data.conditions["familiar"], data.conditions[axis]
        for angle in torch.unique(degrees).tolist():
            there = degrees == angle
            part = "familiar" if familiar[there].all() else "novel" if not familiar[there].any() else "both"
            where: dict[str, int | str] = {"axis": axis, "degrees": angle, "viewpoints": part}
            yield Metric.of("accuracy_by_view", "test", _percent(correct[there]), where=where)


def _percent(correct: Tensor) -> float:
    return 100 * float(correct.double().mean())
