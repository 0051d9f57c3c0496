"""Everything that fixes how a network is trained. A suite's `[training]` table has these keys."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from annotated_types import Ge, Lt

from routebench.arguments import Count, Legal, Natural, NonNegative, Positive, legal_values
from routebench.errors import UserError
from routebench.notation import Registered, registered
from routebench.registry import augmentations, losses, optimizers, schedules

REGISTRIES = {"loss": losses, "optimiser": optimizers, "schedule": schedules, "augmentation": augmentations}
"""Registries of the functions that training is made of, by the setting that names one."""
VERSIONS: dict[str, dict[str, int]] = {"selection": {}, "train_on": {}, "precision": {}}
"""Versions, by setting and word, of what changed its numbers since results were published; all others have 1."""


_RATE = Legal.of(NonNegative)


@dataclass(frozen=True)
class Moment:
    """A point in training; by default its end, when every schedule has ended.

    Args:
        step: optimizer steps taken.
        progress: share of the training run that has passed, 0 to 1.
        epoch: epochs that have passed.
    """

    step: int = sys.maxsize
    progress: float = 1.0
    epoch: int = sys.maxsize


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run.

    Optimizer, schedule, loss and augmentation are names of registered functions, with hyperparameters in brackets where
    these have some: `focal[gamma=3]`.

    Args:
        epochs: passes over the training part.
        batch_size: images per step; an incomplete last batch is used too.
        optimiser: see `routebench.optimizers`.
        learning_rate, momentum, weight_decay: the optimizer's; momentum is that of SGD and RMSProp.
        decayed: the parameters that weight decay pulls towards zero: `all` parameters, or `weights` alone, which are
            parameters of that name with two axes or more: no biases, and no betas of EM routing. Matrices under other
            names, such as the gate of self-routing, do not decay either.
        schedule: schedule of the learning rate, see `routebench.schedules`.
        decay, decay_steps, milestones: those of the schedules `exponential` and `milestones`.
        loss: see `routebench.losses`; `own` is the network's own objective, which sees no label.
        reconstruction: weight of the reconstruction loss; above 0 it needs a network with a decoder.
        augmentation: changes to training images, see `routebench.augmentations`.
        selection: the weights that are kept: those of the `last` epoch, or of the best one on the held-out part, by
            accuracy, or by the objective where that is the network's own.
        train_on: the `train`ing part, or `all` that the data set's authors have for training: the held-out part too.
            Nothing can then be selected.
        precision: `bfloat16` runs the network under autocast; losses stay in float32.
        channels_last: memory layout of convolutions.
        warmup_steps: steps over which the rate grows linearly to that of the schedule: the first step has this share of
            it, 1 / warmup_steps, and the last all of it. 0 for none.
        clip_norm: the most that the norm of the gradient of all parameters may be; larger ones are scaled down. 0 for
            no limit.
        label_smoothing: share of each target that is spread over all classes, of the loss `cross-entropy` (Szegedy et
            al., CVPR 2016, section 7).

    Raises:
        UserError: a value is not allowed.
    """

    epochs: Count = 10
    batch_size: Count = 128
    optimiser: Annotated[str, Registered(optimizers)] = "adam"
    learning_rate: Positive = 1e-3
    momentum: NonNegative = 0.9
    weight_decay: NonNegative = 0.0
    decayed: Annotated[str, Literal["all", "weights"]] = "all"
    schedule: Annotated[str, Registered(schedules)] = "constant"
    decay: NonNegative = 0.96
    decay_steps: Count = 2000
    milestones: Sequence[Natural] = ()
    loss: Annotated[str, Registered(losses)] = "margin"
    reconstruction: NonNegative = 0.0
    augmentation: Annotated[str, Registered(augmentations)] = "none"
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

    def rate_at(self, moment: Moment) -> float:
        """The learning rate of the step that comes then.

        Raises:
            UserError: the schedule gave no rate.
        """
        rate = registered(schedules, self.schedule)(self, moment)
        if not _RATE.fits(rate):
            raise UserError(
                f"schedule {self.schedule!r}: expected a rate of at least 0, got {rate!r:.80} at step {moment.step}"
            )
        grown = min(1.0, (moment.step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        return grown * float(rate)


LATER = {"train_on": "train", "warmup_steps": 0, "clip_norm": 0.0, "label_smoothing": 0.0}
"""Settings that came after results were published, with what these had: they stand in no record where they have it."""
DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(Recipe)}
"""The default of each setting."""
LEGAL = legal_values(Recipe)
"""The legal values of each setting, as the recipe's annotations declare them."""
STORED_AS = {"optimizer": "optimiser"}
"""Settings that files name otherwise than results do."""
NOW = {stored: name for name, stored in STORED_AS.items()}
