"""Makes the plans of a call of `suite`, in a process that plug-ins may crash, end or hang."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from routebench.data import declared_where_missing, read_again
from routebench.engine.isolation import SAID_WHAT, STEP_LIMIT, Ended, Step, alone, import_plugin
from routebench.engine.suites._cell import Cell
from routebench.engine.suites._lineup import Choices
from routebench.engine.suites._plan import Plan, plan, preload_of
from routebench.engine.suites._suite import Suite, load_suite
from routebench.errors import PluginError, UserError, unknown
from routebench.options import ALL
from routebench.received import text_in
from routebench.registry import (
    EVERY,
    absolute,
    brought_by,
    extensions,
    installed_points,
    layout_of,
    leave_out_environment,
    load_plugin,
    load_suites,
    plugin_files,
    says_how_it_is_shown,
    suite_files,
    telling,
)

Attempt = Callable[["Asked", Mapping[Step, str]], "Planned"]
"""Makes plans in another process, without steps that ended one before.

Raises:
    Ended: the process ended.
"""


@dataclass(frozen=True)
class Asked:
    """The request of the user to `suite`.

    Args:
        suite: its name, its file, or `all`.
        preset: its name.
        choices: the user's choices; methods of plug-ins are added later.
        plugins: as for `load_plugin`.
        without_data: whether to plan by declared sizes where files of a data set are missing. Such plans cannot be
            executed.
        others: plug-ins that are not imported, though their suites are known.
    """

    suite: str
    preset: str
    choices: Choices
    plugins: tuple[str, ...] = ()
    without_data: bool = False
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """Plans, as plain data for a process that has loaded no plug-in.

    Args:
        plans: one per suite, in the order in which they run.
        plugins: the imported plug-ins.
        analyses: those of them that pages need: they bring analyses or claims, say, or say how they are shown.
        warnings: one line for each omission not yet reported.
        brought: methods and networks of each imported plug-in, by name.
    """

    plans: list[Plan]
    plugins: tuple[str, ...] = ()
    analyses: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)
    brought: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def make_plans(asked: Asked, step_limit: float | None = None) -> Planned:
    """Makes the plans of a call, in other processes if it may load plug-ins or installed packages.

    A plug-in that ends its process becomes a failed run: the plans are made again without it. What a plug-in changes
    when it is imported changes no run that does without it: that is planned where it was not imported.

    Args:
        asked: the user's request.
        step_limit: seconds that a plug-in may take to import, and a method to be made; None for `STEP_LIMIT`.

    Raises:
        UserError: the call cannot be planned, or code without which nothing can be planned ended its process.
    """
    leave_out_environment()  # its plug-ins are among those asked for
    read_again()
    foreign = bool(asked.plugins) or _others_are_installed()
    found = _plans_alone(asked, step_limit or STEP_LIMIT) if foreign else plans_of(asked, {})
    return replace(found, warnings=[told for told in found.warnings if told not in extensions.problems])


def _plans_alone(asked: Asked, step_limit: float) -> Planned:
    """Plans in other processes: all together, then each group of runs with the plug-ins alone that it needs."""
    preload = () if asked.without_data else _preload(asked)  # after a dry run, nothing is executed

    def attempt(wanted: Asked, faults: Mapping[Step, str], count: int = 0) -> Planned:
        if _is_own(wanted):  # planned here for every plan of a call, with what was read for the first
            return plans_of(wanted, faults)
        found: Planned = alone(plans_of, wanted, faults, each=step_limit, preload=preload)
        known = {*found.plugins}
        is_whole = len(found.plans) == count if count else found.plans
        if not is_whole or not known <= {*wanted.plugins} & found.brought.keys():
            raise Ended(SAID_WHAT)  # a plug-in spoke in place of `plans_of`
        return found

    found, faults = _plans_together(asked, attempt)
    told = list(found.warnings)
    for group in dict.fromkeys(cell.plugins for one in found.plans for cell in one.cells):
        own_specs = tuple(spec for spec in found.plugins if absolute(spec) in group)
        others = tuple(spec for spec in found.plugins if spec not in own_specs)
        if not others:
            continue
        absent = tuple(name for spec in others for name in found.brought[spec])
        names = {name for spec in own_specs for name in found.brought[spec]}
        known = {one: reason for one, reason in faults.items() if one[1].partition("[")[0] in names}
        try:
            own = attempt(_without(asked, own_specs, absent), known, len(found.plans))
        except (Ended, UserError) as error:
            told.append(f"what does without {_listed(others)} was planned with it, for it cannot without: {error}")
            continue
        found, is_changed = _with_own(found, own, group)
        if is_changed:
            told.append(f"{_listed(others)} changed how what does without it is planned; it was planned without it")
    return replace(found, warnings=told)


def _without(asked: Asked, plugins: tuple[str, ...], absent: tuple[str, ...]) -> Asked:
    """The same request with these plug-ins alone, and without what takes part by the `absent` names."""
    others = tuple(spec for spec in asked.plugins if spec not in plugins)
    return replace(asked, plugins=plugins, others=others, choices=replace(asked.choices, absent=absent))


def _plans_together(asked: Asked, attempt: Attempt) -> tuple[Planned, dict[Step, str]]:
    """The plans with all plug-ins but those that end their process, or make planning of other things fail.

    Returns:
        also the steps that ended a process, and how.

    Raises:
        UserError: the call cannot be planned.
    """
    faults: dict[Step, str] = {}
    while True:
        try:
            return attempt(asked, faults), faults
        except Ended as end:
            during = end.during or ("", "planning")
            if during[0] in {"plug-in", "method"} and during not in faults:
                faults[during] = f"failed to import: it {end}" if during[0] == "plug-in" else str(end)
                continue
            at = " ".join(during).strip()
            told, why = f"{at}: expected it to answer while the suite is planned, but it {end}", f"{at} {end}"
            failure: BaseException = end
        except UserError as error:
            told, why, failure = str(error), str(error), error
        blamed = _blamed(asked, faults, attempt)
        if not blamed:
            raise UserError(told) from failure
        faults |= {("plug-in", spec): f"disturbs what is not its own: with it, {why}" for spec in blamed}


def _blamed(asked: Asked, faults: Mapping[Step, str], attempt: Attempt) -> list[str]:
    """The plug-ins with which not even what does without them can be planned, and without which it can."""
    present = tuple(spec for spec in asked.plugins if ("plug-in", spec) not in faults)
    if not present:
        return []
    try:
        brought: dict[str, tuple[str, ...]] = alone(_brought_by, present)
    except (Ended, UserError):
        return []
    absent = tuple(name for names in brought.values() for name in names)

    def works(plugins: tuple[str, ...]) -> bool:
        try:
            attempt(_without(asked, plugins, absent), {})
        except (Ended, UserError):
            return False
        return True

    if works(present) or not works(()):
        return []
    return [spec for spec in present if len(present) == 1 or not works((spec,))] or [*present]


def _brought_by(plugins: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    for spec in plugins:
        load_plugin(spec)
    return {spec: brought_by(spec) for spec in plugins}


def _with_own(found: Planned, own: Planned, group: tuple[str, ...]) -> tuple[Planned, bool]:
    """The plans with the runs of one group as they were planned apart, and whether any differs."""
    plans, is_changed = [], False
    for whole, apart in zip(found.plans, own.plans, strict=True):
        waiting: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in apart.cells:
            if cell.plugins == group and not cell.broken:
                waiting.setdefault(_place(cell), []).append(cell)
        cells: list[Cell] = []
        for cell in whole.cells:
            same = waiting.get(_place(cell), []) if cell.plugins == group else [cell]
            cells += [same.pop(0)] if same else [cell] if cell.broken else []
        cells += [cell for left in waiting.values() for cell in left]
        is_changed |= [cell.key for cell in cells] != [cell.key for cell in whole.cells]
        head = apart if not group and apart.preset.models == whole.preset.models else whole
        altered = whole.altered | apart.altered
        plans.append(replace(head, cells=tuple(cells), is_foreign=whole.is_foreign, altered=altered))
    return replace(found, plans=plans), is_changed


def _place(cell: Cell) -> tuple[Any, ...]:
    """The names of a run in its plan, whatever it is trained with."""
    known = cell.identity
    return (
        known.method,
        known.variant,
        known.model,
        known.iterations,
        known.seed,
        known.data,
        known.options.get("trial"),
    )


def _listed(plugins: Sequence[str]) -> str:
    return f"plug-in {' or '.join(plugins)}"


def plans_of(asked: Asked, faults: Mapping[Step, str]) -> Planned:
    """Makes the plans in this process.

    Args:
        asked: the user's request.
        faults: steps that ended a process before, and how; they are skipped.

    Raises:
        UserError: a suite cannot be planned as asked for.
    """
    for spec in asked.others:
        load_suites(spec)
    added, broken, bring_analyses = _load(asked, faults)
    faulty = {name: f"it cannot be made: it {told}" for (kind, name), told in faults.items() if kind == "method"}
    choices = replace(asked.choices, added=added, broken=broken, faulty=faulty)
    kept = tuple(spec for spec in asked.plugins if spec not in broken)
    with contextlib.ExitStack() as stack:
        declared = stack.enter_context(declared_where_missing()) if asked.without_data else set()
        if kept:
            stack.enter_context(telling(_listed(kept)))
        try:
            plans = [plan(suite, asked.preset, choices) for suite in _suites(asked)]
        except UserError as error:  # what is missing may lie in a plug-in that did not import
            raise UserError("; ".join([str(error), *broken.values()])) from error
    told = [f"{reason}; it becomes a failed run of {spec}, and the others run" for spec, reason in broken.items()]
    told += [f"{name}: its files are not there; planned by its size, and runs have other keys" for name in declared]
    brought = {spec: brought_by(spec) for spec in kept}
    return Planned(plans, kept, bring_analyses, [*extensions.problems, *told], brought)


def _load(asked: Asked, faults: Mapping[Step, str]) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Imports plug-ins: the methods that they add, the reasons why some fail, and those that pages need.

    A folder adds no methods to its own suites, which list what they compare.
    """
    added: list[str] = []
    broken: dict[str, str] = {}
    bring_analyses: list[str] = []
    for spec in asked.plugins:
        if told := faults.get(("plug-in", spec)):
            broken[spec] = f"plug-in {spec} {told}"
            continue
        try:
            found = import_plugin(spec)
        except PluginError as error:
            broken[spec] = str(error)
            continue
        added += [] if asked.suite in found["suites"] else found["methods"]
        bring_analyses += [spec] if found["analyses"] or says_how_it_is_shown(spec) else []
    return tuple(added), broken, tuple(bring_analyses)


