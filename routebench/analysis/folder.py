"""A results folder as a report reads it: its parts, and what their records say about how they were made."""

import contextlib
import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from pandas import DataFrame, isna

from routebench.analysis import wording
from routebench.analysis._method import CONTROL
from routebench.analysis._runs import Runs
from routebench.analysis.families import Key, key_of, pairs_in
from routebench.analysis.palette import colours_of
from routebench.catalogue import catalogue, shipped_version
from routebench.engine.isolation import Scratch
from routebench.engine.merge import Unequal, merge, opened
from routebench.engine.results import SAME_DATA, Record, Records, Store, existing, is_packed, tuning_of
from routebench.errors import UserError, shown

ENTRY = ["label", "method_params", "model", "iterations"]
"""Columns of planned runs that distinguish the configurations of a part."""
NEVER = "~"
"""Later than any time, as ISO 8601 writes them."""


class NothingPlanned(UserError):
    """A folder in which no suite was ever planned.

    Args:
        path: the path of the folder.
        warnings: about files of it that could not be read, among which a plan may be.
    """

    exit_code = 4  # as where nothing was measured

    def __init__(self, path: Path, warnings: Sequence[str]):
        told = "".join(f"; {warning}" for warning in warnings)
        super().__init__(f"nothing was planned in {str(path)!r} yet; run `python -m routebench suite NAME` first{told}")


@dataclass(frozen=True)
class Folder:
    """The contents of a results folder.

    Args:
        store: that reads the folder.
        kept: its records.
        parts: one per suite, preset, data set and model, the newest plan first.
        plans: for each part, by its name, the plan file's content without its runs; in `tunings` how all its plans
            chose settings, the newest first; in `budgets` the methods by what they had, where that differs; in `added`
            the number of configurations to which seeds were added; in `margins` other margins that plans had earlier;
            in `superseded` the number of results, by label, of other code, options or training that count no longer;
            in `late` and `dropped` comparisons, in words, that were named, or no longer, when runs had ended;
            in `others` the other plans of which a run counts, the newest first.
        origins: the folders that it was put together from, the user's own first; empty where it is one.
    """

    store: Store
    kept: Records
    parts: tuple[Runs, ...]
    plans: Mapping[str, Mapping[str, Any]]
    origins: tuple[Path, ...] = ()

    @property
    def path(self) -> Path:
        """The path of the user's own folder."""
        return self.origins[0] if self.origins else self.store.path

    @property
    def title(self) -> str:
        """The places of its results, for a page."""
        return " and ".join(map(shown, self.origins or (self.store.path,)))

    @property
    def warnings(self) -> list[str]:
        """Plain sentences about what was found damaged up to now."""
        return self.store.warnings

    def records(self, runs: Runs) -> list[Record]:
        """The records of a part's finished and failed runs."""
        found = map(self.kept.get, runs.planned["cell"])
        return [record for record in found if record is not None]


