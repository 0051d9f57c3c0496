"""The options of the protocol `robustness`, and which images it attacks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from routebench.attacks import ADAPTIVE, ATTACKED, FROM_DECISIONS, GRADIENT, SCORES, WITH_GRADIENTS, grey_levels
from routebench.data import CORRUPTIONS, SEVERITIES
from routebench.errors import UserError, unknown

ATTACKS = ("noise", *GRADIENT, *ADAPTIVE, SCORES, *WITH_GRADIENTS, *FROM_DECISIONS)


@dataclass(frozen=True)
class Settings:
    """The options of the protocol, which says what they mean, with their defaults.

    Raises:
        UserError: a value is not allowed.
    """

    images: int = 100
    eps: tuple[float, ...] = (0.05, 0.1, 0.2)
    main_eps: float = 0.1
    steps: int = 10
    restarts: int = 2
    apgd_steps: int = 100
    further_starts: int = 16
    square_queries: int = 1000
    attacks: tuple[str, ...] = ATTACKS
    losses: tuple[str, ...] = ATTACKED
    targeted: tuple[str, ...] = ()
    targets: int = 0
    transfer_from: str = ""
    minimal_images: int = 20
    minimal_steps: int = 20
    queries: int = 250
    l2_eps: tuple[float, ...] = (0.5, 1.0, 2.0)
    transfer_rate: float = 0.0
    transfer_recipe: str = ""
    corruptions: tuple[str, ...] = ()
    severities: tuple[int, ...] = (1, 3, 5)
    corrupted_images: int = 1000

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Settings":
        """Makes settings from a preset's options; lists become tuples."""
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in options.items()
        }
        return cls(**given)

    def __post_init__(self) -> None:
        for names, kind, known in (
            (self.attacks, "attack", ATTACKS),
            (self.losses, "loss to attack", ATTACKED),
            (self.targeted, "targeted attack", tuple(GRADIENT)),
            (self.corruptions, "corruption", tuple(CORRUPTIONS)),
        ):
            for name in names:
                if name not in known:
                    raise unknown(kind, name, known)
        if any(not 1 <= grey_levels(eps) <= 255 for eps in self.eps) or list(self.eps) != sorted(set(self.eps)):
            raise UserError(f"robustness: eps must rise from at least 1/255 to at most 1, got {list(self.eps)!r}")
        levels = [grey_levels(eps) for eps in self.eps]
        if len({*levels}) < len(levels):
            raise UserError(f"robustness: eps must differ in grey levels of 1/255, got {list(self.eps)!r}")
        if self.main_eps not in self.eps:
            raise UserError(f"robustness: main_eps must be one of eps, {list(self.eps)!r}, got {self.main_eps!r}")
        if not {*self.severities} <= {*range(1, SEVERITIES + 1)} or not self.severities:
            raise UserError(f"robustness: severities must be from 1 to {SEVERITIES}, got {list(self.severities)!r}")


def balanced(labels: Tensor, wanted: int) -> Tensor:
    """Places of so many images, in order: the first of every class, then the second of every class, and so on.

    Args:
        labels: classes of the images, (image).
        wanted: number of places; all are given where there are fewer.
    """
    rank = torch.zeros_like(labels)
    for label in labels.unique():  # type: ignore[no-untyped-call]
        own = labels == label
        rank[own] = torch.arange(int(own.sum()))
    order = (rank * (labels.max() + 1) + labels).argsort(stable=True)
    return order[:wanted].sort().values
