"""Golden numbers: what they are, how far they may move, and what is wrong with a part whose numbers did."""

import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from routebench.arguments import Legal
from routebench.errors import FilesMissing, UserError

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("golden.json")
WRITE = "`python -m tests.golden`"
EXACT, SINGLE, TRAINED = 1e-9, 2e-5, 1e-4
"""Relative tolerances: of double precision; of what is computed in single; and of training from weights of single."""
REFUSED = "refused"
"""In place of the numbers of settings that a part refuses."""

_DRAWN = torch.from_numpy(np.random.RandomState(0).uniform(-1, 1, 4099))
"""What tensors are projected with, over and over. NumPy promises that this stream never changes (NEP 19)."""


@dataclass(frozen=True)
class GoldenCase:
    """One way to use a part.

    Args:
        make: gives the tensors to remember, or words such as a fingerprint.
        tolerance: relative; of each tensor, to the sum of its absolute values.
        uses: other parts, by (kind, name), whose numbers it depends on too.
        stage: a case is blamed on its own part unless one that it uses moves in an earlier stage.
    """

    make: Callable[[], list[Tensor] | str]
    tolerance: float = EXACT
    uses: tuple[tuple[str, str], ...] = ()
    stage: int = 0


@dataclass(frozen=True)
class GoldenPart:
    """What has a version: `file` holds it. `absent` says why it cannot be measured on this machine."""

    kind: str
    name: str
    version: int | None
    file: str
    defaults: Mapping[str, Any]
    cases: Mapping[str, GoldenCase]
    absent: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


def file_of(defined: Any) -> str:
    """Where something is defined, from the root of the tree."""
    return str(Path(inspect.getsourcefile(inspect.unwrap(defined)) or "").relative_to(ROOT))


def summary(values: list[Tensor] | str) -> list[float] | str:
    """For each tensor the sum of its absolute values, and its projection on fixed random numbers."""
    if isinstance(values, str):
        return values
    found = []
    for value in values:
        flat = value.detach().double().flatten().nan_to_num(nan=7.25, posinf=8.5, neginf=-9.5)
        rows = torch.nn.functional.pad(flat, (0, -len(flat) % len(_DRAWN))).view(-1, len(_DRAWN)) @ _DRAWN
        of_rows = _DRAWN[torch.arange(len(rows)) % len(_DRAWN)] + 2
        found += [float(f"{float(one):.11g}") for one in (flat.abs().sum(), rows @ of_rows)]
    return found


def is_close(found: list[float] | str, known: list[float] | str, tolerance: float) -> bool:
    """Whether numbers are those that are known, up to rounding: each number may be off by a share of the sum."""
    if isinstance(found, str) or isinstance(known, str) or len(found) != len(known):
        return found == known
    return all(
        math.isclose(mine, right, rel_tol=0, abs_tol=3 * tolerance * (size + 1e-2))
        for (size, _), pair, other in zip(_pairs(known), _pairs(known), _pairs(found), strict=True)
        for mine, right in zip(other, pair, strict=True)
    )


