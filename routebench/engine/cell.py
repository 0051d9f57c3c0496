"""The unit of work, of caching and of failure: one point of a suite's grid with one seed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

METHOD, CONTROL = "method", "control"


@dataclass(frozen=True)
class Cell:
    """Everything that can change a result, and a name for tables.

    Args:
        method: a routing method; for a control without capsules, what it is called.
        method_params: every hyperparameter but `iterations`, defaults too.
        iterations: trained with; None where the method has none.
        role: `method`, or `control` for what a suite runs unasked.
        training: the recipe, as `dataclasses.asdict` gives it.
        options: the suite's settings for the protocol.
        source: a hash of the code that the cell runs through.
        label: how tables call the method: with those hyperparameters that are not the defaults. No part of identity.
    """

    suite: str
    suite_version: int
    protocol: str
    options: Mapping[str, Any]
    method: str
    method_params: Mapping[str, Any]
    iterations: int | None
    role: str
    model: str
    model_params: Mapping[str, Any]
    data: str
    data_fingerprint: str
    training: Mapping[str, Any]
    seed: int
    source: str
    label: str = field(compare=False)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """All fields but the label, as a record holds them."""
        return {name: value for name, value in vars(self).items() if name in _IDENTITY}

    @cached_property
    def key(self) -> str:
        """Names the cell's files."""
        return digest(self.identity)

    def __str__(self) -> str:
        iterations = "" if self.iterations is None else f" T={self.iterations}"
        return f"{self.label}{iterations} seed {self.seed}"


_IDENTITY = tuple(name for name in Cell.__dataclass_fields__ if name != "label")


def digest(content: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of canonical JSON."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]


def canonical(content: Any) -> str:
    """JSON that is the same for equal content; what JSON does not know is written as `repr` has it."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=repr)
