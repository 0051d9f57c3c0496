"""A routing method, model or baseline as a report compares it: identified by what ran, not by its spelling."""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import total_ordering
from typing import Any

import pandas as pd

from routebench.catalogue import shown_as
from routebench.quantities import plural

SPELLED = re.compile(r"(?P<name>[^\[( ]+)(?:\[(?P<params>.*?)\])?(?: \((?P<variant>.*)\))?")
BASELINE, CONTROL, STAR = "uniform", "control", "★ "
"""The method that gains are over, the role of a baseline, and the mark of a user's method."""


@total_ordering
@dataclass(frozen=True)
class Method:
    """A method as a row of a table.

    Its text for readers is `EM (final lambda 0.1), T = 2`, or with a variant `EM (margin loss), T = 2`; `exact` is its
    spelling in commands.

    Args:
        name: its registered name.
        params: hyperparameters that differ from the defaults, as `key=value,key=value`.
        variant: what a suite calls this configuration of the method, whatever it changes; empty for nothing.
        iterations: T of training; None if it has none.
        model: network.
        role: `method` or `control`.
        networks: more than one if the part of the folder has this label in several networks; the text then says which.
        yours: whether the user asked for it by name or brought it; its text then begins with a star.
        same: others with bitwise equal results, which share its row.
        planned, finished, lost: its seeds: all, those with a result, and those that ended without one. Where some are
            missing, the text says how many are there.
    """

    name: str
    params: str = ""
    variant: str = ""
    iterations: int | None = None
    model: str = ""
    role: str = "method"
    networks: int = 1
    yours: bool = field(default=False, compare=False)
    same: tuple["Method", ...] = field(default=(), compare=False)
    planned: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    finished: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    lost: frozenset[int] = field(default=frozenset(), compare=False, repr=False)

    @classmethod
    def of(
        cls, label: str, iterations: Any = None, model: str = "", role: str = "method", networks: int = 1
    ) -> "Method":
        """A method from its spelling in a plan, and T: None, 0, or missing in pandas for no T.

        Args:
            label: the spelling: a name, hyperparameters in square brackets, and a variant in parentheses.
            iterations: T.
            model: name of the network.
            role: `method` or `control`.
            networks: number of networks that have this label in the part of the folder.
        """
        found = SPELLED.fullmatch(label)
        name, params, variant = (found[key] or "" for key in SPELLED.groupindex) if found else (label, "", "")
        steps = None if pd.isna(iterations) or not iterations else int(iterations)
        return cls(name, params, variant, steps, model, role, networks)

    @property
    def spec(self) -> str:
        """Spelling without variant and T."""
        return f"{self.name}[{self.params}]" if self.params else self.name

    @property
    def label(self) -> str:
        """Spelling without T."""
        return f"{self.spec} ({self.variant})" if self.variant else self.spec

    @property
    def apart(self) -> str:
        """Spelling without T, with its network if that is needed to distinguish it."""
        return f"{self.label} ({self.model})" if self.networks > 1 else self.label

    @property
    def settings(self) -> str:
        """Hyperparameters and variant; empty for the plain form."""
        return "; ".join(part for part in (self.params, self.variant) if part)

    @property
    def is_base(self) -> bool:
        """Tells whether it is uniform routing, in whatever variant of the network."""
        return self.name == BASELINE

    @property
    def is_control(self) -> bool:
        """Tells whether it is a baseline."""
        return self.role == CONTROL

    @property
    def exact(self) -> str:
        """`em[final_lambda=0.1] (margin loss) T=2`, with its network if that is needed to distinguish it."""
        steps = f" T={self.iterations}" if self.iterations else ""
        return f"{self.apart}{steps}"

    @property
    def title(self) -> str:
        """Text for readers, without T: `EM (final lambda 0.1)`; with a variant that alone, as in `EM (as released)`."""
        title = self.base_title
        where = (self.model,) if self.networks > 1 else ()
        own = (self.variant,) if self.variant else _in_words(self.params)
        details = "; ".join((*own, *where))
        return f"{title} ({details})" if details else title

    @property
    def base_title(self) -> str:
        """Text for readers of the method alone, without variant, hyperparameters and network."""
        words = self.name if " " in self.name else self.name.replace("-", " ").replace("_", " ")  # or it is in words
        return shown_as(self.name).get("title") or words[:1].upper() + words[1:]

    @property
    def note(self) -> str:
        """A few words of the method that a reader of its results needs; or empty."""
        return shown_as(self.name).get("note", "")

    @property
    def missing(self) -> float:
        """The share of its planned seeds that have no result; in every order, those with fewer missing come first."""
        return 1 - len(self.finished) / len(self.planned) if self.planned else 0.0

    def without_value(self, seeds: Iterable[int]) -> frozenset[int]:
        """The seeds that ended without one of these values.

        Args:
            seeds: those that have the value.
        """
        return (self.lost | self.finished) - {*seeds}

    def less(self, seeds: Set[int]) -> "Method":
        """The method, which has lost these seeds."""
        return replace(self, finished=self.finished - seeds, lost=self.lost | seeds) if seeds else self

    @property
    def counted(self) -> str:
        """` (2 of 4 seeds)` where some are missing; empty where all have a result."""
        return f" ({len(self.finished)} of {plural(len(self.planned), 'seed')})" if self.missing else ""

    @property
    def text(self) -> str:
        """Its text for readers."""
        steps = f", T = {self.iterations}" if self.iterations else ""
        return f"{STAR if self.yours else ''}{self.title}{steps}{self.counted}"

    @property
    def anywhere(self) -> "Method":
        """The same without its seeds, which are those of one suite on one data set."""
        nothing = frozenset[int]()
        return replace(self, planned=nothing, finished=nothing, lost=nothing)

    @property
    def family(self) -> "Method":
        """The same without T, and without the seeds of one T."""
        return replace(self.anywhere, iterations=None, same=())

    @property
    def together(self) -> str:
        """The text, with methods that are the same function."""
        return " = ".join(map(str, (self, *self.same)))

    @property
    def marked(self) -> str:
        """The same, and `(baseline)` after a baseline."""
        return f"{self.together} (baseline)" if self.is_control else self.together

    def __str__(self) -> str:
        return self.text

    def __lt__(self, other: "Method") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[str, str, int, str]:
        return self.label, self.model, self.iterations or 0, self.role


def _in_words(params: str) -> Iterator[str]:
    """`final_lambda=0.1,bias=false,mass_normalisation=ratio` as `final lambda 0.1`, `no bias`, `ratio`."""
    for part in filter(None, params.split(",")):
        key, _, value = part.replace("_", " ").partition("=")
        if value in ("true", "false"):
            yield key if value == "true" else f"no {key}"
        else:
            yield value if value[:1].isalpha() else f"{key} {value}".strip()
