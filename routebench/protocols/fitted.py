"""Metrics of a trained model itself: how training went, and what it took."""

from collections.abc import Iterator

from routebench.models.network import count_parameters
from routebench.protocols.base import Fit, Metric


def training_curves(fit: Fit) -> Iterator[Metric]:
    """Loss and accuracy after every epoch, on training images, and on held-out ones where these were not trained on.

    Args:
        fit: the trained model.
    """
    for epoch in fit.epochs:
        yield Metric.of("train_loss", "train", epoch.train_loss, epoch=epoch.epoch)
        yield Metric.of("train_accuracy", "train", epoch.train_accuracy, epoch=epoch.epoch)
        if epoch.added_loss:
            yield Metric.of("added_loss", "train", epoch.added_loss, epoch=epoch.epoch)
        if epoch.has_held_out:
            yield Metric.of("held_out_loss", "held-out", epoch.held_out_loss, epoch=epoch.epoch)
            yield Metric.of("held_out_accuracy", "held-out", epoch.held_out_accuracy, epoch=epoch.epoch)


def cost_of(fit: Fit) -> list[Metric]:
    """The size of the network, and the time that training took.

    Args:
        fit: the trained model.
    """
    return [
        Metric.of("parameters", "", count_parameters(fit.network)),
        Metric.of("fit_seconds", "", fit.seconds),
    ]
