"""Metrics of a model of templates: how it draws, whether it collapsed, what inference without its encoder gains."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from routebench.arguments import Count, Natural, Positive
from routebench.data import Dataset, Images, load, rotate
from routebench.errors import UserError
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol, expect_one_label
from routebench.protocols.chosen import evenly
from routebench.protocols.features import UPRIGHT, View, explanation_metrics, look, shown
from routebench.protocols.fitted import cost_of
from routebench.protocols.spared import spared
from routebench.registry import protocols

from ..models.duplicates import duplicates
from ..models.probabilistic.free_form import climb
from ..models.probabilistic.health import health
from ..models.probabilistic.model import GenerativeCapsules
from .explained import LOOKED_AT
from .free_form import free_form_metrics, rule_of
from .presences import LOGITS, presence_metrics, presence_probes

TURNS = tuple(range(0, 360, 30))
"""Angles by which one digit is turned to be looked at, in degrees; figure 5."""
SHOWN_CLASS = 2
"""The digit that figures 3 and 5 show."""
SHOWN_SAMPLES = 32


@protocols.register("generation", version=1)
class Generation(Protocol):
    """Looks into models that learn without labels: templates, their use, samples, bounds, and free-form inference.

    What a model has decides what is measured: `visible(images)` says who draws what, `sample` makes images,
    `templates` are shown; free-form inference, from what the encoder says, is that of generative capsules.

    Options:
        angles: largest angles, in degrees, by which test images are turned, for reconstruction and inference.
        images: test images, evenly apart, that free-form inference is done on; 0 for none.
        probe_images: training images, evenly apart, that free-form inference is done on too, so that a second probe of
            t0 can be fitted to what it says; the first one knows only what the encoder says. 0 for none.
        steps: number of steps of free-form inference.
        learning_rate, optimiser, samples: those of free-form inference, as for
            `routebench.papers.smith.models.probabilistic.free_form.climb`.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", section 2.4 and figures 3 and 5 to 7.
    """

    options: ClassVar[dict[str, Any]] = {
        "angles": list[int],
        "images": Natural,
        "probe_images": Natural,
        "steps": Natural,
        "learning_rate": Positive,
        "optimiser": Literal["sgd", "adam"],
        "samples": Count,
    }
    chooses = "the C of a classifier"
    preload: ClassVar[tuple[str, ...]] = ("sklearn.linear_model", "sklearn.pipeline", "sklearn.preprocessing")

    def expect(self, data: Dataset) -> None:
        """Expects one class per image, which a probe reads.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: images may show several classes.
        """
        expect_one_label("generation", data)

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by angle and term of the bound; templates, samples, examples and their parts as arrays."""
        data = load(request.data)
        self.expect(data)
        fit = context.fit(request)
        network, device = fit.network, context.device
        if not hasattr(network, "reconstruction"):
            raise UserError(f"protocol generation: expected a model that reconstructs images, got {request.model}")
        angles = sorted({0, *options.get("angles", [])})
        few = data.test.at(evenly(len(data.test), LOOKED_AT))
        metrics = [*cost_of(fit), *_size(network), *_errors(network, data.test, angles, device)]
        arrays = _pictures(network, device)
        if hasattr(network, "visible"):
            with spared(metrics, "whether the model has collapsed"):
                metrics += _health(network, few, device)
            with spared(metrics, "reuse of templates in turned images"):
                metrics += _reuse(network, few, angles, device)
        if hasattr(network, "templates"):
            alike = duplicates(torch.as_tensor(network.templates))
            metrics.append(Metric.of("duplicate_templates", "", alike))
        context.progress(0.3)
        turned = _turned(data.test, device)
        arrays |= _examples(network, turned)
        if isinstance(network, GenerativeCapsules):
            probes = presence_probes(network, data, device)
            with spared(metrics, "how objects explain images"):
                metrics += explanation_metrics(network, data.test, UPRIGHT, {}, device)
            metrics += presence_metrics(network, data.test, probes, device)
            arrays["samples_again"] = _again(network, data.train, device)
            if options.get("images", 0):
                with spared(metrics, "free-form inference"):
                    metrics += free_form_metrics(network, data, angles, options, context, told=probes[LOGITS])
                    arrays |= _freely(network, turned, options)
        return Measurement(metrics, arrays)


def _size(network: nn.Module) -> list[Metric]:
    count = getattr(network, "generative_parameters", None)
    return [] if count is None else [Metric.of("generative_parameters", "", float(count))]