def open_folder(path: Path, beside: Path | None = None) -> Folder:
    """Reads a results folder.

    Args:
        path: the folder that results lie in.
        beside: another folder or a pack, such as a published one, whose results stand with it as in one folder. Both
            stay as they are.

    Raises:
        UserError: one does not exist, or a run has different numbers in both.
        NothingPlanned: no suite was ever planned in it.
    """
    if beside is not None:
        return _together(path, beside)
    store = existing(path)
    planned = store.planned()
    if planned.empty:
        raise NothingPlanned(path, store.warnings)
    kept = store.records()
    results = kept.table()
    colours = colours_of(planned["label"])
    arrays, correct = _arrays_in(store, kept), cache(store.correct)
    parts, plans = [], {}
    shipped = {suite["name"] for suite in catalogue(kinds=("suites",))["suites"]}
    heads = (_in_words_of_today(plan) if plan["suite"] in shipped else plan for plan in store.plan_heads())
    content = {plan["plan"]: plan for plan in heads}
    told, begun, earlier = store.told(), store.first_planned(), store.earlier()
    for plan, cells, model in _split(planned, content):
        facts = content[plan]
        own = results[results["cell"].isin(cells["cell"])]
        first = cells.iloc[0]
        names = {key: str(first[key]) for key in ("suite", "preset", "data")}
        protocol = str(facts.get("protocol") or next(iter(own["protocol"].dropna()), ""))
        part = Runs(
            **names, model=model, protocol=protocol, results=own, planned=cells, correct=correct, colours=colours,
            arrays=arrays, tell_fault=store.tell_fault, training=_settings_in(kept, "training"),
            options=_settings_in(kept, "options"), hyperparameters=_settings_in(kept, "method_params"),
            tuning=_settings_in(kept, "tuning"),
            primary=_primary_of(facts, cells, content), trials=_trials_of(facts),
            yours=_yours_of(cells, content, packed=is_packed(path)), told=told.get(names["data"]),
            fingerprint=next((one.data_fingerprint for one in map(kept.identity_of, cells["cell"]) if one), ""),
            machine=partial(_machine_of, kept),
            altered=frozenset(_altered(cells, content)),
        )  # fmt: skip
        parts.append(part)
        others = [content[name] for name in reversed([*cells["plan"].unique()])]
        tunings = [*filter(None, map(tuning_of, [facts, *others]))]
        more = {"margins": _earlier_margins(facts, content, map(kept.get, cells["cell"])), "tunings": tunings}
        more |= {"budgets": _budgets(part, content), "added": _with_added_seeds(part, begun, kept)}
        more |= {"superseded": _superseded(part, earlier)}
        more |= _changed_pairs(part, facts, content, begun, kept)
        more |= {"others": [one for one in others if one["plan"] != plan]}
        plans[part.name] = {**facts, **more}
        if len({one.trials for one in tunings}) > 1:  # no number holds for all methods
            parts[-1] = replace(part, trials=None)
    if not parts:  # plans of no method and no model, which no suite makes
        raise NothingPlanned(path, store.warnings)
    return Folder(store, kept, tuple(parts), plans)


def _earlier_margins(
    plan: Mapping[str, Any], content: Mapping[str, Mapping[str, Any]], records: Iterable[Record | None]
) -> list[float]:
    """Other margins that earlier plans of a part had, where runs had ended when the newest plan was made.

    Args:
        plan: the newest plan of the part.
        content: the plans by name, the oldest first.
        records: those of its runs.
    """
    if not plan.get("primary"):
        return []
    same = [one["primary"] for one in content.values() if one.get("primary") and _part_of(one) == _part_of(plan)]
    other = [margin for margin in dict.fromkeys(one["margin"] for one in same) if margin != plan["primary"]["margin"]]
    ends = (str(record.provenance.get("finished", "")) for record in records if record is not None)
    return other if other and any(end < plan["created"] for end in ends) else []


