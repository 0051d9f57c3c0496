"""Test accuracy of a trained network, with as many routing iterations as it was trained with, and with others."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from routebench.arguments import Count
from routebench.capsules.equilibrium import Solve, noting
from routebench.data import load
from routebench.models.network import set_iterations
from routebench.protocols.base import Context, Fit, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of, training_curves
from routebench.protocols.spared import spared
from routebench.registry import protocols
from routebench.training import Evaluation, evaluate

UNBALANCED = 1.5
"""Test images of the commonest class for each of the rarest, from which accuracy alone misleads."""


@protocols.register("accuracy")
class Accuracy(Protocol):
    """Trains, then looks at the test images once: accuracy, loss, and which images were right.

    Nothing that is called `accuracy` is selected by test images: the weights are those that the recipe's selection rule
    kept, by the last epoch or by the held-out part of the training images. A network with iterative routing is also
    tested with other numbers of iterations, from the same weights. Where it cannot do that, those values are missing.

    Where test images are unbalanced between classes, `balanced_accuracy` is the mean over classes of the share that is
    right, and `commonest_share` what the answer of the commonest class alone would reach.

    Options:
        test_iterations: the numbers of iterations to test with, besides the one trained with.
        best_on_test: also say what papers report that pick the best epoch by test images: `best_test_accuracy`, and the
            test accuracy after every epoch. It is optimistic, and never compared with others' `accuracy`.
    """

    takes: ClassVar[tuple[str, ...]] = ("images", "tokens")
    options: ClassVar[dict[str, Any]] = {"test_iterations": list[Count], "best_on_test": bool}

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics on the test split, the training curves, and the arrays `predicted` and `correct`."""
        fit = context.fit(replace(request, tested=bool(options.get("best_on_test", False))))
        test = load(request.data).test
        tested: dict[int | None, Evaluation] = {}
        rest: list[Metric] = []
        for iterations in _grid(request.iterations, options.get("test_iterations", [])):
            others = spared(rest, f"accuracy with {iterations} iterations", iterations)
            with noting() as solves, nullcontext() if iterations == request.iterations else others:
                if iterations is not None:
                    set_iterations(fit.network, iterations)
                tested[iterations] = evaluate(fit.network, test, request.recipe, context.device)
            rest += _rest(solves, iterations) if iterations in tested else []
        if request.iterations is not None:
            set_iterations(fit.network, request.iterations)
        own = tested[request.iterations]
        arrays = {"predicted": own.predicted, "correct": own.correct.to(torch.uint8)}
        return Measurement(
            [
                *_test_metrics(tested),
                *_over_classes(test.labels, tested),
                *rest,
                *_best_on_test(fit),
                *training_curves(fit),
                *cost_of(fit),
            ],
            arrays,
        )


def _grid(trained_with: int | None, wanted: list[int]) -> list[int | None]:
    """Numbers of iterations to test with; `[None]` for a method without iterations."""
    return [None] if trained_with is None else [*sorted({trained_with, *wanted})]


def _test_metrics(tested: Mapping[int | None, Evaluation]) -> list[Metric]:
    found = []
    for iterations, answer in tested.items():
        found.append(Metric.of("accuracy", "test", answer.accuracy, test_iterations=iterations))
        found.append(Metric.of("loss", "test", answer.loss, test_iterations=iterations))
    return found


def _over_classes(labels: Tensor, tested: Mapping[int | None, Evaluation]) -> list[Metric]:
    """Metrics of unbalanced classes: share of the commonest, and the mean over classes of the share that is right."""
    counts = labels.bincount() if labels.ndim == 1 else labels.new_empty(0)
    shown = counts.nonzero()[:, 0]
    if len(shown) < 2 or int(counts.max()) < UNBALANCED * int(counts[shown].min()):
        return []
    found = [Metric.of("commonest_share", "test", 100 * int(counts.max()) / len(labels))]
    for iterations, answer in tested.items():
        if len(answer.correct):  # a network may say no class
            recalls = torch.stack([answer.correct[labels == label].double().mean() for label in shown])
            value = 100 * float(recalls.mean())
            found.append(Metric.of("balanced_accuracy", "test", value, test_iterations=iterations))
    return found


def _rest(solves: list[Solve], iterations: int | None) -> list[Metric]:
    """Metrics of an equilibrium schedule: how far the last update moved images, how many they took, and rest."""
    if not solves:
        return []
    residual = torch.cat([solve.residual.amax(dim=0) for solve in solves]).double()
    updates = torch.cat([solve.updates for solve in solves]).double()
    found = [Metric.of("updates", "test", float(updates.mean()), test_iterations=iterations)]
    if bool(residual.isfinite().all()):  # one iteration has no residual
        at_rest = 100 * float((residual < solves[0].tolerance).double().mean())
        found.append(Metric.of("residual", "test", float(residual.mean()), test_iterations=iterations))
        found.append(Metric.of("at_rest", "test", at_rest, test_iterations=iterations))
    return found


def _best_on_test(fit: Fit) -> list[Metric]:
    """Metrics that a selection by test images would have reported."""
    if not fit.test_accuracy:
        return []
    curve = [
        Metric.of("test_accuracy", "test", accuracy, epoch=epoch)
        for epoch, accuracy in enumerate(fit.test_accuracy, start=1)
    ]
    return [*curve, Metric.of("best_test_accuracy", "test", max(fit.test_accuracy))]
