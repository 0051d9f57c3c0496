"""Concentration of capsule outputs and couplings, and whether routing has come to rest."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from routebench import measures
from routebench.arguments import Count
from routebench.capsules.equilibrium import noting
from routebench.data import Dataset, Images, load
from routebench.errors import UserError
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.chosen import evenly
from routebench.protocols.coupling_maps import mapped_examples, right_and_wrong
from routebench.protocols.spared import spared
from routebench.protocols.static import TRAINING, gradient_metrics, layer_names, static_metrics
from routebench.protocols.traced import LayerTrace, Trace, trace
from routebench.protocols.vote_distances import distances_of, first_of_classes, gathered, vote_distances
from routebench.registry import protocols
from routebench.training import answers, is_right

THRESHOLDS = (0.1, 0.5)
"""Activities above which a capsule counts as active."""
BATCH = 250
EXAMPLES = 10
"""Classes of which the first test image's capsules are kept as they are."""
UNSETTLED = "routing of few iterations is not meant to come to rest"


@protocols.register("sparsity", version=2)
class Sparsity(Protocol):
    """Looks at the capsules of every layer on all test images, and at the coupling on some.

    Activity is measured twice: as the length of poses, and as activations, which for the class layer are the scores.
    For methods whose poses have a fixed length only the second says anything.

    Options:
        follow: iterations up to which coupling and residual are followed, from the same weights.
        images: test images for those, taken evenly out of the test part; all images are used for activity.

    Source: the quantities are those of "Capsule networks as generative models", figure 1, for which the paper defines
    no statistic; the statistics are named in `routebench.measures`.
    """

    options: ClassVar[dict[str, Any]] = {"follow": Count, "images": Count}

    def expect(self, data: Dataset) -> None:
        """Expects test images of one class, of which examples are kept; others may show several.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: no test image shows one class alone.
        """
        if data.test.multi_label and not (data.test.labels.sum(dim=1) == 1).any():
            raise UserError(
                f"protocol sparsity: expected test images that show one class alone, got {data.name}, which has none; "
                "add some, or choose another data set with --data"
            )

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics by layer, and arrays: example capsules, histograms of vote distances, and maps of coupling."""
        data = load(request.data)
        self.expect(data)
        fit, test = context.fit(request), data.test
        traced = _traces(fit.network, test, context)
        metrics = [_right_answers(traced, test), *_activity_metrics(traced)]
        arrays = _examples(fit.network, test, context.device)
        if traced.lengths:  # it has capsules
            some = test.at(evenly(len(test), int(options.get("images", BATCH))))
            steps = int(options.get("follow", 10))
            metrics += _iteration_metrics(fit.network, some, request.iterations, steps, context)
            train = data.train.at(evenly(len(data.train), min(TRAINING, len(data.train))))
            with spared(metrics, "accuracy with the mean coupling of training images"):
                metrics += static_metrics(fit.network, train, test, context.device)
            with spared(metrics, "gradients through routing"):
                metrics += gradient_metrics(fit.network, train, request.recipe, context.device)
            with spared(metrics, "distances of votes"):
                arrays |= vote_distances(fit.network, test.with_one_label(), request.iterations, context.device)
            with spared(metrics, "maps of coupling"):
                arrays |= _maps(fit.network, test, traced, request.iterations, context.device)
        return Measurement(metrics, arrays)


class _Activities:
    """Activities of every layer's capsules with all test images."""

    def __init__(self) -> None:
        self.lengths: dict[str, list[Tensor]] = {}
        self.activations: dict[str, list[Tensor]] = {}


def _traces(network: nn.Module, test: Images, context: Context) -> _Activities:
    """Lengths of poses and activations, by layer, of all test images."""
    found = _Activities()
    for start in range(0, len(test), BATCH):
        with torch.no_grad():
            output = network(_pixels(test, start, BATCH, context.device))
        names = layer_names(len(output.layers))
        for name, capsules in zip(names, output.layers, strict=True):
            flat = capsules.flat()
            scores = output.scores if name == "classes" else flat.activations
            found.lengths.setdefault(name, []).append(flat.poses.norm(dim=-1).cpu())
            found.activations.setdefault(name, []).append(scores.cpu())
        if not output.layers:
            found.activations.setdefault("classes", []).append(output.scores.cpu())
        context.progress(0.5 * start / len(test))
    return found


def _right_answers(found: _Activities, test: Images) -> Metric:
    """Share of test images that are classified rightly: `accuracy` is what methods are compared by, in other suites."""
    right = is_right(answers(torch.cat(found.activations["classes"]), test.labels), test.labels)
    return Metric.of("right_answers", "test", 100 * float(right.double().mean()))


def _activity_metrics(found: _Activities) -> Iterator[Metric]:
    for of, layers in (("length", found.lengths), ("activation", found.activations)):
        for layer, parts in layers.items():
            activity = torch.cat(parts).double()
            for name, value in _statistics(activity).items():
                yield Metric.of(name, "test", value, where={"layer": layer, "of": of, "capsules": activity.shape[1]})


