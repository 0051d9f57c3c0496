"""A linear classifier on fixed features: what a linear reader can tell of the classes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

GRID = (1e-3, 1e-2, 0.1, 1.0, 10.0)
"""Values of C, the inverse strength of the L2 penalty on standardised features."""
MOST_STEPS = 1000
TOLERANCE = 1e-4
"""Largest element of the gradient at which L-BFGS stops."""

Features = Float[Tensor, "image feature"]
Labels = Int[Tensor, " image"]


@dataclass(frozen=True)
class Probe:
    """A trained classifier.

    Args:
        pipeline: scikit-learn's scaler and classifier.
        regulariser: the C that was chosen.
        held_out_loss: cross entropy in nats on the held-out part, by which it was chosen.
        held_out_accuracy: per cent, of the chosen one.
        steps: number of steps of L-BFGS.
        converged: whether it stopped by itself.
    """

    pipeline: Any
    regulariser: float
    held_out_loss: float
    held_out_accuracy: float
    steps: int
    converged: bool

    def predict(self, features: Features) -> Labels:
        """The likeliest class of every image.

        Args:
            features: those of the kind that it was fitted to, (image, feature).

        Returns:
            numbers of classes, (image).
        """
        return torch.from_numpy(self.pipeline.predict(_array(features)))


def fit_probe(
    train: Features,
    labels: Labels,
    held_out: Float[Tensor, "held_out feature"],
    held_out_labels: Int[Tensor, " held_out"],
    grid: Sequence[float] = GRID,
) -> Probe:
    """Multinomial logistic regression, whose C has the lowest cross entropy on the held-out part.

    Features are standardised by the training part. The held-out part only chooses C: nothing is fitted again with it.
    Of equal C the smallest, which is the strongest penalty, is taken. Nothing is drawn at random.

    Source: Smith et al., "Capsule networks: a probabilistic perspective", section 5.2, which names neither solver nor
    penalty.

    Args:
        train: features of training images, (image, feature), on the CPU.
        labels: their classes, (image).
        held_out: features of held-out images, (image, feature), on the CPU.
        held_out_labels: their classes, (image).
        grid: the values of C to choose from, at least one.

    Raises:
        ValueError: a feature is not finite, or there is no C to choose from.
    """
    from sklearn.metrics import log_loss  # only here: it takes a second to import

    if not bool(torch.isfinite(train).all() and torch.isfinite(held_out).all()):
        raise ValueError("linear probe: expected finite features, got some that are not; nothing can be fitted to them")
    beside, best = _array(held_out), None
    for strength in sorted(grid):
        pipeline = _fitted(_array(train), labels, strength)
        loss = float(log_loss(held_out_labels.numpy(), pipeline.predict_proba(beside), labels=pipeline.classes_))
        if best is None or loss < best[1]:
            best = pipeline, loss, strength
    if best is None:
        raise ValueError("linear probe: expected at least one C, got none")
    pipeline, loss, strength = best
    steps = int(pipeline[-1].n_iter_.max())
    accuracy = 100 * float(pipeline.score(beside, held_out_labels.numpy()))
    return Probe(pipeline, strength, loss, accuracy, steps, converged=steps < MOST_STEPS)


def _fitted(train: Any, labels: Labels, strength: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    classifier = LogisticRegression(C=strength, max_iter=MOST_STEPS, tol=TOLERANCE)
    # Runs go side by side: each would have its BLAS take all cores, and all would wait for each other.
    with threadpool_limits(torch.get_num_threads()), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is a metric
        return make_pipeline(StandardScaler(), classifier).fit(train, labels.numpy())


def _array(features: Features) -> Any:
    return features.float().numpy()
