"""All values of one suite with one preset, data set and model, keyed by method."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from routebench.analysis import wording
from routebench.analysis._estimate import SeedValues, mean_of
from routebench.analysis._method import Method
from routebench.analysis._verdicts import Strength
from routebench.analysis.palette import MUTED
from routebench.catalogue import views_of
from routebench.declared import as_recorded
from routebench.engine.results import COLUMNS, NOT_RUN
from routebench.errors import UserError

LONGEST = 150  # characters of a part's name: file systems take 255 bytes, endings and analyses' names included
WHOLE_FOLDER = "whole-folder"
"""Replaces a part's name in the files of an analysis that reads all parts."""
OF_CELLS = {
    *("suite", "suite_version", "protocol", "status", "reason", "method", "method_params", "label", "role"),
    *("iterations", "model", "data", "higher_is_better", "device", "commit", "dirty", "seconds"),
}
"""Columns of results that `Runs.values` omits, because the method or the runs have them."""


TIMES, OF_TIMES, SHARED = ("s", "ms"), ("steps_per_second", "images_per_second"), 20
"""Units and metrics of time, which differ between equal functions; and how many different values these must share."""


def no_samples(cell: str) -> NDArray[np.bool_] | None:  # noqa: ARG001  # the signature is the interface
    """Returns no per-sample outputs."""
    return None


def no_training(cell: str) -> Mapping[str, Any]:  # noqa: ARG001  # the signature is the interface
    """Returns no settings, for runs whose training settings nobody kept."""
    return {}


def unheard(cell: str, name: str, fault: str) -> None:
    """Tells nobody of a fault.

    Args:
        cell: key of the run.
        name: name of the array.
        fault: the fault, in words.
    """


def no_machine(cell: str) -> str:  # noqa: ARG001  # the signature is the interface
    """Knows no machine."""
    return ""


def no_arrays(cell: str) -> Mapping[str, NDArray[Any]]:  # noqa: ARG001  # the signature is the interface
    """Returns no raw outputs."""
    return {}


