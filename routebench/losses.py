"""Losses, which recipes name: from a network's output and the labels to a mean over images.

`register` is the decorator of the registry. What a function takes after a `*` are its hyperparameters:

>>> from routebench import losses
>>> @losses.register("focal")  # doctest: +SKIP
... def focal(output, labels, moment, *, gamma: float = 2.0):
...     right = output.logits.log_softmax(dim=1).gather(1, labels[:, None])
...     return -((1 - right.exp()) ** gamma * right).mean()
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from routebench.errors import UserError
from routebench.models.network import Output
from routebench.notation import parse, registered
from routebench.recipe import Moment
from routebench.registry import SHIPPED
from routebench.registry import losses as registry

Labels = Int[Tensor, " batch"] | Bool[Tensor, "batch classes"]
"""The class of every image; or, where an image may show several at once, whether it shows each."""
Loss = Callable[[Output, Labels, "Moment"], Float[Tensor, ""]]


register = registry.register
OWN = "own"
"""The loss of a recipe that trains a network by its own objective, without labels."""


def targets(labels: Labels, like: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
    """1 for each class that an image shows and 0 for each other, in the type of `like`.

    Args:
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
        like: scores or logits, (batch, classes).

    Raises:
        ValueError: labels have another shape.
    """
    expected = like.shape[:1] if labels.ndim == 1 else like.shape
    if labels.shape != expected:
        raise ValueError(f"expected labels of shape {tuple(expected)}, got {tuple(labels.shape)}")
    return (functional.one_hot(labels, like.shape[1]) if labels.ndim == 1 else labels).to(like.dtype)


@register("margin")
def margin(output: Output, labels: Labels, _: Moment) -> Float[Tensor, ""]:
    """Sum over classes of T max(0, 0.9 - p)^2 + 0.5 (1 - T) max(0, p - 0.1)^2 for scores p; T is 1 if shown, else 0.

    Source: Sabour, Frosst and Hinton, NeurIPS 2017, equation 4, with the constants given there. An image may show
    several classes, as theirs do in section 6. The authors' code halves it, and takes the mean over classes in place of
    the sum: see `reconstruction`.

    Args:
        output: the network's answer.
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
    """
    target = targets(labels, output.scores)
    present = target * (0.9 - output.scores).clamp(min=0).square()
    absent = (1 - target) * (output.scores - 0.1).clamp(min=0).square()
    return (present + 0.5 * absent).sum(dim=1).mean()


@register("spread")
def spread(output: Output, labels: Labels, moment: Moment) -> Float[Tensor, ""]:
    """Spread loss with a margin that grows as the paper says: see `spread_over` and `linear_margin`.

    Args:
        output: the network's answer.
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
        moment: the moment in training, with `progress`.
    """
    return spread_over(output.scores, labels, linear_margin(moment))


@register("spread-sigmoid", version=2)
def spread_sigmoid(output: Output, labels: Labels, moment: Moment) -> Float[Tensor, ""]:
    """Spread loss with a margin that grows as in the authors' code: see `spread_over` and `sigmoid_margin`.

    Args:
        output: the network's answer.
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
        moment: the moment in training, with `step`.
    """
    return spread_over(output.scores, labels, sigmoid_margin(moment))


def linear_margin(moment: Moment) -> float:
    """0.2 at the start of training to 0.9 at its end: the paper's, which does not say how long that takes."""
    return 0.2 + 0.7 * moment.progress


def sigmoid_margin(moment: Moment) -> float:
    """0.2 + 0.79 sigmoid(min(10, step / 50000 - 4)): the authors' code, whose batches have 64 images."""
    grown = torch.sigmoid(torch.tensor(min(10.0, moment.step / 50_000 - 4)))
    return 0.2 + 0.79 * float(grown)


def spread_over(scores: Float[Tensor, "batch classes"], labels: Labels, least: float) -> Float[Tensor, ""]:
    """Sum over wrong classes i of max(0, m - (a_t - a_i))^2, mean over images, with the margin m in `least`.

    Source: Hinton, Sabour and Frosst, ICLR 2018, equation 3. For an image that shows several classes t the paper has
    no formula; here the sum is over the classes that it does not show, and the mean over those that it does.

    Args:
        scores: (batch, classes).
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
        least: the margin m.
    """
    if labels.ndim == 2:
        return _spread_of_several(scores, labels, least)
    shown = targets(labels, scores)
    right = scores.gather(1, labels[:, None])
    wrong = 1 - shown
    gaps = (least - (right - scores)).clamp(min=0)
    return (wrong * gaps.square()).sum(dim=1).mean()


def _spread_of_several(
    scores: Float[Tensor, "batch classes"], labels: Bool[Tensor, "batch classes"], least: float
) -> Float[Tensor, ""]:
    shown = targets(labels, scores)
    gaps = (least - (scores[:, :, None] - scores[:, None, :])).clamp(min=0)  # batch t i
    of_class = (gaps.square() * (1 - shown)[:, None, :]).sum(dim=2)
    return ((of_class * shown).sum(dim=1) / shown.sum(dim=1).clamp(min=1)).mean()


