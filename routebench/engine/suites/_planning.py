"""Makes the plans of a call of `suite`, in a process that plug-ins may crash, end or hang."""

import contextlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from routebench.data import declared_where_missing
from routebench.engine.isolation import Ended, Step, alone, step
from routebench.engine.suites._lineup import Choices
from routebench.engine.suites._plan import Plan, plan, preload_of
from routebench.engine.suites._suite import Suite, load_suite
from routebench.errors import PluginError, UserError, unknown
from routebench.registry import (
    EVERY,
    extensions,
    leave_out_environment,
    load_plugin,
    plugin_files,
    suite_files,
)

ALL = "all"
"""Replaces a suite's name: every suite with a place in it."""
STEP_LIMIT = 300.0  # seconds that a plug-in may take to import, and a method to be made, if the user says nothing


@dataclass(frozen=True)
class Asked:
    """What the user asks `suite` for.

    Args:
        suite: its name, its file, or `all`.
        preset: by name.
        choices: of the user; methods of plug-ins are added later.
        plugins: as for `load_plugin`.
        without_data: plan by declared sizes where files of a data set are missing. Such plans cannot be run.
    """

    suite: str
    preset: str
    choices: Choices
    plugins: tuple[str, ...] = ()
    without_data: bool = False


@dataclass(frozen=True)
class Planned:
    """Plans, as plain data for a process that has loaded no plug-in.

    Args:
        plans: one per suite, in the order in which they run.
        plugins: the imported ones.
        analyses: those of them that bring analyses.
        warnings: one line for each omission not yet reported.
    """

    plans: list[Plan]
    plugins: tuple[str, ...] = ()
    analyses: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)


def make_plans(asked: Asked, step_limit: float | None = None) -> Planned:
    """Makes the plans of a call, in another process if it may load plug-ins or installed packages.

    A plug-in that ends that process becomes a failed cell: the plans are made again without it.

    Args:
        asked: by the user.
        step_limit: seconds that a plug-in may take to import, and a method to be made; None for `STEP_LIMIT`.

    Raises:
        UserError: the call cannot be planned, or code without which nothing can be planned ended its process.
    """
    leave_out_environment()  # its plug-ins are among those asked for
    foreign = bool(asked.plugins) or _others_are_installed()
    found = _plans_alone(asked, step_limit or STEP_LIMIT) if foreign else plans_of(asked, {})
    return replace(found, warnings=[told for told in found.warnings if told not in extensions.problems])


def _plans_alone(asked: Asked, step_limit: float) -> Planned:
    faults: dict[Step, str] = {}
    preload = () if asked.without_data else _preload(asked)  # after a dry run, no cell runs
    while True:
        try:
            found: Planned = alone(plans_of, asked, faults, each=step_limit, preload=preload)
        except Ended as end:
            if end.during is None or end.during[0] not in {"plug-in", "method"} or end.during in faults:
                at = " ".join(end.during or ("planning",))
                raise UserError(f"{at}: expected it to answer while the suite is planned, but it {end}") from end
            faults[end.during] = str(end)
        else:
            return found


def plans_of(asked: Asked, faults: Mapping[Step, str]) -> Planned:
    """Makes the plans in this process.

    Args:
        asked: by the user.
        faults: steps that ended a process before, and how; they are skipped.
    """
    added, broken, bring_analyses = _load(asked, faults)
    faulty = {name: f"it cannot be made: it {told}" for (kind, name), told in faults.items() if kind == "method"}
    choices = replace(asked.choices, added=added, broken=broken, faulty=faulty)
    with declared_where_missing() if asked.without_data else contextlib.nullcontext(()) as declared:
        plans = [plan(suite, asked.preset, choices) for suite in _suites(asked.suite, broken)]
    kept = tuple(spec for spec in asked.plugins if spec not in broken)
    told = [f"{reason}; it becomes a failed cell of {spec}, and the others run" for spec, reason in broken.items()]
    told += [f"{name}: its files are not there; planned by its size, and cells have other keys" for name in declared]
    return Planned(plans, kept, bring_analyses, [*extensions.problems, *told])


def _load(asked: Asked, faults: Mapping[Step, str]) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Imports plug-ins: the methods that they add, the reasons why some fail, and those that bring analyses.

    A folder adds no methods to its own suites, which list what they compare.
    """
    added: list[str] = []
    broken: dict[str, str] = {}
    bring_analyses: list[str] = []
    for spec in asked.plugins:
        if told := faults.get(("plug-in", spec)):
            broken[spec] = f"plug-in {spec} failed to import: it {told}"
            continue
        try:
            with step("plug-in", spec):
                found = load_plugin(spec)
        except PluginError as error:
            broken[spec] = str(error)
            continue
        added += [] if asked.suite in found["suites"] else found["methods"]
        bring_analyses += [spec] if found["analyses"] else []
    return tuple(added), broken, tuple(bring_analyses)


def _suites(name: str, broken: Mapping[str, str]) -> list[Suite]:
    """The suite of that name, or for `all` those with a place in it, in order."""
    if name == ALL:
        found = [load_suite(known) for known in suite_files()]
        return sorted((suite for suite in found if suite.place_in_all), key=lambda suite: suite.place_in_all)
    try:
        _expect_known(name)
        return [load_suite(name)]
    except UserError as error:  # the suite may lie in a folder that did not import
        raise UserError("; ".join([str(error), *broken.values()])) from error


def _expect_known(name: str) -> None:
    """Raises UserError for a name that is neither a suite's nor `all`, with the nearest of these."""
    known = [*suite_files(), ALL]
    if not name.endswith(".toml") and name not in known:
        raise unknown("suite", name, known)


def _others_are_installed() -> bool:
    return any(importlib.metadata.entry_points(group=registry.package) for registry in EVERY.values())


def _preload(asked: Asked) -> Sequence[str]:
    """Modules that all processes of the call need, as far as known before loading plug-ins."""
    found: list[str] = []
    with contextlib.suppress(UserError):  # a suite of a plug-in, or one that is not there
        for suite in _suites(asked.suite, {}):
            found += preload_of(suite.protocol)
    with contextlib.suppress(UserError, OSError):
        if any("analyses" in file.read_text(errors="replace") for spec in asked.plugins for file in plugin_files(spec)):
            found.append("routebench.report")
    return found