@dataclass(frozen=True, eq=False)
class Runs:
    """Everything that one suite measured with one preset, one data set and one model.

    Args:
        suite, preset, data, model, protocol: names.
        results: rows of `routebench.load_results` for the planned runs only.
        planned: one row per planned run, with `cell, label, role, iterations, model, data, seed, status, reason`.
        correct: run key to (n_test,) right or wrong per test image; None where it was not kept.
        colours: hex colour by label, the same in every figure of a report.
        arrays: run key to its raw outputs by name; empty where none were kept.
        tell_fault: takes a run's key, the name of one of its raw outputs, and why that is left out.
        training: run key to its training settings; empty where none are known.
        options: the same for what is measured, and how: the options of the protocol.
        hyperparameters: the same for its routing method, tuned ones among them.
        tuning: the same for how it was tuned: the chosen point, its score in %, the digest of the trials.
        trials: the number of trials of settings for each configuration; None where the plan does not say.
        primary: the suite's pre-specified comparisons, from all plans whose runs count; empty for none.
        yours: labels of the user's methods, which are the subject of the runs.
        told: the facts that a plan tells of the data set, if that does not ship; None where it tells none.
        fingerprint: the data's, the same for equal images whatever their name; empty where nothing was measured.
        machine: run key to the processor and GPU that it ran on, in words; empty where unknown.
        altered: keys of runs that were made otherwise than the suite's file says, apart from how many.
    """

    suite: str
    preset: str
    data: str
    model: str
    protocol: str
    results: DataFrame
    planned: DataFrame
    correct: Callable[[str], NDArray[np.bool_] | None] = no_samples
    colours: Mapping[str, str] = field(default_factory=dict)
    arrays: Callable[[str], Mapping[str, NDArray[Any]]] = no_arrays
    tell_fault: Callable[[str, str, str], None] = unheard
    training: Callable[[str], Mapping[str, Any]] = no_training
    options: Callable[[str], Mapping[str, Any]] = no_training
    hyperparameters: Callable[[str], Mapping[str, Any]] = no_training
    tuning: Callable[[str], Mapping[str, Any]] = no_training
    trials: int | None = None
    primary: Mapping[str, Any] = field(default_factory=dict)
    yours: frozenset[str] = frozenset()
    told: Mapping[str, Any] | None = None
    fingerprint: str = ""
    machine: Callable[[str], str] = no_machine
    altered: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Names these runs among others, usable in a file name."""
        whole = re.sub(r"[:/\\]", "-", "-".join((self.suite, self.preset, self.data, self.model)))
        if len(whole) <= LONGEST:
            return whole
        return f"{whole[:LONGEST]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"

    def views(self, test_images: int) -> int | None:
        """The number of test images in a row that show the same object, of so many; None where nobody knows."""
        return views_of(self.data, test_images, self.told)

    @property
    def strength(self) -> Strength:
        """The strength of the evidence of these runs."""
        return Strength.of(self.preset)

    @property
    def first(self) -> int | None:
        """The seeds below this number are the first of two stages, where more may have been added; None for none."""
        return int(self.primary["first"]) if self.primary else None

    @cached_property
    def methods(self) -> Mapping[str, Method]:
        """The method of each planned run, by the run's key."""
        planned, keys = self.planned, ["cell", "label", "iterations", "model", "role", "seed", "status"]
        networks = planned.groupby("label")["model"].nunique()
        found: dict[str, Method] = {}
        ends: dict[Method, dict[int, set[str]]] = {}
        made = cache(lambda label, steps, model, role: Method.of(label, steps, model, role, int(networks[label])))
        for cell, label, steps, model, role, seed, status in planned[keys].itertuples(index=False, name=None):
            method = found[str(cell)] = made(label, steps, model, role)
            ends.setdefault(method, {}).setdefault(int(seed), set()).add(str(status))
        known = {method: _counted(method, of, self.yours) for method, of in ends.items()}
        return {cell: known[method] for cell, method in found.items()}  # one object each: there may be many runs

    @cached_property
    def in_several(self) -> Mapping[str, frozenset[str]]:
        """The networks of each label that stands in more than one."""
        found: dict[str, set[str]] = {}
        for method in self.methods.values():
            found.setdefault(method.label, set()).add(method.model)
        return {label: frozenset(networks) for label, networks in found.items() if len(networks) > 1}

    @cached_property
    def in_one_network(self) -> "Runs":
        """The runs, of a method that stands in several networks those in one alone, so that no statistic mixes them.

        It is the network of the part where the method stands in it; else the one in which most such methods do, the
        first by name of several.
        """
        if not self.in_several:
            return self
        shared = Counter(model for own in self.in_several.values() for model in own)
        chosen = {
            label: min(own, key=lambda model: (model != self.model, -shared[model], model))
            for label, own in self.in_several.items()
        }
        cells = {cell for cell, one in self.methods.items() if chosen.get(one.label, one.model) == one.model}
        planned, results = (table[table["cell"].isin(cells)] for table in (self.planned, self.results))
        return replace(self, planned=planned, results=results)

    @cached_property
    def machines(self) -> Mapping[str, str]:
        """The known machine of each run with results, by the run's key."""
        cells = dict.fromkeys(self.results["cell"])
        return {cell: machine for cell in cells if (machine := self.machine(cell))}

    @cached_property
    def not_measured(self) -> tuple[str, ...]:
        """Measurements missing from finished runs, with the reason, a sentence each; back ends are told elsewhere."""
        results = self.results
        if "what" not in results:
            return ()
        rows = results[(results["metric"] == "absent") & results["what"].notna()]
        found = []
        for (what, why), own in rows.groupby(["what", "why"], sort=False):
            methods = sorted({self.methods[cell] for cell in own["cell"]})
            told = wording.plural(own["cell"].nunique(), "run")
            found.append(
                f"Not measured: {what}, of {wording.listed([str(one) for one in methods], 8)} ({told}): {why}."
            )
        return tuple(found)

    def without_twins(self, table: DataFrame) -> DataFrame:
        """The rows of a table, those of equal functions once: the methods in its column `method` name the others.

        A method with one iteration equals another one if everything that both measured is equal to the last bit with
        every seed, times apart. A baseline represents a method, else the first by name.
        """
        present: dict[Method, set[Method]] = {}
        for method in set(table["method"]):
            present.setdefault(self._twins.get(method, method), set()).add(method)
        kept = {}
        for own in present.values():
            first, *others = sorted(own, key=_controls_first)
            kept[first] = replace(first, same=tuple(others))
        return table[table["method"].isin(kept)].assign(method=lambda rows: rows["method"].map(kept).astype(object))

    @cached_property
    def _twins(self) -> Mapping[Method, Method]:
        """Methods that are the same function as another, with the one that represents them."""
        found: dict[Method, Method] = {}
        known: list[tuple[Method, dict[object, float]]] = []
        measured = self._by_coordinates()
        for method in sorted(measured, key=_controls_first):
            own = measured[method]
            alike = (other for other, values in known if _are_equal(own, values))
            same = next(alike, None) if method.iterations == 1 else None
            if same is None:
                known.append((method, own))
            else:
                found[method] = same
        return found

    def _by_coordinates(self) -> dict[Method, dict[object, float]]:
        """Values measured with the T trained with, by method, then by seed, metric and coordinates."""
        results = self.results
        tested = results.get("test_iterations", results["iterations"])
        chosen = results["value"].notna() & ~results["unit"].isin(TIMES) & ~results["metric"].isin(OF_TIMES)
        chosen &= (tested == results["iterations"]).fillna(False).astype(bool) | tested.isna()
        keys = [column for column in results if column not in OF_CELLS | {"cell", "value", "unit", "test_iterations"}]
        rows = results.loc[chosen]
        places = zip(*(rows[key].astype(object).where(rows[key].notna(), None) for key in keys), strict=True)
        found: dict[Method, dict[object, float]] = {}
        for cell, value, place in zip(rows["cell"], rows["value"], places, strict=True):
            found.setdefault(self.methods[cell], {})[place] = float(value)
        return found

    def colour(self, method: Method) -> str:
        """The colour of a method, the same in every figure of a report."""
        return self.colours.get(method.label, MUTED)

    def values(self, metric: str, *, as_trained: bool = False, **where: object) -> DataFrame:
        """All values of one metric, one row per value and seed.

        Args:
            metric: a value of the column `metric`.
            as_trained: only what was tested with the T trained with, or without any.
            where: further columns and their required values, such as `layer="classes"`.

        Returns:
            columns `method`, a `Method`, `cell, seed, metric, unit, value`, and the protocol's coordinates. Empty if
                nothing was measured, or a column is unknown. A method has lost the seeds whose value is no number.
        """
        results = self.results
        chosen, known = results["metric"] == metric, np.isfinite(results["value"].to_numpy(np.float64, na_value=np.nan))
        for column, value in where.items():
            chosen &= (results[column] == value).fillna(False).astype(bool) if column in results else False
        if as_trained and "test_iterations" in results:
            tested = results["test_iterations"]
            chosen &= (tested == results["iterations"]).fillna(False).astype(bool) | tested.isna()
        kept = [column for column in results if column not in OF_CELLS]  # a folder has dozens of columns
        rows = results.loc[chosen & known, kept].sort_values("seed", kind="stable")
        methods = self._less(results.loc[chosen & ~known, "cell"])
        return rows.assign(method=rows["cell"].map(methods).astype(object))

    def accuracies(self) -> DataFrame:
        """The accuracy on all test images with the T trained with, one row per run: columns as of `values`.

        A method has lost the seeds that finished without one, too, or with two that differ.
        """
        rows = self.values("accuracy", split="test", as_trained=True)
        parts = [column for column in rows if column == "epoch" or column not in {*COLUMNS, "method"}]
        rows = rows[rows[parts].isna().all(axis=1)].drop_duplicates(["cell", "value"])
        rows = rows[~rows.duplicated("cell", keep=False)]
        measured, known = {self.methods[cell] for cell in rows["cell"]}, {*rows["cell"]}
        done = self.planned.loc[self.planned["status"] == "ok", "cell"]
        lacking = [cell for cell in done if cell not in known and self.methods[cell] in measured]
        return rows.assign(method=rows["cell"].map(self._less(lacking)).astype(object)) if lacking else rows

    def _less(self, cells: Iterable[str]) -> Mapping[str, Method]:
        """Methods of runs, less the seeds of some runs, which are lost."""
        lost: dict[Method, set[int]] = {}
        if cells := {*cells}:
            planned = self.planned[self.planned["cell"].isin(cells)]
            for cell, seed in zip(planned["cell"], planned["seed"], strict=True):
                lost.setdefault(self.methods[cell], set()).add(int(seed))
        left = {method: method.less(seeds) for method, seeds in lost.items()}
        return {cell: left.get(method, method) for cell, method in self.methods.items()} if left else self.methods

    def means(self, metric: str, by: Iterable[str] = (), **where: Any) -> DataFrame:
        """The mean of a metric over seeds.

        Args:
            metric: a value of the column `metric`.
            by: columns of `values` that tell rows apart, such as `test_iterations`.
            where: as for `values`.

        Returns:
            one row per method and value of `by`, in this order: columns `method`, those of `by`, and `mean`, an
            `Estimate`. Empty where nothing was measured.

        Raises:
            UserError: a seed has several values that neither `by` nor `where` tells apart.
        """
        return means_over_seeds(self.values(metric, **where), by)

    def by_seed(self, metric: str, **where: Any) -> dict[Method, SeedValues]:
        """The values of a metric by method, then by seed.

        Args:
            metric: a value of the column `metric`.
            where: as for `values`.

        Raises:
            UserError: a seed has several values that `where` does not tell apart.
        """
        return self._by_seed(self.values(metric, **where), metric)

    def accuracies_by_seed(self) -> dict[Method, SeedValues]:
        """Those of `accuracies` by method, then by seed."""
        return self._by_seed(self.accuracies(), "accuracy")

    def _by_seed(self, rows: DataFrame, metric: str) -> dict[Method, SeedValues]:
        _expect_one(rows)
        found: dict[Method, SeedValues] = {}
        units = rows["unit"] if "unit" in rows else [""] * len(rows)
        for method, seed, value, unit in zip(rows["method"], rows["seed"], rows["value"], units, strict=True):
            if method not in found:
                found[method] = self.seed_values(metric, str(unit))
            found[method][int(seed)] = float(value)
        for method, own in found.items():
            own.lost = method.without_value(own)
        return {method.less(method.finished - {*own}): own for method, own in found.items()}

    def seed_values(self, metric: str, unit: str = "") -> SeedValues:
        """An empty mapping of seed to value, which knows the range and the direction of a metric.

        Args:
            metric: a value of the column `metric`.
            unit: the unit of its values.
        """
        known, way = as_recorded(metric, unit), None
        if known.higher_is_better is None and "higher_is_better" in self.results:  # of what nobody declared
            way = next(iter(self.results.loc[self.results["metric"] == metric, "higher_is_better"].dropna()), None)
        way = known.higher_is_better if way is None else bool(way)
        return SeedValues(first=self.first, within=known.range, higher_is_better=way)

    def examples(self, name: str, *, iterative: bool = False) -> dict[Method, Mapping[str, NDArray[Any]]]:
        """Raw outputs of one run of each method and network that has them: the first seed, the largest T.

        Args:
            name: the name of an array that they must hold.
            iterative: only of methods with iterations.
        """
        done = self.planned[self.planned["status"] == "ok"]
        done = done[done["iterations"].notna()] if iterative else done
        cells = done.loc[done["seed"] == done["seed"].min(), "cell"]
        largest = {
            method.family: (method, cell) for method, cell in sorted((self.methods[cell], cell) for cell in cells)
        }
        found = {method: self.arrays(cell) for method, cell in largest.values()}
        return {method: arrays for method, arrays in found.items() if name in arrays}