@register("cross-entropy")
def cross_entropy(output: Output, labels: Labels, _: Moment) -> Float[Tensor, ""]:
    """Softmax cross entropy on the logits, which for capsules are the log odds of lengths or activations.

    Args:
        output: the network's answer.
        labels: the right classes, (batch,).

    Raises:
        UserError: an image may show several classes, which a softmax cannot say.
    """
    return _softmax_entropy(output.logits, labels)


def _softmax_entropy(logits: Float[Tensor, "batch classes"], labels: Labels, smoothing: float = 0.0) -> Tensor:
    """Softmax cross entropy, with a share of each target spread over all classes."""
    if labels.ndim == 2:
        raise UserError(
            "training: a softmax cross entropy takes one class per image, and these images may show several; "
            "choose margin, spread or binary-cross-entropy"
        )
    return functional.cross_entropy(logits, labels, label_smoothing=smoothing)


@register("cross-entropy-of-scores")
def cross_entropy_of_scores(output: Output, labels: Labels, _: Moment) -> Float[Tensor, ""]:
    """Softmax cross entropy on the scores themselves: on activations in [0, 1], which a softmax takes for logits.

    It cannot fall below ln(1 + (J - 1) / e) for J classes: 0.905 for 5 and 1.461 for 10. Source: the code of Hinton,
    Sabour and Frosst, ICLR 2018, whose table 1 has 5.8 % test error for "CrossEnt"; `cross-entropy` has no such floor.

    Args:
        output: the network's answer.
        labels: the right classes, (batch,).

    Raises:
        UserError: an image may show several classes.
    """
    return _softmax_entropy(output.scores, labels)


@register("binary-cross-entropy")
def binary_cross_entropy(output: Output, labels: Labels, _: Moment) -> Float[Tensor, ""]:
    """A sigmoid per class on the logits, mean over classes (Tsai et al. 2020, section 4.2, for several digits).

    Args:
        output: the network's answer.
        labels: the right classes, (batch,), or which classes an image shows, (batch, classes).
    """
    return functional.binary_cross_entropy_with_logits(output.logits, targets(labels, output.logits))


@register(OWN)
def own(_output: Output, _labels: Labels, _moment: Moment) -> Float[Tensor, ""]:
    """The network's own objective, which sees no label; training asks the network itself.

    Raises:
        UserError: always: what asks here has no such network.
    """
    raise UserError("training: the loss 'own' is of networks with an objective of their own; choose another")


def loss_named(name: str, smoothing: float = 0.0) -> Loss:
    """A loss on labels.

    Args:
        name: its registered name, with hyperparameters in brackets if some are given.
        smoothing: share of each target that is spread over all classes, of `cross-entropy`.
    """
    if smoothing:
        return lambda output, labels, _: _softmax_entropy(output.logits, labels, smoothing)
    loss = registered(registry, name)
    return loss if registry.origin(parse(name).name) == SHIPPED else partial(_apart, name, loss)


def _apart(name: str, loss: Loss, output: Output, labels: Labels, moment: Moment) -> Float[Tensor, ""]:
    """The loss of a user's function, which is given copies: answers are judged by what the network and the data say.

    Raises:
        UserError: it gives something else than one number, or in training one without a gradient.
    """
    copied = replace(output, logits=output.logits.clone(), scores=output.scores.clone())
    found: Any = loss(copied, labels.clone(), moment)
    needed = torch.is_grad_enabled() and copied.logits.requires_grad  # in training
    if not isinstance(found, Tensor) or found.ndim or not found.is_floating_point() or found.requires_grad < needed:
        raise UserError(f"loss {name!r}: expected one number with a gradient, got {found!r:.80}")
    return found


def loss_at_end(name: str, smoothing: float = 0.0) -> Callable[[Output, Labels], Float[Tensor, ""]]:
    """A loss as it is when training has ended.

    Args:
        name, smoothing: as for `loss_named`.
    """
    loss = loss_named(name, smoothing)
    return lambda output, labels: loss(output, labels, Moment())


def takes_several(name: str) -> bool:
    """Tells whether a loss takes images that may show several classes: it is asked for that of one."""
    scores = torch.full((1, 2), 0.5)
    try:
        loss_at_end(name)(Output(scores, scores), torch.tensor([[True, True]]))
    except Exception:  # noqa: BLE001  # whatever a plug-in's raises
        return name == OWN
    return True


def reconstruction(images: Float[Tensor, "batch *image"], decoded: Float[Tensor, "batch *image"]) -> Float[Tensor, ""]:
    """The sum of squared pixel errors of an image, mean over the batch; Sabour et al. 2017 weight it by 0.0005.

    In the authors' code, `Sarasra/models`, it has this weight beside a margin loss that is smaller than the printed one
    by twice the number of classes. Beside `margin`, that is a weight of 0.01 for ten classes.

    Args:
        images, decoded: pixels from 0 to 1, (batch, *image).

    Raises:
        ValueError: the shapes differ.
    """
    if decoded.shape != images.shape:
        raise ValueError(f"expected decoded images of shape {tuple(images.shape)}, got {tuple(decoded.shape)}")
    return (decoded - images).square().flatten(1).sum(dim=1).mean()
