"""Answers to images that may show several classes: which are right, and above which score a class is answered."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

HALF = 0.5
CHOICES = torch.arange(1, 100, dtype=torch.float32) / 100
"""Thresholds of which one is chosen by held-out images."""


@dataclass(frozen=True)
class Answers:
    """Classes that are answered, and classes that are shown."""

    answered: Bool[Tensor, "image classes"]
    shown: Bool[Tensor, "image classes"]

    @property
    def correct(self) -> Bool[Tensor, " image"]:
        """Tells whether exactly the classes shown are answered."""
        return (self.answered == self.shown).all(dim=1)

    def exact_match(self, of: Bool[Tensor, " image"] | None = None) -> float | None:
        """Share (%) of images that are right, among all or those chosen; None where there is none.

        Args:
            of: the images that count, one truth value each; None for all.
        """
        return share(self.correct if of is None else self.correct[of])

    def recall(self, label: int) -> float | None:
        """Share (%) of the images showing a class in which it is answered.

        Args:
            label: number of the class, from 0.
        """
        return share(self.answered[self.shown[:, label], label])

    def precision(self, label: int) -> float | None:
        """Share (%) of the images in which a class is answered that show it.

        Args:
            label: number of the class, from 0.
        """
        return share(self.shown[self.answered[:, label], label])


def share(right: Bool[Tensor, " n"]) -> float | None:
    """The share in per cent; None of nothing."""
    return 100 * float(right.double().mean()) if len(right) else None


def best_threshold(scores: Float[Tensor, "image classes"], shown: Bool[Tensor, "image classes"]) -> float:
    """The threshold of 0.01, 0.02 to 0.99 with the most images right; of equally good ones, the nearest to 0.5.

    Args:
        scores: (image, class); a class is answered where its score is above the threshold.
        shown: which classes each image shows, (image, class).
    """
    right = torch.stack([((scores > choice) == shown).all(dim=1).sum() for choice in CHOICES])
    best = CHOICES[right == right.max()]
    return float(best[(best - HALF).abs().argmin()])
