"""Everything that fixes how a network is trained. A suite's `[training]` table has these keys."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from routebench.errors import UserError

CHOICES = {
    "optimiser": ("adam", "sgd", "rmsprop"),
    "schedule": ("constant", "exponential", "milestones"),
    "loss": (
        "margin",
        "spread",
        "spread-sigmoid",
        "cross-entropy",
        "cross-entropy-of-scores",
        "binary-cross-entropy",
        "own",
    ),
    "augmentation": (
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
    ),
    "selection": ("last", "held-out"),
    "train_on": ("train", "all"),
    "precision": ("float32", "bfloat16"),
}


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run.

    Args:
        epochs: passes over the training part.
        batch_size: images per step; an incomplete last batch is used too.
        optimiser: `adam`, `sgd` or `rmsprop`.
        learning_rate, momentum, weight_decay: of the optimiser; momentum is that of SGD and RMSProp.
        schedule: of the learning rate. `exponential`: times `decay` every `decay_steps` steps, continuously (Sabour et
            al. 2017: 0.96 every 2,000). `milestones`: times `decay` at each of `milestones`, in epochs (Tsai et al.
            2020: 0.1 at 150 and 250 of 350).
        loss: see `routebench.losses`; `own` is the network's own objective, which sees no label.
        reconstruction: weight of the reconstruction loss; above 0 it needs a network with a decoder.
        augmentation: of training images; see `routebench.data.augment`.
        selection: which weights are kept: those of the `last` epoch, or of the best one on the held-out part, by
            accuracy, or by the objective where that is the network's own.
        train_on: the `train`ing part, or `all` that the data set's authors have for training: the held-out part too.
            Nothing can then be selected.
        precision: `bfloat16` runs the network under autocast; losses stay in float32.
        channels_last: memory layout of convolutions.

    Raises:
        UserError: a value is not allowed.
    """

    epochs: int = 10
    batch_size: int = 128
    optimiser: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"
    decay: float = 0.96
    decay_steps: int = 2000
    milestones: tuple[int, ...] = ()
    loss: str = "margin"
    reconstruction: float = 0.0
    augmentation: str = "none"
    selection: str = "last"
    train_on: str = "train"
    precision: str = "float32"
    channels_last: bool = False

    def __post_init__(self) -> None:
        for key, allowed in CHOICES.items():
            if getattr(self, key) not in allowed:
                raise UserError(f"training: {key} must be one of {', '.join(allowed)}, got {getattr(self, key)!r}")
        if self.train_on == "all" and self.selection != "last":
            raise UserError(
                f"training: selection must be last with train_on = 'all', which leaves no image to select by, got "
                f"{self.selection!r}"
            )
        for key in ("epochs", "batch_size", "decay_steps"):
            if getattr(self, key) < 1:
                raise UserError(f"training: {key} must be at least 1, got {getattr(self, key)!r}")
        if not 0 < self.learning_rate < math.inf:
            raise UserError(f"training: learning_rate must be above 0, got {self.learning_rate!r}")
        for key in ("momentum", "weight_decay", "decay", "reconstruction"):
            if not 0 <= getattr(self, key) < math.inf:  # nan fails too
                raise UserError(f"training: {key} must not be negative, got {getattr(self, key)!r}")
        if any(milestone < 0 for milestone in self.milestones):
            raise UserError(f"training: milestones must be epochs, counted from 0, got {self.milestones!r}")

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by name, but for `train_on` where it is `train`: what was trained before it was there is equal.

        Identities and keys are made of these.
        """
        return {name: value for name, value in asdict(self).items() if (name, value) != ("train_on", "train")}

    def rate_at(self, step: int, epoch: int) -> float:
        """The learning rate at a step and an epoch, both counted from 0."""
        if self.schedule == "exponential":
            return float(self.learning_rate * self.decay ** (step / self.decay_steps))
        if self.schedule == "milestones":
            return float(self.learning_rate * self.decay ** sum(epoch >= milestone for milestone in self.milestones))
        return self.learning_rate