def _pairs(numbers: list[float]) -> list[tuple[float, ...]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def others(legal: Legal, default: Any) -> list[Any]:
    """Every other choice of an argument, or one other value of a number or truth value; none if that is unknown."""
    if legal.choices:
        return [choice for choice in legal.choices if choice != default]
    if legal.kind is bool:
        return [not default]
    tried = [] if legal.tuned is None else [legal.tuned.at(0.3), legal.tuned.at(0.8)]
    if legal.kind is int:
        tried += [default + 1, default - 1] if default else [2]
    if legal.kind is float:
        tried += [1.5 * default, 0.5 * default, -0.5] if default else [0.3, 2.0]
    return [value for value in tried if legal.fits(value) and value != default][:1]


@dataclass
class GoldenBook:
    """The parts, and their golden numbers as they are known."""

    parts: dict[tuple[str, str], GoldenPart]
    known: dict[str, dict[str, Any]]
    _found: dict[tuple[str, str, str], Any] = field(default_factory=dict)

    @classmethod
    def read(cls, parts: Iterator[GoldenPart]) -> "GoldenBook":
        """From the committed file."""
        known = json.loads(FILE.read_text()) if FILE.exists() else {}
        return cls({(part.kind, part.name): part for part in parts}, known)

    def entry(self, part: GoldenPart) -> dict[str, Any] | None:
        """What is known of a part."""
        return self.known.get(part.kind, {}).get(part.name)

    def found(self, part: GoldenPart, label: str) -> list[float] | str:
        """The numbers of one case, now."""
        key = (part.kind, part.name, label)
        if key not in self._found:
            try:
                self._found[key] = summary(part.cases[label].make())
            except FilesMissing:  # of official data, which not every machine has
                self._found[key] = (self.entry(part) or {}).get("numbers", {}).get(label, REFUSED)
            except UserError:
                self._found[key] = REFUSED
        return self._found[key]

    def moved(self, part: GoldenPart, before: int = 9) -> list[str]:
        """The cases of a part whose numbers moved, of stages before one."""
        known = (self.entry(part) or {}).get("numbers", {})
        return [
            label
            for label, case in part.cases.items()
            if label in known and case.stage < before
            if not is_close(self.found(part, label), known[label], case.tolerance)
        ]

    def own(self, part: GoldenPart) -> list[str]:
        """The cases that moved, without those that moved because another part did."""
        return [label for label in self.moved(part) if not self._excused(part.cases[label])]

    def _excused(self, case: GoldenCase) -> bool:
        used = [self.parts[one] for one in case.uses if one in self.parts]
        return self._uses_raised(case) or any(self.moved(part, case.stage) for part in used)

    def _uses_raised(self, case: GoldenCase) -> bool:
        return any(self._is_raised(self.parts[one]) for one in case.uses if one in self.parts)

    def _is_raised(self, part: GoldenPart) -> bool:
        entry = self.entry(part)
        return entry is not None and part.version is not None and part.version > entry["version"]

    def forbidden(self, part: GoldenPart) -> str:
        """Why numbers of a part may not be written anew, in words; empty if they may."""
        entry = self.entry(part)
        if entry is None or part.absent or self._is_raised(part):
            return ""
        raise_it = f"raise its version in {part.file}, then {WRITE}"
        if part.version != entry["version"]:
            return f"{part.title}: its version is {part.version}, below {entry['version']}: restore it in {part.file}"
        for name, default in plain(part.defaults).items():
            if name in entry["defaults"] and entry["defaults"][name] != default:
                was = entry["defaults"][name]
                return f"{part.title}: its default of {name} was {was!r} and is {default!r}: {raise_it}"
        if own := self.own(part):
            more = f", and {len(own) - 1} more" if len(own) > 1 else ""
            return f"{part.title}: its numbers moved ({own[0]}{more}): {raise_it}"
        return ""

    def fault(self, part: GoldenPart) -> str:
        """What is wrong with a part, in one line that names it; empty if nothing is."""
        entry = self.entry(part)
        if part.version is None:
            return f"{part.title}: it has no version: give it one in {part.file}"
        if entry is None:
            return "" if part.absent else f"{part.title}: it has no golden numbers: {WRITE}"
        if self._is_raised(part):
            return f"{part.title}: its golden numbers are of version {entry['version']}, not {part.version}: {WRITE}"
        if forbidden := self.forbidden(part):
            return forbidden
        now, then = set(part.cases), set(entry["numbers"])
        if not part.absent and (now != then or plain(part.defaults) != entry["defaults"]):
            return f"{part.title}: its settings are others ({', '.join(sorted(now ^ then)[:3]) or 'defaults'}): {WRITE}"
        return ""

    def gone(self) -> list[str]:
        """Parts that have golden numbers and are no more."""
        known = [(kind, name) for kind, of in self.known.items() for name in of]
        return [f"{kind} {name}: it is gone, its golden numbers are not: {WRITE}" for kind, name in known
                if (kind, name) not in self.parts]  # fmt: skip

    def renewed(self, part: GoldenPart) -> dict[str, Any] | None:
        """The entry to write. Numbers that may not move, or moved no further than rounding does, stay as they are."""
        entry = self.entry(part)
        if part.absent:
            return entry
        known = {} if entry is None else entry["numbers"]
        moved = {label for label in self.moved(part) if self._is_raised(part) or self._uses_raised(part.cases[label])}
        numbers = {
            label: known[label] if label in known and label not in moved else self.found(part, label)
            for label in part.cases
        }
        return {"version": part.version, "defaults": plain(part.defaults), "numbers": numbers}


def plain(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has them."""
    return json.loads(json.dumps(dict(defaults), default=str))  # type: ignore[no-any-return]


def text_of(known: Mapping[str, Mapping[str, Any]]) -> str:
    """The file: a line for each case."""
    lines = []
    for kind, of in sorted(known.items()):
        for name, entry in sorted(of.items()):
            cases = ",\n".join(
                f"   {json.dumps(one)}: {json.dumps(values)}" for one, values in entry["numbers"].items()
            )
            head = f'"version": {entry["version"]}, "defaults": {json.dumps(entry["defaults"])}'
            lines.append((kind, f'  {json.dumps(name)}: {{{head}, "numbers": {{\n{cases}\n  }}}}'))
    kinds = [
        f" {json.dumps(kind)}: {{\n" + ",\n".join(line for _, line in group) + "\n }"
        for kind, group in itertools.groupby(lines, key=lambda one: one[0])
    ]
    return "{\n" + ",\n".join(kinds) + "\n}\n"