def _suites(asked: Asked) -> list[Suite]:
    """The suite of that name with the user's changes, or for `all` those with a place in it, in order."""
    name = asked.suite
    if name == ALL:
        found = [load_suite(known) for known in suite_files()]
        return sorted((suite for suite in found if suite.place_in_all), key=lambda suite: suite.place_in_all)
    _expect_known(name)
    return [load_suite(name, asked.preset, asked.choices.changes)]


def _expect_known(name: str) -> None:
    """Raises UserError for a name that is neither a suite's nor `all`, with the nearest of these."""
    known = [*suite_files(), ALL]
    if not name.endswith(".toml") and name not in known:
        raise unknown("suite", name, known)


def _is_own(asked: Asked) -> bool:
    """Tells whether nothing but routebench takes part in a plan, and nothing else has run in this process."""
    brought = [file for spec in asked.others for file in layout_of(spec) if file.suffix == ".toml"]
    return not (asked.plugins or brought or _others_are_installed()) and extensions.ships_whole


def _others_are_installed() -> bool:
    return bool(installed_points(*(registry.package for registry in EVERY.values())))


def _preload(asked: Asked) -> Sequence[str]:
    """Modules that all processes of the call need, as far as known before loading plug-ins."""
    found: list[str] = []
    with contextlib.suppress(UserError):  # a suite of a plug-in, or one that is not there
        for suite in _suites(asked):
            found += preload_of(suite.protocol)
    with contextlib.suppress(UserError):
        if any("analyses" in text_in(file) for spec in asked.plugins for file in plugin_files(spec)):
            found.append("routebench.report")
    return found