def _statistics(activity: Tensor) -> dict[str, float]:
    per_image = {
        "norm_entropy": measures.norm_entropy(activity),
        "hoyer": measures.hoyer(activity),
        "gini": measures.gini(activity),
        "top_share": measures.top_share(activity),
        "population_sparsity": measures.population_sparsity(activity),
        "lifetime_sparsity": measures.lifetime_sparsity(activity),
    }
    per_image |= {f"active_above_{threshold:g}": measures.active(activity, threshold) for threshold in THRESHOLDS}
    found = {name: float(values.mean()) for name, values in per_image.items()}
    found["dead_share"] = measures.dead_share(activity, THRESHOLDS[0])
    found["d_score"] = measures.spread_over_images(activity)
    return found


def _iteration_metrics(
    network: nn.Module, images: Images, trained_with: int | None, steps: int, context: Context
) -> list[Metric]:
    """Coupling after each number of iterations, how far the last one moved the parents, and how votes gather."""
    metrics: list[Metric] = []
    apart: dict[int, tuple[Tensor, Tensor]] = {}
    before: Trace | None = None
    pixels = _pixels(images, 0, len(images), context.device)
    counts: list[int | None] = [None] if trained_with is None else [*range(1, max(steps, trained_with) + 1)]
    for iterations in counts:
        missing: list[Metric] = []
        others = spared(missing, f"coupling with {iterations} iterations", iterations)
        with noting() as solves, nullcontext() if iterations == trained_with else others:
            now = trace(network, pixels, iterations)
        if missing:
            metrics += missing
            before = None
            continue
        for number, layer in enumerate(now.layers):
            where: dict[str, int | str] = {"layer": layer_names(len(now.layers) + 1)[number + 1]}
            metrics += [
                Metric.of(name, "test", value, test_iterations=iterations, where=where)
                for name, value in _coupling_statistics(layer).items()
            ]
            if before is not None:
                moved = measures.residual(before.layers[number].capsules.flat().poses, layer.capsules.flat().poses)
                if solves:  # an image at rest moves no more whatever the limit: what counts is its last update
                    moved = solves[-1].residual[number]
                value = float(moved.double().mean())
                metrics.append(
                    Metric.of("residual", "test", value, test_iterations=iterations, where=where, undirected=UNSETTLED)
                )
        if (iterations or 1) <= (trained_with or 1) and (found := distances_of(now.layers[-1])) is not None:
            apart[iterations or 1] = found
        before = now
        context.progress(0.5 + 0.4 * (iterations or 1) / len(counts))
    return [*metrics, *_gathering(apart, images)]


def _gathering(apart: Mapping[int, tuple[Tensor, Tensor]], images: Images) -> Iterator[Metric]:
    """Metrics of class capsules, for what is known up to the T trained with; none for images of several classes."""
    if apart and not images.multi_label:
        for iterations, value in zip(apart, gathered([*apart.values()], images.labels), strict=True):
            yield Metric.of("gathered", "test", value, test_iterations=iterations, where={"layer": "classes"})


def _coupling_statistics(layer: LayerTrace) -> dict[str, float]:
    """Means over lanes and children; `weighted` counts a child by its activation."""
    if layer.coupling is None:
        return {}
    coupling, present = layer.coupling.double(), layer.present.double()
    weights = present / present.sum().clamp(min=1e-12)
    score = measures.t_score(coupling)
    images = len(layer.capsules.poses)
    mass = (coupling * present[..., None]).sum(dim=1)
    return {
        "coupling_entropy": float(measures.coupling_entropy(coupling).mean()),
        "effective_parents": float(measures.effective_parents(coupling).mean()),
        "t_score": float(score.mean()),
        "t_score_weighted": float((score * weights).sum()),
        "share_between": measures.share_between(coupling.reshape(images, -1, coupling.shape[2])),
        "starved_share": measures.starved_share(mass.reshape(images, -1, coupling.shape[2])),
    }


@torch.no_grad()
def _examples(network: nn.Module, test: Images, device: torch.device) -> dict[str, Tensor]:
    """Class capsules of one test image per class: poses, where there are any, scores and labels."""
    test = test.with_one_label()
    chosen = test.at(first_of_classes(test, EXAMPLES))
    output = network(_pixels(chosen, 0, EXAMPLES, device))
    found = {"example_scores": output.scores, "example_labels": chosen.labels}
    return found | ({"example_poses": output.layers[-1].flat().poses.contiguous()} if output.layers else {})


def _maps(
    network: nn.Module, test: Images, found: _Activities, iterations: int | None, device: torch.device
) -> dict[str, Tensor]:
    """Maps of coupling of images that are answered rightly, and of others; none where images show several classes."""
    if test.multi_label:
        return {}
    scores = torch.cat(found.activations["classes"])
    return mapped_examples(network, test.at(right_and_wrong(test.labels, scores.argmax(dim=1))), iterations, device)


def _pixels(images: Images, start: int, count: int, device: torch.device) -> Tensor:
    return images.pixels[start : start + count].to(device).to(torch.float32).div(255)