def _changed_pairs(
    part: Runs,
    plan: Mapping[str, Any],
    content: Mapping[str, Mapping[str, Any]],
    begun: Mapping[str, str],
    kept: Records,
) -> dict[str, list[str]]:
    """Comparisons that no plan named before runs of both sides had ended, and those that the newest plan leaves out.

    A run tells only of plans that are later than the first that planned it.

    Args:
        part: the runs.
        plan: the newest plan of the part.
        content: the plans by name, the oldest first.
        begun: when each run was planned first, by key.
        kept: the folder's records.

    Returns:
        `late` and `dropped`, each `A against B`.
    """
    suite, preset, data = _part_of(plan)
    alike = [one for one in content.values() if (_part_of(one)[0], _part_of(one)[2]) == (suite, data)]
    if len(alike) < 2 or not any(one.get("primary") for one in alike):
        return {"late": [], "dropped": []}
    ends: dict[Key, str] = {}
    titles: dict[Key, str] = {}
    for cell in part.planned["cell"]:
        key, record = key_of(part.methods[cell]), kept.get(cell)
        titles[key] = str(part.methods[cell])
        if record is not None and (end := str(record.provenance.get("finished", ""))):
            ends[key] = min(ends.get(key, NEVER), max(begun.get(cell, NEVER), end))
    first: dict[tuple[Key, Key], str] = {}
    for one in alike:
        for pair in pairs_in(one.get("primary") or {}):
            first[pair] = min(first.get(pair, NEVER), one["created"])

    def known_before(pair: tuple[Key, Key], time: str) -> bool:
        return all(ends.get(side, NEVER) < time for side in pair)

    now = [*pairs_in(part.primary)]
    late = [pair for pair in now if known_before(pair, first.get(pair, ""))]
    earlier = [pair for one in alike if one["preset"] == preset for pair in pairs_in(one.get("primary") or {})]
    dropped = [pair for pair in dict.fromkeys(earlier) if pair not in now and known_before(pair, plan["created"])]
    told = [[f"{titles[ours]} against {titles[theirs]}" for ours, theirs in pairs] for pairs in (late, dropped)]
    return dict(zip(("late", "dropped"), told, strict=True))


