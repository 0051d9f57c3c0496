"""Tries settings: trains on a part of the training images and scores on another."""

from collections.abc import Mapping
from typing import Any, ClassVar

from routebench.data import load
from routebench.errors import Diverged
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of, training_curves
from routebench.registry import protocols
from routebench.training import evaluate


@protocols.register("tuning")
class Tuning(Protocol):
    """Trains with settings that are tried, and scores them on a fold of the training images; no test image is there.

    A trial whose loss is not finite is a result: it scores chance, 100 / classes per cent. `routebench tune` runs these
    trials; no suite names this protocol.

    Options:
        study: the scramble of the Sobol sequence that the settings come from.
        trial: the number of the settings among those of an entry.
    """

    options: ClassVar[dict[str, type]] = {"study": int, "trial": int}
    chooses = "settings"

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics `score` and `diverged` on the fold, and the training curves."""
        data, where = load(request.data), dict(options)
        try:
            fit = context.fit(request)
        except Diverged:
            chance = 100 / len(data.classes)
            return Measurement(
                [
                    Metric("score", "fold", chance, "%", True, where=where),
                    Metric("diverged", "fold", 1, "", None, where=where),
                ]
            )
        answer = evaluate(fit.network, data.test, request.recipe, context.device)
        return Measurement(
            [
                Metric("score", "fold", answer.accuracy, "%", True, where=where),
                Metric("diverged", "fold", 0, "", None, where=where),
                *training_curves(fit),
                *cost_of(fit),
            ]
        )
