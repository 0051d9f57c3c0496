"""One call of a suite: options, plan, status, execution."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from routebench.data_names import whole_name
from routebench.engine.origin import command_line, package_stamp
from routebench.engine.results import SCHEMA, TRIALS, Entry, PlannedCell, Store, digest, preset_in_words
from routebench.engine.running._choose import choose_config, slow_back_end
from routebench.engine.running._config import Listener, RunConfig
from routebench.engine.running._queue import Queue
from routebench.engine.running._run import run_cells
from routebench.engine.running._status import PlanStatus, status_of
from routebench.engine.running._until import extended
from routebench.engine.suites import METHOD, Asked, Cell, Choices, Plan, expect_once, make_plans, of_session
from routebench.engine.tuning import with_repeats
from routebench.errors import UserError
from routebench.notation import parse
from routebench.options import ALL, SuiteOptions, TuneOptions, options_of
from routebench.quantities import written
from routebench.registry import SHIPPED, models, plugins_of_environment, routing

MEASURING = 20.0
"""Seconds that a dry run may take to measure steps."""

OF_CALL = ("plan", "created", "command", "sequence", "cells")
"""What a plan says of the call that made it, and its runs, which its name stands for."""

LONGEST_DATA = 100
"""Characters of a data set's name in that of a plan's file."""


@dataclass(frozen=True)
class Counts:
    """Numbers of runs of one suite or several: planned, cached, executed now, without a result, left by the budget."""

    cells: int = 0
    cached: int = 0
    run: int = 0
    failed: int = 0
    left: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(one + two for one, two in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class PlannedRun:
    """One suite of a call, ready to be executed.

    Args:
        plan: its runs.
        status: their status in the results folder.
        config: settings of their execution.
        queue: the runs to execute, within the remaining budget.
        store: the results folder.
        asked: whether the user named methods, which replace the suite's.
        counted: runs of the plan that an earlier part of the call has counted.
    """

    plan: Plan
    status: PlanStatus
    config: RunConfig
    queue: Queue
    store: Store
    asked: bool = False
    counted: int = 0

    @property
    def suite(self) -> str:
        """The suite's name."""
        return self.plan.suite.name

    @property
    def preset(self) -> str:
        """The preset's name."""
        return self.plan.preset.name

    @property
    def title(self) -> str:
        """Suite, preset, data set and networks in one line."""
        preset = self.plan.preset
        return f"{self.suite}, {preset_in_words(preset.name)}, {preset.data}, {', '.join(preset.models)}"

    @property
    def named(self) -> list[Cell]:
        """Runs of the methods that a plug-in brought; where none did, of those that the user named."""
        methods = [cell for cell in self.plan.cells if cell.identity.role == METHOD]
        return [cell for cell in methods if not _ships(cell.identity.method)] or (methods if self.asked else [])

    @property
    def remarks(self) -> list[str]:
        """Lines on how many images are taken of the data, and on what is not used of it."""
        way = "" if self.preset.endswith(TRIALS) else "; --data take:NUMBER:NAME takes another number"
        return [*([f"takes {self.plan.taken}{way}"] if self.plan.taken else []), *filter(None, [self.plan.left_out])]

    def write_plan(self) -> str:
        """Puts the plan into the folder, before anything is executed.

        Returns:
            a sentence on results whose place it gives to others; empty if there are none.

        Raises:
            UserError: the folder cannot be written.
        """
        self.store.prepare()
        is_newer = write_plan(self.plan, self.store, yours=sorted({cell.label for cell in self.named}))
        return self.store.replaced() if is_newer else ""

    def run(self, listener: Listener) -> Counts:
        """Executes the runs of the queue. A run whose result is gone at the end counts as executed, and as failed."""
        records = run_cells(self.queue, self.store, self.config, listener)
        failed = {record.cell for record in records if record.status != "ok"}
        run, left = {record.cell for record in records}, {cell.key for cell in self.queue.left}
        cached = {cell.key for cell in self.status.cached}
        gone = {*self.store.missing((run | cached) - left)}  # such as what was damaged meanwhile
        known = max(0, len(cached - gone) - self.counted)
        return Counts(
            len(self.plan.cells) - self.counted, known, len(run | gone), len(failed | gone), len(self.queue.left)
        )


