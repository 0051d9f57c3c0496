"""Accuracy of a trained network on overlapping digits: all of them and no other, digit by digit."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Gt, Lt

from routebench.data import Dataset, load
from routebench.errors import UserError
from routebench.measures import HALF, Answers, best_threshold
from routebench.protocols.base import Context, FitRequest, Measurement, Metric, Protocol
from routebench.protocols.fitted import cost_of
from routebench.registry import protocols
from routebench.training import evaluate, highest

SAME = "it is `accuracy`, which is judged"


@protocols.register("overlap", version=1)
class Overlap(Protocol):
    """Trains, then looks once at test images that show one class or more each.

    A class is answered if its score is above the threshold, one for all classes, which is the best on held-out images.
    An image is right if exactly its classes are answered (Tsai et al. 2020, section 6, who do not say at which score a
    class counts). That share is the metric `accuracy` on the split test, because this is the name by which methods are
    compared with uniform routing, paired by image, ranked, and judged by `compare --gate`. It is `exact_match` too,
    under which name it is shown and not judged a second time.

    Losses and activations put scores of networks that rank classes alike at other heights, so that a fixed threshold
    compares heights: `exact_match_half` has it, at one half. `exact_match_given_count` needs none: the network is told
    how many classes each image shows and answers with so many of the highest scores. Curves of training and the choice
    of an epoch by held-out images are of that kind. Nothing is chosen by test images.

    Options:
        threshold: a fixed one instead of the best on held-out images; above 0 and below 1.
    """

    options: ClassVar[dict[str, Any]] = {"threshold": Annotated[float, Gt(0.0), Lt(1.0)]}
    chooses = "a threshold"

    def expect(self, data: Dataset) -> None:
        """Expects images that may show several classes.

        Args:
            data: the data set, with all its parts.

        Raises:
            UserError: images show one class each.
        """
        if not data.test.multi_label:
            raise UserError(
                f"protocol overlap: expected a data set whose images may show several classes, such as "
                f"diverse-multimnist5k, got {data.name}, which has one per image; choose one with --data"
            )

    def measure(self, request: FitRequest, options: Mapping[str, Any], context: Context) -> Measurement:
        """Metrics on the test split, all at the iterations trained with, and the arrays `correct` and `scores`.

        `recall` and `precision` have the coordinate `digit`, the number of the class; one that is never shown has no
        recall, one that is never answered no precision.
        """
        data = load(request.data)
        self.expect(data)
        fit = context.fit(request)
        test = evaluate(fit.network, data.test, request.recipe, context.device)
        held_out = evaluate(fit.network, data.held_out, request.recipe, context.device)
        chosen = best_threshold(held_out.scores, data.held_out.labels)
        shown = data.test.labels
        found = Answers(test.scores > options.get("threshold", chosen), shown)
        with_count = Answers(highest(test.scores, shown.sum(dim=1)), shown)
        percent = {
            "accuracy": found.exact_match(),
            "exact_match": found.exact_match(),
            "exact_match_one_digit": found.exact_match(of=shown.sum(dim=1) == 1),
            "exact_match_two_digits": found.exact_match(of=shown.sum(dim=1) == 2),
            "exact_match_half": Answers(test.scores > HALF, shown).exact_match(),
            "exact_match_given_count": with_count.exact_match(),
        }
        metrics = [
            _metric(name, value, request, undirected=SAME if name == "exact_match" else "")
            for name, value in percent.items()
            if value is not None
        ]
        metrics += [*_per_digit(found, request), *_others(found, chosen, test.loss, request), *cost_of(fit)]
        arrays = {"correct": found.correct.to(torch.uint8), "scores": test.scores.to(torch.float16)}
        return Measurement(metrics, arrays)


def _metric(name: str, value: float, request: FitRequest, undirected: str = "", **where: int) -> Metric:
    return Metric.of(name, "test", value, test_iterations=request.iterations, where=where, undirected=undirected)


def _per_digit(found: Answers, request: FitRequest) -> Iterator[Metric]:
    for digit in range(found.shown.shape[1]):
        for name, value in (("recall", found.recall(digit)), ("precision", found.precision(digit))):
            if value is not None:
                yield _metric(name, value, request, digit=digit)


def _others(found: Answers, chosen: float, loss: float, request: FitRequest) -> list[Metric]:
    steps = request.iterations
    predicted = float(found.answered.sum(dim=1).double().mean())
    return [
        Metric.of("predicted_digits", "test", predicted, test_iterations=steps),
        Metric.of("chosen_threshold", "held-out", chosen, test_iterations=steps),
        Metric.of("loss", "test", loss, test_iterations=steps),
    ]
