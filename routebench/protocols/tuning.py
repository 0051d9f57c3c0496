"""Tries settings: trains on a part of the training images and scores on another."""

from collections.abc import Mapping
from typing import Any, ClassVar

from routebench.data import Dataset, load
from routebench.errors import Diverged
from routebench.measures import Answers, best_threshold
from routebench.protocols.base import Context, Fit, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of, training_curves
from routebench.registry import protocols
from routebench.training import evaluate


@protocols.register("tuning")
class Tuning(Protocol):
    """Trains with settings that are tried, and scores them on a fold of the training images; no test image is there.

    The score is accuracy. Of images that show several classes it is the share of which exactly those are answered, with
    the threshold that is best on what the trial held out. A trial whose loss is not finite is a result: it scores
    chance, 100 / classes per cent, or 0 of several classes. `routebench tune` runs these trials; no suite names this
    protocol.

    Options:
        study: the scramble of the Sobol sequence that the settings come from.
        trial: the number of the settings among those of a configuration.
    """

    takes: ClassVar[tuple[str, ...]] = ("images", "tokens")
    options: ClassVar[dict[str, type]] = {"study": int, "trial": int}
    chooses = "settings"

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics `score` and `diverged` on the fold, and the training curves."""
        data, where = load(request.data), dict(options)
        try:
            fit = context.fit(request)
            score = _score(fit, data, request, context)
        except Diverged:
            return Measurement(
                [
                    Metric.of("score", "fold", data.chance, where=where),
                    Metric.of("diverged", "fold", 1, where=where),
                ]
            )
        return Measurement(
            [
                Metric.of("score", "fold", score, where=where),
                Metric.of("diverged", "fold", 0, where=where),
                *training_curves(fit),
                *cost_of(fit),
            ]
        )


def _score(fit: Fit, data: Dataset, request: FitRequest, context: Context) -> float:
    """Per cent of the fold's images that are answered rightly."""
    fold = evaluate(fit.network, data.test, request.recipe, context.device)
    if not data.test.multi_label:
        return fold.accuracy
    held_out = evaluate(fit.network, data.held_out, request.recipe, context.device)
    right = fold.scores > best_threshold(held_out.scores, data.held_out.labels)
    return Answers(right, data.test.labels).exact_match() or 0.0