@dataclass(frozen=True)
class Call:
    """A planned call of a suite, or of all: iterate over it to execute its suites in turn.

    Args:
        options: the options as asked.
        store: the results folder.
        plans: plan of each suite, with its status and the settings of its execution.
        analyses: plug-ins that bring analyses.
        warnings: what the plans leave out, one line each.
    """

    options: SuiteOptions
    store: Store
    plans: list[tuple[Plan, PlanStatus, RunConfig]]
    analyses: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[PlannedRun]:
        """Yields the suites in turn; the budget starts here, for all together.

        With `--until`, a suite comes again with further seeds, once it has run with those of its preset; trials come
        again with repeats of the best, once all have run.
        """
        budget = self.options.budget
        ends = None if budget is None else time.monotonic() + budget
        for plan, status, config in self.plans:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            asked, queue = bool(self.options.methods), Queue(status.to_do, status.times, left)
            yield PlannedRun(plan, status, config, queue, self.store, asked)
            more = _further(plan, self.store, self.options)
            if len(more.cells) > len(plan.cells):
                then = replace(status_of(more, self.store), failed=[])  # they were tried a moment ago
                left = None if ends is None else max(0.0, ends - time.monotonic())
                queue = Queue(then.to_do, then.times, left)
                yield PlannedRun(more, then, config, queue, self.store, asked, counted=len(plan.cells))

    @property
    def slow_back_ends(self) -> list[str]:
        """The reasons why routing of a suite with runs to do falls back to plain torch, one line each."""
        told = (slow_back_end(config) for _, status, config in self.plans if status.to_do)
        return list(dict.fromkeys(filter(None, told)))


def prepare(options: SuiteOptions, *, dry_run: bool = False, baselines: tuple[str, ...] = ()) -> Call:
    """Plans every suite of a call and looks up its status. Executes and writes nothing.

    With `dry_run`, files of data sets need not be there, a step of what is to be trained is measured, and the call
    cannot be run. With `baselines`, these alone run beside the methods, in their plain form.

    Args:
        options: options of the call.
        dry_run: see above.
        baselines: see above; empty for those of the suite.

    Raises:
        UserError: an option is wrong, or impossible on this machine.
    """
    expect_once(options.changes, _written(options))
    trials = options.trials if isinstance(options, TuneOptions) else None
    choices = Choices(
        tuple(map(parse, options.methods)), data=options.data, seeds=options.seeds, backend=options.backend,
        models=options.models, baselines=baselines, loss=options.loss, settings=options.settings,
        tuning=options.tuning, trials=trials, until=options.until, changes=options.changes,
    )  # fmt: skip
    plugins = tuple(dict.fromkeys([*plugins_of_environment(), *options.plugins]))
    asked = Asked(options.suite, options.preset, choices, plugins, without_data=dry_run)
    package = package_stamp()
    planned = make_plans(asked, options.time_limit)
    store = Store(options.results)
    store.check_schema()
    store.expect_place()
    preload = tuple(dict.fromkeys(module for plan in planned.plans for module in plan.preload))
    plans, until = [], time.monotonic() + MEASURING
    for first in planned.plans:
        plan = _further(first, store, options)
        status = status_of(plan, store, only=options.cells)
        config = _config_of(options, plan, status)
        if dry_run and status.to_do:
            from routebench.engine.running._steps import foretell  # networks and training, for dry runs alone

            foretell(status.to_do, status.times, config, until=until)
        plans.append((plan, status, replace(config, plugins=planned.plugins, preload=preload, package=package)))
    return Call(options, store, plans, planned.analyses, [*planned.warnings, *_not_taken(options)])


def _not_taken(options: SuiteOptions) -> Iterator[str]:
    """Tells where trials take more images than the user's name of the data says."""
    data = options.data or ""
    if options.tuning and whole_name(data) != data:
        way = f"settings are chosen for {whole_name(data)}, by folds of its training images"
        yield f"--data {data}: {way}; the suite's [tuning] says how many of a fold are taken"


def _written(options: SuiteOptions) -> dict[str, Sequence[str]]:
    """The options that are given, as typed, each with the keys of the preset that it writes."""
    known = options_of(type(options)).items()
    found = {f"--{one.flag}": one.writes for name, one in known if getattr(options, name) != one.default}
    if options.data is not None and whole_name(options.data) != options.data:
        found[f"--data {options.data}"] = ["take"]
    if options.methods and all("iterations" in parse(method).params for method in options.methods):
        found["--method"] = ["iterations"]
    return found


def _further(plan: Plan, store: Store, options: SuiteOptions) -> Plan:
    """The plan with the seeds that `--until` needs, or with repeats of the best trials, as far as known."""
    if options.tuning:
        return with_repeats(plan, store)
    if options.until is None:
        return plan
    return extended(plan, store, options.until)