def _altered(cells: DataFrame, content: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The keys of runs that were made otherwise than the suite's file says.

    Args:
        cells: planned runs.
        content: the plans by name.
    """
    known = {
        (name, one["label"], one["model"], one["iterations"])
        for name, plan in content.items()
        for one in plan.get("altered", ())
    }
    # Plans of before runs were told apart say only what was changed.
    whole = {name for name, plan in content.items() if plan.get("changes") and "altered" not in plan}
    if known or whole:
        entries = cells[["cell", "plan", "label", "model", "iterations"]].itertuples(index=False, name=None)
        for cell, plan, label, model, steps in entries:
            if plan in whole or (plan, label, model, None if isna(steps) else int(steps)) in known:
                yield str(cell)


def _part_of(plan: Mapping[str, Any]) -> tuple[Any, ...]:
    """Suite, preset and data set of a plan."""
    return plan["suite"], plan["preset"], plan.get("settings", {}).get("data")


def _budgets(part: Runs, content: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Methods by the trials that their settings are the best of, in words; empty where all had the same.

    Args:
        part: the runs.
        content: the plans by name.
    """
    of_plans = {
        plan: known for plan in part.planned["plan"].unique() if (known := tuning_of(content[plan])) is not None
    }
    if len({(known.best, known.data) for known in of_plans.values()}) < 2:
        return {}
    found: dict[tuple[str, str], dict[str, None]] = {}
    for plan, cell in zip(part.planned["plan"], part.planned["cell"], strict=True):
        if part.tuning(cell) and (known := of_plans.get(plan)) is not None:
            found.setdefault((known.best, known.data or SAME_DATA), {})[str(part.methods[cell].family)] = None
    several = len({data for _, data in found}) > 1
    told = {f"{best} on images of {data}" if several else best: [*names] for (best, data), names in found.items()}
    return told if len(told) > 1 else {}


def _in_words_of_today(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of a suite of routebench, its sentences in words of today."""
    told = {key: wording.of_today(str(plan.get(key, ""))) for key in ("question", "caveat")}
    if "tuned" in plan:
        told_of = {key: wording.of_today(plan["tuned"][key]) for key in ("kept", "told")}
        return {**plan, **told, "tuned": {**plan["tuned"], **told_of}}
    return {**plan, **told}


def _yours_of(cells: DataFrame, content: Mapping[str, Mapping[str, Any]], *, packed: bool) -> frozenset[str]:
    """The labels of the user's methods, each by the plan that its runs are of; in a pack, only those that do not ship.

    Who reads a pack did not ask for its methods.
    """
    pairs = cells[["plan", "label"]].drop_duplicates().itertuples(index=False)
    named = {label for plan, label in pairs if label in content[plan].get("yours", ())}
    return frozenset(label for label in named if not packed or shipped_version("method", label) is None)


def _primary_of(
    plan: Mapping[str, Any], cells: DataFrame, content: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The comparisons that the plans of these runs name, with the margin and the half-width of the newest plan.

    An older plan's are those of which a run counts: a plan of fewer methods makes no comparison unnamed. Their first
    stage is the largest of all.

    Args:
        plan: the newest.
        cells: the runs that count.
        content: the plans by name, the oldest first.
    """
    counting = {*cells["plan"]}
    named = [one for name, one in [*content.items()][::-1] if name in counting and one.get("primary")]
    if not named:
        return {}
    entries = cells[["plan", "label", "model", "iterations"]].drop_duplicates().itertuples(index=False, name=None)
    known = {(plan, label, model, None if isna(steps) else int(steps)) for plan, label, model, steps in entries}
    pairs = [
        pair
        for one in named
        for pair in one["primary"].get("pairs", ())
        if one is plan
        or any((one["plan"], *map(side.get, ("label", "model", "iterations"))) in known for side in pair.values())
    ]
    first = plan.get("primary") or named[0]["primary"]
    distinct = {json.dumps(pair, sort_keys=True): pair for pair in pairs}
    return {**first, "first": max(one["primary"]["first"] for one in named), "pairs": [*distinct.values()]}


def _with_added_seeds(runs: Runs, begun: Mapping[str, str], kept: Records) -> int:
    """Counts the configurations to which seeds were added when two or more of their runs had ended.

    Seeds of a second stage do not count: their rule keeps the coverage of intervals.

    Args:
        runs: a part.
        begun: when each run was planned first, by key.
        kept: the folder's records.
    """
    planned = runs.planned if runs.first is None else runs.planned[runs.planned["seed"] < runs.first]
    of_plans = planned.assign(begun=planned["cell"].map(begun))
    entries = of_plans.groupby(ENTRY, dropna=False, sort=False)
    again = entries["begun"].transform("nunique") > 1
    found = 0
    for _, own in of_plans[again].groupby(entries.ngroup()[again]):
        last = own["begun"].max()
        records = map(kept.get, own.loc[own["begun"] < last, "cell"])
        ends = sorted(record.provenance.get("finished", "") for record in records if record is not None)
        found += len(ends) > 1 and ends[1] < last  # times in UTC, as ISO 8601 writes them
    return found


def _superseded(runs: Runs, earlier: DataFrame) -> dict[str, int]:
    """Counts results whose place the runs of a part have taken, by label.

    Args:
        runs: the part.
        earlier: all of the folder, as the store gives them.
    """
    own = earlier[(earlier[["suite", "preset", "data"]] == [runs.suite, runs.preset, runs.data]).all(axis=1)]
    entries = own.merge(runs.planned[ENTRY].drop_duplicates(), on=ENTRY)  # of several parts, that with the network
    return {str(label): int(count) for label, count in entries.groupby("label", sort=False).size().items()}


def _settings_in(kept: Records, kind: str) -> Callable[[str], Mapping[str, Any]]:
    """Run key to settings of a kind, an attribute of identities, by record."""

    def settings(cell: str) -> Mapping[str, Any]:
        identity = kept.identity_of(cell)
        return {} if identity is None else getattr(identity, kind) or {}

    return settings


def _machine_of(kept: Records, cell: str) -> str:
    """The GPU and processor that a run was on, in words."""
    known = kept.head_of(cell, "provenance") or {}
    return ", ".join(str(known[part]) for part in ("gpu", "processor") if known.get(part))


def _trials_of(plan: Mapping[str, Any]) -> int | None:
    """The number of trials of settings that each configuration had."""
    found = tuning_of(plan)
    return None if found is None else found.trials


def _split(planned: DataFrame, content: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, DataFrame, str]]:
    """Newest plan, runs and model of each part; plans come with the oldest first.

    What has networks of its own goes with the models that the plan puts them beside; a baseline with every model, where
    a plan says nothing of that.
    """
    parts, order = [], {name: number for number, name in enumerate(content)}
    for _, cells in planned.groupby(["suite", "preset", "data"], sort=False):
        models = _models_of(cells, content)
        for model in models:
            of_plans = {plan: _beside(content[plan], model) for plan in map(str, cells["plan"].unique())}
            beside = pd.Series(
                [network in of_plans[plan].get(name, ()) for plan, name, network in _rows(cells)], index=cells.index
            )
            placed = pd.Series([name in of_plans[plan] for plan, name, _ in _rows(cells)], index=cells.index)
            shared = (cells["role"] == CONTROL) & ~cells["model"].isin(models)
            taken = (placed & beside) | (~placed & ((cells["model"] == model) | shared))
            if taken.any():
                methods = taken & (cells["role"] != CONTROL)
                plan = max(map(str, cells.loc[methods if methods.any() else taken, "plan"]), key=order.__getitem__)
                parts.append((plan, cells[taken].reset_index(drop=True), model))
    return sorted(parts, key=lambda part: order[part[0]], reverse=True)


def _models_of(cells: DataFrame, content: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The networks that the plans were made for; for a plan that does not say, those that its methods run in."""
    found: list[str] = []
    for plan, own in cells.groupby("plan", sort=False):
        methods = own.loc[own["role"] != CONTROL, "model"]
        named = content[str(plan)].get("settings", {}).get("models")
        found += named or [*map(str, methods)] or [str(own["model"].iloc[0])]
    return list(dict.fromkeys(found))


def _beside(plan: Mapping[str, Any], model: str) -> dict[str, Sequence[str]]:
    """The networks that stand beside `model`, for each method and baseline with networks of its own."""
    known = {name: of_models.get(model, ()) for name, of_models in plan.get("networks", {}).items()}
    return {name: [found] if isinstance(found, str) else found for name, found in known.items()}


def _rows(cells: DataFrame) -> list[tuple[str, str, str]]:
    return list(zip(*(cells[key].map(str) for key in ("plan", "method", "model")), strict=True))


def _arrays_in(store: Store, kept: Records) -> Callable[[str], Mapping[str, NDArray[Any]]]:
    """Run key to raw outputs, by name; no file is looked for where the record names none."""
    known = zip(*(kept.facts[name].items() for name in ("cell", "has_arrays")), strict=True)
    named = {cell for cell, has_arrays in known if has_arrays}
    return lambda cell: store.arrays(cell) if cell in named else {}


APART = (
    "no run was made in both {}, so that nothing tells whether their machines agree: a difference between methods may "
    "be one between machines"
)
ADVICE = "results of two machines are not paired by seed: `rank` compares gains over uniform routing"


def _together(path: Path, beside: Path) -> Folder:
    """The results of two folders as of one, which lasts as long as the store that reads it."""
    stores = opened([path, beside])
    made = Scratch()
    with contextlib.ExitStack() as undo:
        undo.callback(made.cleanup)
        try:
            merged = merge(stores, Path(made.name) / "results", networks=False)
        except Unequal as error:
            raise Unequal(error.what, ADVICE) from error
        found = open_folder(merged.folder)
        undo.pop_all()
    weakref.finalize(found.store, made.cleanup)
    found.store.warnings += merged.warnings
    found.store.warnings += [
        f"failed, and has a result in the other folder, which counts: {one}" for one in merged.replaced
    ]
    found.store.warnings += [
        f"diverged, and has a result in the other folder; it counts as diverged: {one}" for one in merged.contradicted
    ]
    found.store.warnings += [f"do not count beside newer ones in the other folder: {one}" for one in merged.superseded]
    if not merged.shared:
        found.store.warnings.append(APART.format(" and ".join(map(shown, (path, beside)))))
    return replace(found, origins=(path, beside))