@torch.no_grad()
def _errors(network: nn.Module, images: Images, angles: list[int], device: torch.device) -> list[Metric]:
    """The sum of squared pixel errors of reconstructions, mean over images."""
    found = []
    for angle in angles:
        total = 0.0
        for batch in shown(images, View("maximal", angle), device):
            decoded = network.reconstruction(batch)  # type: ignore[operator]  # `measure` looks for it
            total += float((decoded - batch).square().sum())
        found.append(Metric.of("reconstruction_error", "test", total / len(images), where={"angle": angle}))
    return found


@torch.no_grad()
def _shares(network: nn.Module, images: Images, view: View, device: torch.device) -> Tensor:
    """The brightness that is seen of each template, (image, template)."""
    parts = [network.visible(batch).sum(dim=(2, 3)).cpu() for batch in shown(images, view, device)]  # type: ignore[operator]
    return torch.cat(parts)


def _health(network: nn.Module, images: Images, device: torch.device) -> Iterator[Metric]:
    """Metrics of whether the model has collapsed; presences are the first of its features."""
    seen = look(network, images, UPRIGHT, device)
    presences = next(iter(seen.features.values()))
    if float(presences.min()) < 0 or float(presences.max()) > 1:
        presences = presences.sigmoid()  # logits
    found = health(_shares(network, images, UPRIGHT, device), presences)
    yield Metric.of("template_share", "test", 100 * found.largest, where={"template": "largest"})
    yield Metric.of("effective_templates", "test", found.effective)
    yield Metric.of("dead_templates", "test", found.dead)
    yield Metric.of("idle_objects", "test", found.idle)
    yield Metric.of("objects", "", presences.shape[1])
    yield Metric.of("collapsed", "test", float(bool(found.collapsed)))


def _reuse(network: nn.Module, images: Images, angles: list[int], device: torch.device) -> Iterator[Metric]:
    """Likeness of the shares of templates in a digit as it is and turned: their cosine, mean over images."""
    upright = _shares(network, images, UPRIGHT, device)
    for angle in angles:
        shares = _shares(network, images, View("maximal", angle), device)
        alike = torch.cosine_similarity(upright.double(), shares.double(), dim=1)
        yield Metric.of("template_reuse", "test", float(alike.mean()), where={"angle": angle})


@torch.no_grad()
def _pictures(network: nn.Module, device: torch.device) -> dict[str, Tensor]:
    """Templates and samples, where the model has such."""
    found = {}
    if hasattr(network, "templates"):
        found["templates"] = _grey(torch.as_tensor(network.templates))
    if hasattr(network, "sample"):
        found["samples"] = _grey(network.sample(SHOWN_SAMPLES, torch.Generator(device).manual_seed(0)))  # type: ignore[operator]
    return found


@torch.no_grad()
def _again(network: GenerativeCapsules, images: Images, device: torch.device) -> Tensor:
    """Images made from the objects of training images."""
    (seen,) = shown(images.at(evenly(len(images), SHOWN_SAMPLES)), UPRIGHT, device)
    return _grey(network.sample_again(seen, torch.Generator(device).manual_seed(0)))


def _turned(test: Images, device: torch.device) -> Tensor:
    """One digit, turned by each of `TURNS`."""
    wanted = (test.labels == SHOWN_CLASS).nonzero()
    first = int(wanted[0, 0]) if len(wanted) else 0
    pixels = test.pixels[first].to(device).float() / 255
    return rotate(pixels.expand(len(TURNS), *pixels.shape).contiguous(), torch.tensor(TURNS, dtype=torch.float))


@torch.no_grad()
def _examples(network: nn.Module, turned: Tensor) -> dict[str, Tensor]:
    """A turned digit, its reconstructions, and what each template has in them."""
    found = {"turned": _grey(turned), "turned_reconstructions": _grey(network.reconstruction(turned))}  # type: ignore[operator]
    if hasattr(network, "visible"):
        found["turned_parts"] = _grey(network.visible(turned))  # type: ignore[operator]
    return {**found, "turns": torch.tensor(TURNS)}


def _freely(network: GenerativeCapsules, turned: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
    """The turned digit as free-form inference reconstructs it; figure 3."""
    draws = torch.Generator(turned.device).manual_seed(0)
    posterior = climb(network, turned, generator=draws, **rule_of(options)).posterior
    return {"turned_free_form": _grey(network.drawn(posterior.parts.middle(), turned).detach())}


def _grey(values: Tensor) -> Tensor:
    return (255 * values.detach()).round().clamp(0, 255).to(torch.uint8).cpu()
