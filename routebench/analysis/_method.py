"""A routing method, model or control as a report compares it: by what was run, not by how it is written."""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

import pandas as pd

SPELLED = re.compile(r"(?P<name>[^\[( ]+)(?:\[(?P<params>.*?)\])?(?: \((?P<variant>.*)\))?")
CONTROL = "control"


@total_ordering
@dataclass(frozen=True)
class Method:
    """What a row of a table is about; its text is `em[final_lambda=0.1] (margin loss) T=2`.

    Args:
        name: that it is registered under.
        params: hyperparameters that differ from the defaults, as `key=value,key=value`.
        variant: what a suite changes besides, in its words; empty for nothing.
        iterations: T that it was trained with; None where it has none.
        model: network.
        role: `method` or `control`.
        networks: more than one if the part of the folder has this label in several networks; the text then says which.
    """

    name: str
    params: str = ""
    variant: str = ""
    iterations: int | None = None
    model: str = ""
    role: str = "method"
    networks: int = 1

    @classmethod
    def of(
        cls, label: str, iterations: Any = None, model: str = "", role: str = "method", networks: int = 1
    ) -> "Method":
        """From how a plan spells it, and T: None, 0, or what pandas has for missing where there is none."""
        found = SPELLED.fullmatch(label)
        name, params, variant = (found[key] or "" for key in SPELLED.groupindex) if found else (label, "", "")
        steps = None if pd.isna(iterations) or not iterations else int(iterations)
        return cls(name, params, variant, steps, model, role, networks)

    @property
    def spec(self) -> str:
        """Without variant and T."""
        return f"{self.name}[{self.params}]" if self.params else self.name

    @property
    def label(self) -> str:
        """Without T."""
        return f"{self.spec} ({self.variant})" if self.variant else self.spec

    @property
    def settings(self) -> str:
        """Hyperparameters and variant; empty for the plain form."""
        return "; ".join(part for part in (self.params, self.variant) if part)

    @property
    def is_control(self) -> bool:
        """Whether it is there to be compared with."""
        return self.role == CONTROL

    @property
    def text(self) -> str:
        """With T, and with its network if that is needed to tell it from others."""
        where = f" ({self.model})" if self.networks > 1 else ""
        steps = f" T={self.iterations}" if self.iterations else ""
        return f"{self.label}{where}{steps}"

    @property
    def marked(self) -> str:
        """The text, with `(control)` behind that of a control."""
        return f"{self} (control)" if self.is_control else str(self)

    def __str__(self) -> str:
        return self.text

    def __lt__(self, other: "Method") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[str, str, int, str]:
        return self.label, self.model, self.iterations or 0, self.role
