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
        yield Metric("train_loss", "train", epoch.train_loss, "", False, epoch=epoch.epoch)
        yield Metric("train_accuracy", "train", epoch.train_accuracy, "%", True, epoch=epoch.epoch)
        if epoch.added_loss:
            yield Metric("added_loss", "train", epoch.added_loss, "", None, epoch=epoch.epoch)
        if epoch.has_held_out:
            yield Metric("held_out_loss", "held-out", epoch.held_out_loss, "", False, epoch=epoch.epoch)
            yield Metric("held_out_accuracy", "held-out", epoch.held_out_accuracy, "%", True, epoch=epoch.epoch)


def cost_of(fit: Fit) -> list[Metric]:
    """The size of the network, and the time that training took.

    Args:
        fit: the trained model.
    """
    return [
        Metric("parameters", "", count_parameters(fit.network), "count", None),
        Metric("fit_seconds", "", fit.seconds, "s", False),
    ]
