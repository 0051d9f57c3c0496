"""The cells of a results folder under the names a user would match them by: not by the hash of the code."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routebench.engine.results import NOT_RUN, Identity, Store
from routebench.errors import UserError


@dataclass(frozen=True)
class Address:
    """What names a cell in two folders alike. `options`, `model_params` are JSON, `params` what the user set."""

    suite: str
    preset: str
    protocol: str
    method: str
    params: str
    iterations: int | None
    model: str
    model_params: str
    data: str
    seed: int
    options: str

    def without_options(self) -> tuple[object, ...]:
        """The same for two cells that differ in the protocol's options only."""
        return tuple(value for name, value in vars(self).items() if name != "options")


@dataclass(frozen=True)
class Cell:
    """A planned cell and what became of it.

    Args:
        key: of its record and arrays in the folder.
        label: of the method, as shown.
        status: as in the record; `not run` without one.
        reason: of a failure.
        identity, provenance, metrics: as in the record; the last two are empty without one.
    """

    key: str
    label: str
    status: str
    reason: str
    identity: Identity
    provenance: Mapping[str, Any]
    metrics: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """`dynamic T=3 seed 0`."""
        steps = self.identity.iterations
        return f"{self.label}{'' if steps is None else f' T={steps}'} seed {self.identity.seed}"


@dataclass(frozen=True)
class Side:
    """One of the two folders: its planned cells by address, and its raw outputs."""

    path: Path
    cells: Mapping[Address, Cell]
    warnings: tuple[str, ...] = ()
    """What was damaged in the folder."""

    def of_methods(self, names: Collection[str]) -> "Side":
        """The cells of some methods, by name or label; all of them for none."""
        own = {at: cell for at, cell in self.cells.items() if not names or {at.method, cell.label} & set(names)}
        return replace(self, cells=own)

    def correct(self, cell: Cell) -> NDArray[np.float64] | None:
        """(n_test,) 1 or 0 per test image; None if it was not kept."""
        found = Store(self.path).arrays(cell.key).get("correct")
        return None if found is None or found.ndim != 1 else found.astype(np.float64)

    def facts(self, name: str) -> list[str]:
        """The different values of a fact of provenance, such as `commit`, over all cells that have a record."""
        values = (str(cell.provenance.get(name) or "") for cell in self.cells.values() if cell.provenance)
        return list(dict.fromkeys(value for value in values if value))

    @property
    def dirty(self) -> bool:
        """Whether any cell was measured with changes that were not committed."""
        return any(cell.provenance.get("dirty") for cell in self.cells.values())


def read_side(path: Path) -> Side:
    """Reads a results folder. Of cells that cannot be told apart, the newest plan's counts.

    Raises:
        UserError: there is no such folder, or nothing was ever planned in it.
    """
    if not path.is_dir():
        raise UserError(f"expected a results folder, got {str(path)!r}; run `python -m routebench suite NAME` first")
    store = Store(path)
    planned = store.planned()
    if planned.empty:
        raise UserError(f"nothing was planned in {str(path)!r} yet; run `python -m routebench suite NAME` first")
    identities = {cell.cell: cell.identity for plan in store.plans() for cell in plan.cells}
    cells = dict(_cells(store, planned.to_dict("records"), identities))
    return Side(path, cells, tuple(store.warnings))


def _cells(
    store: Store, planned: list[dict[Any, Any]], identities: Mapping[str, Identity]
) -> Iterator[tuple[Address, Cell]]:
    for row in planned:
        key, known = str(row["cell"]), identities[row["cell"]]
        kept = None if row["status"] == "not run" else store.record(key)  # its raw outputs may be damaged
        cell = Cell(key, row["label"], NOT_RUN, "", known, {}, ())
        if kept is not None:
            cell = Cell(key, row["label"], kept.status, kept.reason, known, kept.provenance, tuple(kept.metrics))
        yield _address(str(row["preset"]), str(row["method_params"]), known), cell


def _address(preset: str, params: str, known: Identity) -> Address:
    return Address(
        suite=known.suite,
        preset=preset,
        protocol=known.protocol,
        method=known.method,
        params=params,
        iterations=known.iterations,
        model=known.model,
        model_params=json.dumps(known.model_params, sort_keys=True),
        data=known.data,
        seed=known.seed,
        options=json.dumps(known.options, sort_keys=True),
    )
