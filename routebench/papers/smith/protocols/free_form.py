"""Gains of free-form inference over the encoder: bound, error, what a probe of t0 says, and what it costs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from routebench.data import Dataset, Images
from routebench.protocols.base import Context, Metric
from routebench.protocols.chosen import evenly
from routebench.protocols.features import UPRIGHT, View, shown
from routebench.protocols.probe import Probe, fit_probe

from ..models.probabilistic.free_form import climb, mean_bound
from ..models.probabilistic.model import GenerativeCapsules, Posterior

BATCH = 100
SAMPLES = 8
"""Samples of the bound, where two bounds are compared."""
ENCODER, FREE = "encoder", "free-form"
RULE = ("steps", "learning_rate", "optimiser", "samples")
"""Options of a suite that say how `climb` climbs."""
REFITTED_BOTH = "refitted_both_accuracy"


@dataclass
class _Said:
    """Answers of one kind of inference to images; `encoded`: what the object encoder says of the parts it found."""

    bounds: list[Tensor] = field(default_factory=list)
    errors: list[Tensor] = field(default_factory=list)
    presences: list[Tensor] = field(default_factory=list)
    poses: list[Tensor] = field(default_factory=list)
    encoded: list[Tensor] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def logits(self) -> Tensor:
        """Logits of t0, (image, object)."""
        return torch.cat(self.presences).cpu()

    @property
    def both(self) -> Tensor:
        """Logits of t0 and A0 side by side, (image, object x 7)."""
        return torch.cat([self.logits, torch.cat(self.poses).flatten(1).cpu()], dim=1)


def free_form_metrics(
    network: GenerativeCapsules,
    data: Dataset,
    angles: Sequence[int],
    options: Mapping[str, Any],
    context: Context,
    *,
    told: Probe,
) -> Iterator[Metric]:
    """Metrics for each angle, by the encoder and after climbing, with the same images and samples of the bound.

    Args:
        network: the trained network.
        data: the data set that it was trained on.
        angles: largest angles by which test images are turned.
        options: `images`, `probe_images` and those of `RULE`, as for the protocol `generation`.
        context: tells the device, and is told of progress.
        told: a probe of what the encoder says of t0.
    """
    device = context.device
    probes = {name: {"free_form_accuracy": told} for name in (ENCODER, FREE)}
    if few := int(options.get("probe_images", 0)):
        for name, refitted in _refitted(network, data.train.at(evenly(len(data.train), few)), options, device).items():
            probes[name] |= refitted
    images = data.test.at(evenly(len(data.test), int(options["images"])))
    for number, angle in enumerate(angles):
        said = _inferred(network, images, View("maximal", angle), options, device)
        for name, found in said.items():
            yield from _metrics(found, probes[name], images.labels, {"inference": name, "angle": angle})
        gain = _accuracy(told, said[FREE].logits, images.labels) - _accuracy(told, said[ENCODER].logits, images.labels)
        yield Metric.of("free_form_gain", "test", gain, where={"angle": angle})
        context.progress(0.3 + 0.7 * (number + 1) / len(angles))


def rule_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a suite gives to `climb`.

    Args:
        options: the suite's settings for the protocol `generation`.
    """
    return {name: options[name] for name in RULE if name in options}


def _refitted(
    network: GenerativeCapsules, images: Images, options: Mapping[str, Any], device: torch.device
) -> dict[str, dict[str, Probe]]:
    """Probes of what each kind of inference says of the same training images, a third of which choose C.

    Of t0 alone and of t0 and A0, by the metric that each gives.
    """
    said = _inferred(network, images, UPRIGHT, options, device)
    chosen = torch.arange(len(images)) % 3 == 0
    labels = images.labels
    return {
        name: {
            metric: fit_probe(told[~chosen], labels[~chosen], told[chosen], labels[chosen])
            for metric, told in (("refitted_accuracy", found.logits), (REFITTED_BOTH, found.both))
        }
        for name, found in said.items()
    }


def _inferred(
    network: GenerativeCapsules, images: Images, view: View, options: Mapping[str, Any], device: torch.device
) -> dict[str, _Said]:
    draws = torch.Generator(device).manual_seed(0)
    said = {ENCODER: _Said(), FREE: _Said()}
    for seen in shown(images, view, device):
        for batch in torch.split(seen, BATCH):
            start = _now(device)
            with torch.no_grad():
                encoded = network.middle(batch)
            middle = _now(device)
            climbed = climb(network, batch, generator=draws, **rule_of(options)).posterior
            for name, posterior, seconds in (
                (ENCODER, encoded, middle - start), (FREE, climbed, _now(device) - middle)
            ):  # fmt: skip
                _note(network, batch, posterior, said[name])
                said[name].seconds += seconds
    return said


@torch.no_grad()
def _note(network: GenerativeCapsules, batch: Tensor, posterior: Posterior, said: _Said) -> None:
    same = torch.Generator(batch.device).manual_seed(1)
    said.bounds.append(mean_bound(network, batch, posterior, samples=SAMPLES, generator=same))
    drawn = network.drawn(posterior.parts.middle(), batch)
    said.errors.append((drawn - batch).square().sum(dim=(1, 2, 3)))
    said.presences.append(posterior.objects.log_odds)
    said.poses.append(posterior.objects.poses)
    said.encoded.append(network.object_encoder(posterior.parts.middle()).log_odds)


def _metrics(
    said: _Said, probes: Mapping[str, Probe], labels: Int[Tensor, " image"], where: Mapping[str, int | str]
) -> Iterator[Metric]:
    yield Metric.of("free_form_bound", "test", float(torch.cat(said.bounds).mean()), where=where)
    yield Metric.of("free_form_error", "test", float(torch.cat(said.errors).mean()), where=where)
    yield Metric.of("seconds_per_image", "test", said.seconds / len(labels), where=where)
    for name, probe in probes.items():
        told = said.both if name == REFITTED_BOTH else said.logits
        yield Metric.of(name, "test", _accuracy(probe, told, labels), where=where)
    encoded = torch.cat(said.encoded).cpu()
    accuracy = _accuracy(probes["free_form_accuracy"], encoded, labels)
    yield Metric.of("reencoded_accuracy", "test", accuracy, where=where)


def _accuracy(probe: Probe, logits: Tensor, labels: Int[Tensor, " image"]) -> float:
    """The accuracy in per cent of a probe's answers to logits."""
    return 100 * float((probe.predict(logits) == labels).double().mean())


def _now(device: torch.device) -> float:
    """Seconds; a GPU has done all it was told by then."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
