"""Probes of the class from presences of objects: as the encoder says them, and as the model itself sees them."""

from collections.abc import Iterator, Mapping

import torch
from torch import Generator, Tensor

from routebench.data import Dataset, Images
from routebench.protocols.base import Metric
from routebench.protocols.features import UPRIGHT, shown
from routebench.protocols.probe import Probe, fit_probe

from ..models.probabilistic.model import GenerativeCapsules

LOGITS, DRAWN = "logits", "drawn"


def presence_probes(network: GenerativeCapsules, data: Dataset, device: torch.device) -> dict[str, Probe]:
    """Linear probes of t0 on upright images: of its `logits`, and of logits `drawn` from its posterior.

    A probe standardises what it reads, so that it may tell classes by differences of logits that are far below the
    noise of a presence (a logistic one, with a standard deviation of 1.8 times the temperature), and of which the bound
    takes no notice. A probe of presences that were drawn is told no more than the parts of the model are.

    Args:
        network: the trained network.
        data: the data set that it was trained on.
        device: the network's device.
    """
    train, held_out = (_said(network, part, device) for part in (data.train, data.held_out))
    return {
        kind: fit_probe(train[kind], data.train.labels, held_out[kind], data.held_out.labels)
        for kind in (LOGITS, DRAWN)
    }


def presence_metrics(
    network: GenerativeCapsules, test: Images, probes: Mapping[str, Probe], device: torch.device
) -> Iterator[Metric]:
    """Accuracies of the probes of `presence_probes` on test images, and how far logits differ between these.

    Args:
        network: the trained network.
        test: test images.
        probes: the probes, by kind of presences.
        device: the network's device.

    Yields:
        `presence_accuracy` in per cent by kind, and `presence_spread`, a mean standard deviation of logits.
    """
    said = _said(network, test, device)
    for kind, probe in probes.items():
        right = (probe.predict(said[kind]) == test.labels).double().mean()
        yield Metric.of("presence_accuracy", "test", 100 * float(right), where={"presences": kind})
    spread = float(said[LOGITS].std(dim=0, correction=0).mean())
    yield Metric.of("presence_spread", "test", spread)


@torch.no_grad()
def _said(network: GenerativeCapsules, images: Images, device: torch.device) -> dict[str, Tensor]:
    """Logits of q(t0 | t1, A1) at the centre of parts, and logits drawn from it at drawn parts, (image, object)."""
    draws = Generator(device).manual_seed(0)
    found: dict[str, list[Tensor]] = {LOGITS: [], DRAWN: []}
    for batch in shown(images, UPRIGHT, device):
        found[LOGITS].append(network.middle(batch).objects.log_odds.cpu())
        found[DRAWN].append(network.infer(batch, draws)[1].objects.presences.cpu())
    return {kind: torch.cat(values) for kind, values in found.items()}
