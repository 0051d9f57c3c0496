"""Everything that fixes how a network is trained. A suite's `[training]` table has these keys."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Lt

from routebench.arguments import Count, Natural, NonNegative, Positive, legal_values
from routebench.errors import UserError

LossName = Literal[
    "margin", "spread", "spread-sigmoid", "cross-entropy", "cross-entropy-of-scores", "binary-cross-entropy", "own"
]
AugmentationName = Literal[
    "none",
    "shift2",
    "pad-crop-flip",
    "rotate45",
    "rotate90",
    "rotate135",
    "rotate180",
    "smallnorb-jitter",
    "smallnorb-jitter-clipped",
    "smallnorb-jitter-yl1993",
]

VERSIONS: dict[str, dict[str, int]] = {
    "loss": {"spread-sigmoid": 2},
    "optimiser": {"rmsprop": 2},
    "schedule": {},
    "augmentation": {"smallnorb-jitter-yl1993": 2},
    "selection": {},
    "train_on": {},
    "precision": {},
}
"""Versions, by kind and name, of parts whose numbers changed since results were published; all others have 1."""


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run.

    Args:
        epochs: passes over the training part.
        batch_size: images per step; an incomplete last batch is used too.
        optimiser: `adam`, `adamw`, whose weight decay is apart from the gradient, `sgd` or `rmsprop`.
        learning_rate, momentum, weight_decay: the optimizer's; momentum is that of SGD and RMSProp.
        decayed: the parameters that weight decay pulls towards zero: `all` parameters, or `weights` alone, which are
            parameters of that name with two axes or more: no biases, and no betas of EM routing. Matrices under other
            names, such as the gate of self-routing, do not decay either.
        schedule: schedule of the learning rate. `exponential`: times `decay` every `decay_steps` steps, continuously
            (Sabour et al. 2017: 0.96 every 2,000). `milestones`: times `decay` at each of `milestones`, in epochs (Tsai
            et al. 2020: 0.1 at 150 and 250 of 350). `cosine`: half a cosine, down to zero at the end (Loshchilov and
            Hutter, ICLR 2017, equation 5, without restarts).
        loss: see `routebench.losses`; `own` is the network's own objective, which sees no label.
        reconstruction: weight of the reconstruction loss; above 0 it needs a network with a decoder.
        augmentation: changes to training images; see `routebench.data.augment`.
        selection: the weights that are kept: those of the `last` epoch, or of the best one on the held-out part, by
            accuracy, or by the objective where that is the network's own.
        train_on: the `train`ing part, or `all` that the data set's authors have for training: the held-out part too.
            Nothing can then be selected.
        precision: `bfloat16` runs the network under autocast; losses stay in float32.
        channels_last: memory layout of convolutions.
        warmup_steps: steps over which the rate grows from zero to that of the schedule, linearly; 0 for none.
        clip_norm: the most that the norm of the gradient of all parameters may be; larger ones are scaled down. 0 for
            no limit.
        label_smoothing: share of each target that is spread over all classes, of the loss `cross-entropy` (Szegedy et
            al., CVPR 2016, section 7).

    Raises:
        UserError: a value is not allowed.
    """

    epochs: Count = 10
    batch_size: Count = 128
    optimiser: Annotated[str, Literal["adam", "adamw", "sgd", "rmsprop"]] = "adam"
    learning_rate: Positive = 1e-3
    momentum: NonNegative = 0.9
    weight_decay: NonNegative = 0.0
    decayed: Annotated[str, Literal["all", "weights"]] = "all"
    schedule: Annotated[str, Literal["constant", "exponential", "milestones", "cosine"]] = "constant"
    decay: NonNegative = 0.96
    decay_steps: Count = 2000
    milestones: Sequence[Natural] = ()
    loss: Annotated[str, LossName] = "margin"
    reconstruction: NonNegative = 0.0
    augmentation: Annotated[str, AugmentationName] = "none"
    selection: Annotated[str, Literal["last", "held-out"]] = "last"
    train_on: Annotated[str, Literal["train", "all"]] = "train"
    precision: Annotated[str, Literal["float32", "bfloat16"]] = "float32"
    channels_last: bool = False
    warmup_steps: Natural = 0
    clip_norm: NonNegative = 0.0
    label_smoothing: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0

    def __post_init__(self) -> None:
        try:
            vars(self).update({name: legal.take(name, getattr(self, name)) for name, legal in LEGAL.items()})
        except ValueError as error:
            raise UserError(f"training: {error}") from error
        if self.train_on == "all" and self.selection != "last":
            raise UserError(
                f"training: selection must be last with train_on = 'all', which leaves no image to select by, got "
                f"{self.selection!r}"
            )
        if self.label_smoothing and self.loss != "cross-entropy":
            raise UserError(f"training: label_smoothing is for the loss cross-entropy, got {self.loss!r}")

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by name, but for those of `LATER` that have their default: what was trained before is equal.

        Identities and keys are made of these.
        """
        return {name: value for name, value in asdict(self).items() if name not in LATER or value != LATER[name]}

    def rate_at(self, step: int, epoch: int, progress: float = 0.0) -> float:
        """The learning rate.

        Args:
            step, epoch: step and epoch, both counted from 0.
            progress: share of the steps of the training run that are taken, for `cosine`.
        """
        grown = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        return grown * self._scheduled(step, epoch, progress)

    def _scheduled(self, step: int, epoch: int, progress: float) -> float:
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        if self.schedule == "exponential":
            return float(self.learning_rate * self.decay ** (step / self.decay_steps))
        if self.schedule == "milestones":
            return float(self.learning_rate * self.decay ** sum(epoch >= milestone for milestone in self.milestones))
        return self.learning_rate


LATER = {"train_on": "train", "warmup_steps": 0, "clip_norm": 0.0, "label_smoothing": 0.0}
"""Settings that came after results were published, with what these had: they stand in no record where they have it."""
LEGAL = legal_values(Recipe)
"""The legal values of each setting, as the recipe's annotations declare them."""
STORED_AS = {"optimizer": "optimiser"}
"""Settings that files name otherwise than results do."""
NOW = {stored: name for name, stored in STORED_AS.items()}
