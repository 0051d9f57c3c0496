"""Accuracy and calibration on corrupted images."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from routebench.data import Images, corrupted
from routebench.protocols.attacking.settings import Settings, balanced
from routebench.protocols.base import Metric
from routebench.training import answers

BATCH = 250
BINS = 15
"""Number of bins of confidence, equally wide."""
MEAN = "mean"


class Judged(NamedTuple):
    """Accuracy and calibration error, in per cent."""

    accuracy: float
    calibration_error: float


def corruption_metrics(network: nn.Module, test: Images, settings: Settings, device: torch.device) -> Iterator[Metric]:
    """Metrics `corrupted_accuracy` and `calibration_error`, both in per cent, by corruption and severity.

    The corruption `none` is the images as they are. The severity `mean` is over all severities, the corruption `all`
    over all corruptions.

    Args:
        network: the trained network, in evaluation mode.
        test: test images, of which a balanced choice is looked at.
        settings: the corruptions, their severities, and the number of images.
        device: the network's device.
    """
    if not settings.corruptions:
        return
    chosen = test.at(balanced(test.labels, settings.corrupted_images))
    found: dict[tuple[str, str], Judged] = {("none", MEAN): judged(network, chosen, device)}
    for name in settings.corruptions:
        for level in settings.severities:
            images = Images(corrupted(chosen.pixels, name, level), chosen.labels)
            found[name, str(level)] = judged(network, images, device)
        found[name, MEAN] = _mean([one for (of, _), one in found.items() if of == name])
    found["all", MEAN] = _mean([found[name, MEAN] for name in settings.corruptions])
    for (name, severity), one in found.items():
        where: dict[str, int | str] = {"corruption": name, "severity": severity}
        yield Metric.of("corrupted_accuracy", "test", one.accuracy, where=where)
        yield Metric.of("calibration_error", "test", one.calibration_error, where=where)


def _mean(found: Sequence[Judged]) -> Judged:
    accuracy, error = (fmean(values) for values in zip(*found, strict=True))
    return Judged(accuracy, error)


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """Mean distance in per cent between confidence and accuracy over bins of confidence, weighted by images.

    Source: Guo, Pleiss, Sun and Weinberger, ICML 2017, equation 3 (ECE), with 15 bins.

    Args:
        confidence: that of each answer, 0 to 1, (image).
        right: whether it is, (image).
    """
    place = (confidence.double() * BINS).ceil().long().clamp(1, BINS) - 1  # bins are open below, closed above
    gaps = torch.zeros(BINS, dtype=torch.float64).index_add(0, place, right.double() - confidence.double())
    return 100 * float(gaps.abs().sum()) / len(right)


@torch.no_grad()
def judged(network: nn.Module, images: Images, device: torch.device) -> Judged:
    """The network's answers, and how confident it is by a softmax of its logits.

    Args:
        network: the trained network, in evaluation mode.
        images: images as they are shown, corrupted or not.
        device: the network's device.

    Returns:
        accuracy and calibration error, both in per cent.
    """
    confidence, right = [], []
    for start in range(0, len(images), BATCH):
        some = images.at(torch.arange(start, min(start + BATCH, len(images))))
        output = network(some.pixels.to(device).to(torch.float32).div(255))
        answered = answers(output.scores, some.labels.to(device))
        confidence.append(output.logits.softmax(dim=1).gather(1, answered[:, None])[:, 0].cpu())
        right.append(answered.cpu() == some.labels)
    correct = torch.cat(right)
    return Judged(100 * float(correct.double().mean()), calibration_error(torch.cat(confidence), correct))
