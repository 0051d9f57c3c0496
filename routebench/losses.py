"""Training objectives of the source papers: from a network's output and the labels to a mean over images."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from routebench.errors import UserError
from routebench.models.network import Output

Labels = Int[Tensor, " batch"] | Bool[Tensor, "batch classes"]
"""The class of every image; or, where an image may show several at once, whether it shows each."""
Loss = Callable[[Output, Labels, "Moment"], Float[Tensor, ""]]


@dataclass(frozen=True)
class Moment:
    """The point in training at which a loss is evaluated; by default its end, when every schedule has ended.

    Args:
        step: optimizer steps taken.
        progress: share of the training run that has passed, 0 to 1.
    """

    step: int = sys.maxsize
    progress: float = 1.0


def targets(labels: Labels, like: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
    """1 for each class that an image shows and 0 for each other, in the type of `like`."""
    return (functional.one_hot(labels, like.shape[1]) if labels.ndim == 1 else labels).to(like.dtype)


def margin(output: Output, labels: Labels, _: Moment) -> Float[Tensor, ""]:
    """Sum over classes of T max(0, 0.9 - p)^2 + 0.5 (1 - T) max(0, p - 0.1)^2 for scores p; T is 1 if shown, else 0.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, equation 4, with the constants given there. An image may show
    several classes, as theirs do in section 6.
    """
    target = targets(labels, output.scores)
    present = target * (0.9 - output.scores).clamp(min=0).square()
    absent = (1 - target) * (output.scores - 0.1).clamp(min=0).square()
    return (present + 0.5 * absent).sum(dim=1).mean()


def spread_with(margin_at: Callable[[Moment], float]) -> Loss:
    """Sum over wrong classes i of max(0, m - (a_t - a_i))^2, with a margin m that grows.

    Source: Hinton, Sabour and Frosst, ICLR 2018, equation 3. For an image that shows several classes t the paper has
    no formula; here the sum is over the classes that it does not show, and the mean over those that it does.
    """

    def spread(output: Output, labels: Labels, moment: Moment) -> Float[Tensor, ""]:
        if labels.ndim == 2:
            return _spread_of_several(output.scores, labels, margin_at(moment))
        right = output.scores.gather(1, labels[:, None])
        wrong = 1 - functional.one_hot(labels, output.scores.shape[1]).to(output.scores.dtype)
        gaps = (margin_at(moment) - (right - output.scores)).clamp(min=0)
        return (wrong * gaps.square()).sum(dim=1).mean()

    return spread


def _spread_of_several(
    scores: Float[Tensor, "batch classes"], labels: Bool[Tensor, "batch classes"], least: float
) -> Float[Tensor, ""]:
    shown = targets(labels, scores)
    gaps = (least - (scores[:, :, None] - scores[:, None, :])).clamp(min=0)  # batch t i
    of_class = (gaps.square() * (1 - shown)[:, None, :]).sum(dim=2)
    return ((of_class * shown).sum(dim=1) / shown.sum(dim=1).clamp(min=1)).mean()


def linear_margin(moment: Moment) -> float:
    """0.2 at the start of training to 0.9 at its end: the paper's, which does not say how long that takes."""
    return 0.2 + 0.7 * moment.progress


def sigmoid_margin(moment: Moment) -> float:
    """0.2 + 0.79 sigmoid(min(10, step / 50000 - 4)): the authors' code, whose batches have 64 images."""
    grown = torch.sigmoid(torch.tensor(min(10.0, moment.step / 50_000 - 4)))
    return 0.2 + 0.79 * float(grown)


def cross_entropy(output: Output, labels: Labels, _: Moment, *, smoothing: float = 0.0) -> Float[Tensor, ""]:
    """Softmax cross entropy on the logits, which for capsules are the log odds of lengths or activations.

    Args:
        output: the network's answer.
        labels: the class of every image.
        smoothing: share of each target that is spread over all classes.

    Raises:
        UserError: an image may show several classes, which a softmax cannot say.
    """
    if labels.ndim == 2:
        raise UserError(
            "training: a softmax cross entropy takes one class per image, and these images may show several; "
            "choose margin, spread or binary-cross-entropy"
        )
    return functional.cross_entropy(output.logits, labels, label_smoothing=smoothing)


def cross_entropy_of_scores(output: Output, labels: Labels, moment: Moment) -> Float[Tensor, ""]:
    """Softmax cross entropy on the scores themselves: on activations in [0, 1], which a softmax takes for logits.

    It cannot fall below ln(1 + (J - 1) / e) for J classes: 0.905 for 5 and 1.461 for 10. Source: the code of Hinton,
    Sabour and Frosst, ICLR 2018, whose table 1 has 5.8 % test error for "CrossEnt"; `cross-entropy` has no such floor.

    Raises:
        UserError: an image may show several classes.
    """
    return cross_entropy(Output(output.scores, output.scores), labels, moment)


def binary_cross_entropy(output: Output, labels: Labels, _: Moment) -> Float[Tensor, ""]:
    """A sigmoid per class on the logits, mean over classes (Tsai et al. 2020, appendix B.2, for several digits)."""
    return functional.binary_cross_entropy_with_logits(output.logits, targets(labels, output.logits))


LOSSES: dict[str, Loss] = {
    "margin": margin,
    "spread": spread_with(linear_margin),
    "spread-sigmoid": spread_with(sigmoid_margin),
    "cross-entropy": cross_entropy,
    "cross-entropy-of-scores": cross_entropy_of_scores,
    "binary-cross-entropy": binary_cross_entropy,
}


def loss_named(name: str, smoothing: float = 0.0) -> Loss:
    """A loss on labels.

    Args:
        name: its name in `LOSSES`.
        smoothing: share of each target that is spread over all classes, of `cross-entropy`.
    """
    return partial(cross_entropy, smoothing=smoothing) if smoothing else LOSSES[name]


def reconstruction(images: Float[Tensor, "batch *image"], decoded: Float[Tensor, "batch *image"]) -> Float[Tensor, ""]:
    """The sum of squared pixel errors of an image, mean over the batch; Sabour et al. 2017 weight it by 0.0005."""
    return (decoded - images).square().flatten(1).sum(dim=1).mean()
