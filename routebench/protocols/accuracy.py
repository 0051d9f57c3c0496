"""Test accuracy of a trained network, with as many routing iterations as it was trained with, and with others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch

from routebench.capsules.equilibrium import Solve, noting
from routebench.data import load
from routebench.models.network import count_parameters, set_iterations
from routebench.protocols.base import Context, Fit, FitRequest, Measurement, Metric, Protocol
from routebench.registry import protocols
from routebench.training import Evaluation, evaluate


@protocols.register("accuracy")
class Accuracy(Protocol):
    """Trains, then looks at the test images once: accuracy, loss, and which images were right.

    Nothing is selected by test images: the weights are those that the recipe's selection rule kept, by the last epoch
    or by the held-out part of the training images. A network with iterative routing is also tested with other numbers
    of iterations, from the same weights.

    Options:
        test_iterations: the numbers of iterations to test with, besides the one trained with.
    """

    options: ClassVar[dict[str, type]] = {"test_iterations": list[int]}

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics on the test split, the training curves, and the arrays `predicted` and `correct`."""
        fit = context.fit(request)
        test = load(request.data).test
        tested: dict[int | None, Evaluation] = {}
        rest: list[Metric] = []
        for iterations in _grid(request.iterations, options.get("test_iterations", [])):
            if iterations is not None:
                set_iterations(fit.network, iterations)
            with noting() as solves:
                tested[iterations] = evaluate(fit.network, test, request.recipe, context.device)
            rest += _rest(solves, iterations)
        if request.iterations is not None:
            set_iterations(fit.network, request.iterations)
        own = tested[request.iterations]
        arrays = {"predicted": own.predicted, "correct": own.correct.to(torch.uint8)}
        return Measurement([*_test_metrics(tested), *rest, *_curves(fit), *_cost(fit)], arrays)


def _grid(trained_with: int | None, wanted: list[int]) -> list[int | None]:
    """Numbers of iterations to test with; `[None]` for a method without iterations."""
    return [None] if trained_with is None else [*sorted({trained_with, *wanted})]


def _test_metrics(tested: Mapping[int | None, Evaluation]) -> list[Metric]:
    found = []
    for iterations, answer in tested.items():
        accuracy = Metric("accuracy", "test", answer.accuracy, "%", True, test_iterations=iterations)
        found += [accuracy, replace(accuracy, metric="loss", value=answer.loss, unit="", higher_is_better=False)]
    return found


def _rest(solves: list[Solve], iterations: int | None) -> list[Metric]:
    """Under an equilibrium schedule: how far the last update moved images, how many they took, and rest."""
    if not solves:
        return []
    residual = torch.cat([solve.residual.amax(dim=0) for solve in solves]).double()
    updates = torch.cat([solve.updates for solve in solves]).double()
    found = [Metric("updates", "test", float(updates.mean()), "count", None, test_iterations=iterations)]
    if bool(residual.isfinite().all()):  # one iteration has no residual
        at_rest = 100 * float((residual < solves[0].tolerance).double().mean())
        found.append(Metric("residual", "test", float(residual.mean()), "", False, test_iterations=iterations))
        found.append(Metric("at_rest", "test", at_rest, "%", True, test_iterations=iterations))
    return found


def _curves(fit: Fit) -> list[Metric]:
    return [
        metric
        for epoch in fit.epochs
        for metric in (
            Metric("train_loss", "train", epoch.train_loss, "", False, epoch=epoch.epoch),
            Metric("train_accuracy", "train", epoch.train_accuracy, "%", True, epoch=epoch.epoch),
            Metric("held_out_loss", "held-out", epoch.held_out_loss, "", False, epoch=epoch.epoch),
            Metric("held_out_accuracy", "held-out", epoch.held_out_accuracy, "%", True, epoch=epoch.epoch),
        )
    ]


def _cost(fit: Fit) -> list[Metric]:
    return [
        Metric("parameters", "", count_parameters(fit.network), "count", None),
        Metric("fit_seconds", "", fit.seconds, "s", False),
    ]