def _counted(method: Method, ends: Mapping[int, Set[str]], yours: Set[str]) -> Method:
    """The method with its seeds: how the runs of each ended."""
    return replace(
        method,
        yours=method.label in yours,
        planned=frozenset(ends),
        finished=frozenset(seed for seed, of in ends.items() if of == {"ok"}),
        lost=frozenset(seed for seed, of in ends.items() if not of <= {"ok", NOT_RUN}),
    )


def _controls_first(method: Method) -> tuple[bool, Method]:
    return not method.is_control, method


def _are_equal(ours: Mapping[object, float], theirs: Mapping[object, float]) -> bool:
    """Tells whether all shared values are equal, and many of them different numbers, which are not equal by chance."""
    shared = ours.keys() & theirs.keys()
    if any(ours[place] != theirs[place] for place in shared):
        return False
    return len({ours[place] for place in shared if not ours[place].is_integer()}) >= SHARED


def _expect_one(rows: DataFrame, by: Sequence[str] = ()) -> None:
    """Checks that no value stands beside another of the same seed: one of them would count, or each as a seed.

    Raises:
        UserError: some do.
    """
    again = rows.duplicated(["method", "seed", *by], keep=False)
    if not again.any():
        return
    first = rows[again].iloc[0]
    several = rows[(rows["method"] == first["method"]) & (rows["seed"] == first["seed"])]
    apart = [str(column) for column in rows.columns.drop(["value", *by]) if len(several[column].unique()) > 1]
    raise UserError(
        f"{first['metric']}: expected one value of {first['method']} for each seed, got several that differ in "
        f"{', '.join(apart) or 'nothing'}; choose one, as in values(metric, {[*apart, 'column'][0]}=...)"
    )


def means_over_seeds(values: DataFrame, by: Iterable[str] = ()) -> DataFrame:
    """The same as `Runs.means`, from rows of `Runs.values` of one metric.

    Args:
        values: rows of one metric, with a column for each of `by`.
        by: columns that tell rows apart.
    """
    keys = [*by]
    if values.empty:
        return DataFrame(columns=["method", *keys, "mean"])
    _expect_one(values, keys)
    measure = as_recorded(str(values["metric"].iloc[0]), str(values["unit"].iloc[0]))
    methods: dict[Any, Method] = dict(enumerate(sorted(set(values["method"]))))
    place = values["method"].map({method: place for place, method in methods.items()})
    rows = []
    for (first, *others), own in values["value"].groupby([place, *(values[key] for key in keys)], dropna=False):
        mean = mean_of(own, measure.whole, measure.range)
        rows.append({"method": methods[first], **dict(zip(keys, others, strict=True)), "mean": mean})
    return DataFrame(rows)
