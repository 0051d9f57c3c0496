"""Metrics of how generative capsules explain images: the bound, and what their presences have to do with the image."""

from collections.abc import Iterator, Mapping

import torch
from torch import Generator, Tensor

from routebench.data import Images
from routebench.protocols.base import Metric
from routebench.protocols.chosen import evenly
from routebench.protocols.features import View, explanation_metrics, shown

from ..models.probabilistic.information import information, share_that_varies
from ..models.probabilistic.model import GenerativeCapsules

LOOKED_AT = 500
"""Test images, evenly apart, so that presences can say 6.2 nats of them at most."""
DRAWS = 16
"""Draws of the presences of each image."""
POSES = {"delta": "certain", "objects": "normal of objects", "full": "normal"}
"""Words for poses by kind of posterior; bounds of different kinds do not compare."""


@explanation_metrics.register(GenerativeCapsules)
def bounds_and_presences(
    network: GenerativeCapsules, test: Images, view: View, where: Mapping[str, int | str], device: torch.device
) -> Iterator[Metric]:
    """Terms of the bound, what presences say of the image, how often parts are on, and how many change their object.

    Args:
        network: the trained network.
        test: test images, of which `LOOKED_AT` are looked at.
        view: how they are shown.
        where: coordinates of every metric.
        device: the network's device.
    """
    few = test.at(evenly(len(test), LOOKED_AT))
    yield from _bounds(network, few, view, where, device)
    log_odds, varies = _said(network, few, view, device)
    for layer, said in log_odds.items():
        told = information(said, network.temperature, draws=DRAWS, generator=Generator().manual_seed(0))
        yield Metric.of("presence_information", "test", told, where={**where, "layer": layer})
        present = float(said.sigmoid().mean())
        yield Metric.of("mean_presence", "test", present, where={**where, "layer": layer})
    yield Metric.of("varying_choices", "test", 100 * varies, where=where)


@torch.no_grad()
def _bounds(
    network: GenerativeCapsules, images: Images, view: View, where: Mapping[str, int | str], device: torch.device
) -> list[Metric]:
    """Terms of the bound in nats, mean over images, and their sum with and without the constant of certain poses."""
    draws = Generator(device).manual_seed(0)
    found: dict[str, float] = {}
    for batch in shown(images, view, device):
        for term, values in vars(network.bound(batch, *network.infer(batch, draws))).items():
            found[term] = found.get(term, 0.0) + float(values.sum()) / len(images)
    total = sum(found.values())
    terms = {**found, "total": total, "total without constant": total - network.constant}
    where = {**where, "poses": POSES[network.posterior]}
    return [Metric.of("bound", "test", value, where={**where, "term": term}) for term, value in terms.items()]


@torch.no_grad()
def _said(
    network: GenerativeCapsules, images: Images, view: View, device: torch.device
) -> tuple[dict[str, Tensor], float]:
    """Log odds of presences by layer, (image, capsule), and the share of parts whose choice of object varies."""
    found: dict[str, list[Tensor]] = {"objects": [], "parts": []}
    choices = []
    for batch in shown(images, view, device):
        posterior = network.middle(batch)
        for layer, belief in vars(posterior).items():
            found[layer].append(belief.log_odds.cpu())
        objects, parts = posterior.objects.middle(), posterior.parts.middle()
        choices.append(network.part_whole.responsibilities(objects, parts).cpu())
    return {layer: torch.cat(values) for layer, values in found.items()}, share_that_varies(torch.cat(choices))