def _named(entry: Entry) -> dict[str, Any]:
    return dict(zip(("label", "model", "iterations"), entry, strict=True))


def _config_of(options: SuiteOptions, plan: Plan, status: PlanStatus) -> RunConfig:
    jobs = None if options.suite == ALL and plan.is_alone else options.jobs
    own = of_session(status.to_do)
    if own and options.isolate is False:
        jobs = jobs or 1
    config = choose_config(
        plan, len(status.to_do), executor=options.executor, address=options.address, gpus=options.gpus_per_run,
        device=options.device, backend=options.backend, jobs=jobs, threads=options.threads,
    )  # fmt: skip
    isolate = options.compile or is_isolated(options.isolate, plan, status)  # the compiler replaces functions of torch
    found = replace(
        config, isolate=isolate, time_limit=options.time_limit, memory_limit=options.memory_limit,
        compile=options.compile,
    )  # fmt: skip
    if own and (found.in_processes or found.executor != "local"):
        raise UserError(
            f"suite {plan.suite.name}: what this session registers itself is known to no other process; save it as a "
            "file that plugins=... names, or give isolate=False, one job and no limits"
        )
    return found


def _ships(method: str) -> bool:
    """Tells whether a routing method, or a network that is compared as one, is routebench's own."""
    return any(method in kind and kind.origin(method) == SHIPPED for kind in (routing, models))


def is_isolated(wanted: bool | None, plan: Plan, status: PlanStatus) -> bool:
    """Tells whether each run has its own process: by default if plug-ins take part.

    Runs that failed before always do: they may crash. But no other process knows what this session registers itself.
    """
    return bool(status.failed and not of_session(status.failed)) or (plan.is_foreign if wanted is None else wanted)


def write_plan(plan: Plan, store: Store, yours: Sequence[str] = ()) -> bool:
    """Puts the plan into the folder, before anything is executed; tells whether there are others beside it.

    Args:
        plan: plan of the suite.
        store: the results folder.
        yours: labels of the methods that the report is about.
    """
    primary = plan.suite.primary
    planned = (
        PlannedCell(cell=cell.key, label=cell.label, params=cell.settings, identity=cell.identity)
        for cell in plan.cells
    )
    cells = [cell.as_dict() for cell in planned]
    told = {"settings": Path(plan.preset.settings).name, "seeds": written(plan.preset.seeds)}
    now = datetime.now(UTC)
    data = re.sub(r"[^\w.+=-]", "-", plan.preset.data)[:LONGEST_DATA]  # as packs have names of files
    kind = f"{plan.suite.name}.{plan.preset.name}.{data}."
    name = f"{kind}{now:%Y%m%dT%H%M%S%fZ}.{digest({'cells': cells})[:8]}"
    content = {
        "schema": SCHEMA,
        "plan": name,
        "created": now.isoformat(),
        "suite": plan.suite.name,
        "suite_version": plan.suite.version,
        "protocol": plan.suite.protocol,
        "question": plan.suite.question,
        "caveat": plan.caveat,
        "preset": plan.preset.name,
        "taken": plan.taken,
        "networks": plan.networks,
        "settings": json.loads(json.dumps(asdict(plan.preset) | told)),
        "command": command_line(),
        "yours": list(yours),
        "cells": cells,
    }
    if plan.changes:
        content["changes"] = list(plan.changes)
    if plan.changes or plan.altered:
        content["altered"] = [_named(one) for one in sorted(plan.altered, key=repr)]
    if plan.told is not None:
        content["told"] = {"data": plan.preset.data, **plan.told}
    if plan.tuned is not None:
        content["tuned"] = plan.tuned.as_dict()
    if primary is not None and plan.primary_pairs:
        pairs = [{"ours": _named(ours.entry), "theirs": _named(theirs.entry)} for ours, theirs in plan.primary_pairs]
        stage = {"first": plan.preset.seeds.stop, "half_width": plan.half_width}
        content["primary"] = {"margin": primary.margin, **stage, "pairs": pairs}
    latest = [head for head in store.plan_heads() if head["plan"].startswith(kind)]
    if latest and latest[-1]["plan"].rpartition(".")[2] == name.rpartition(".")[2] and _says(latest[-1], content):
        return False  # the same plan again: an interrupted call goes on
    store.write_plan(name, content)
    return bool(latest)


def _says(head: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Tells whether a plan in a folder says the same as one that is made, whenever and by which command it was made."""
    one, other = ({key: value for key, value in told.items() if key not in OF_CALL} for told in (head, content))
    return digest(one) == digest(other)
