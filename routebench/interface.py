"""The Python interface: suites, reports, comparisons and checks as functions. `routebench` itself exports them.

Plug-ins run in processes of their own here, as they do from the command line.
"""

import contextlib
import html
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from routebench.catalogue import refuse_unknown
from routebench.engine.isolation import STEP_LIMIT, Ended, alone, import_plugin, step, with_plugins
from routebench.errors import UserError
from routebench.given import checked
from routebench.quantities import seconds, size
from routebench.quantities import seeds as seeds_of
from routebench.registry import plugins_of_environment

if TYPE_CHECKING:
    from pandas import DataFrame

    from routebench.analysis.folder import Folder
    from routebench.comparing import FolderComparison
    from routebench.conformance import Checkup
    from routebench.engine.merge import Merged
    from routebench.engine.running import Call, Counts, Listener, PlannedRun, Progress
    from routebench.ranking import Measured, Standing, Teller, Wanted
    from routebench.report import NetworkAnswer, Written
    from routebench.routing import RoutingMethod

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, repr=False)
class SuiteRun:
    """The result of `run_suite`. A notebook shows its tables, their answers, and a link to the report.

    Args:
        folder: the results folder.
        planned: the suites, with their runs.
        counts: numbers of runs: planned, known before, executed now, without a result, and left by the budget.
        report: the page; None where no report was asked for.
        warnings: what was left out or damaged, a line each.
    """

    folder: Path
    planned: "tuple[PlannedRun, ...]"
    counts: "Counts"
    report: Path | None
    warnings: tuple[str, ...] = ()
    _opened: "Folder | None" = field(default=None, compare=False)

    @property
    def results(self) -> "DataFrame":
        """Every value of these suites, as `load_results` has it; other runs of the folder are left out."""
        from routebench.engine.results import Store

        store = Store(self.folder)
        found = store.current_results()
        store.tell_gone()
        store.tell()
        return found[found["cell"].isin([cell.key for part in self.planned for cell in part.plan.cells])]

    @property
    def tables(self) -> "dict[str, DataFrame]":
        """The comparison table of each suite, as text."""
        from routebench.report import comparison_table

        return {suite: comparison_table(found) for suite, found in self._answers.items()}

    @property
    def headlines(self) -> dict[str, str]:
        """The answer of each suite in a few lines."""
        from routebench.report import headline

        return {suite: headline(found) for suite, found in self._answers.items()}

    @cached_property
    def _answers(self) -> "dict[str, list[NetworkAnswer]]":
        """The answers of each suite, of the folder as it was after the call."""
        from routebench.analysis import open_folder
        from routebench.report import answers

        if not self.planned:
            return {}
        opened = self._opened or open_folder(self.folder)
        return {part.suite: answers(opened, part.suite, part.preset) for part in self.planned}

    @property
    def failed(self) -> int:
        """The number of runs that were executed and have no result; the same call tries them again."""
        return self.counts.failed

    @property
    def left(self) -> int:
        """The number of runs that the budget did not allow; the same call goes on with them."""
        return self.counts.left

    def write_report(self, output: Path | str | None = None) -> Path:
        """Writes the page of the whole folder, and returns where it is. Analyses of plug-ins need `write_report`."""
        return write_report(self.folder, output).page

    def __repr__(self) -> str:
        answers = self.headlines
        shown = [f"{table.to_string(index=False)}\n\n{answers[suite]}" for suite, table in self.tables.items()]
        return "\n\n".join([*shown, *self._remarks()])

    def _repr_html_(self) -> str:
        shown, tables, answers = [], self.tables, self.headlines
        for part in self.planned:
            table, answer = tables[part.suite], html.escape(answers[part.suite]).replace("\n", "<br>")
            shown += [f"<h4>{html.escape(part.title)}</h4>", table.to_html(index=False, border=0), f"<p>{answer}</p>"]
        shown += [f"<p>{html.escape(remark)}</p>" for remark in self._remarks()]
        if self.report is not None:
            place = quote(os.fsencode(Path(os.path.relpath(self.report)).as_posix()))  # `javascript:` is no address
            shown.append(f'<p><a href="{place}">report</a></p>')
        return "\n".join(shown)

    def _remarks(self) -> list[str]:
        counts = self.counts
        failed = f"{counts.failed} of {counts.cells} runs have no result; the same call tries them again"
        left = f"the budget left {counts.left} of {counts.cells} runs; the same call goes on with them"
        return [*([failed] if counts.failed else []), *([left] if counts.left else []), *self.warnings]


@checked
def run_suite(
    suite: str | Path,
    *,
    preset: str = "quick",
    methods: str | Sequence[str] = (),
    data: str | None = None,
    models: str | Sequence[str] = (),
    seeds: int | str | range | None = None,
    jobs: int | None = None,
    device: str = "auto",
    backend: str = "auto",
    results: Path | str = "results",
    plugins: str | Path | Sequence[str | Path] = (),
    threads: int | None = None,
    compile: bool = False,  # noqa: A002  # as the option is called
    isolate: bool | None = None,
    time_limit: float | str | None = None,
    memory_limit: int | str | None = None,
    budget: float | str | None = None,
    executor: str = "local",
    address: str = "auto",
    gpus_per_run: float | None = None,
    cells: str | Sequence[str] = (),
    loss: str | None = None,
    settings: Path | str | None = None,
    until: float | None = None,
    progress: "Callable[[Progress], None]" = lambda _: None,
    report: bool = True,
) -> SuiteRun:
    """Runs a suite: trains what is not trained yet, measures what is missing, writes the report.

    The arguments are the options of `routebench suite`, by the same names. Interrupted, the same call goes on.

    Args:
        suite: its name, a TOML file of your own, or `all`.
        preset: size of the experiment: `smoke`, `quick` or `full`.
        methods: run these instead of the suite's, such as `["em", "dynamic[detach=true]"]`. Baselines run all the same.
        data: a data set instead of the preset's.
        models: networks instead of the preset's.
        seeds: the number of seeds, or which ones, as `range(10, 20)` or `"10..19"`; instead of the preset's.
        jobs: processes at a time; by default one per core, or per GPU.
        device: `auto`, `cpu`, `cuda` for all GPUs, or one, such as `cuda:1`.
        backend: the implementation of routing: `auto`, `reference`, `fused` or `triton`.
        results: folder that keeps results.
        plugins: files and folders with methods, models, data sets, protocols, analyses and suites of your own.
        threads: torch threads per run.
        compile: whether networks are trained as `torch.compile` makes them. Each is compared with the plain one first,
            and every run has a process of its own.
        isolate: whether every run has a process of its own; by default where a plug-in takes part.
        time_limit: the most that a run may take, in seconds or as `"30m"`; beyond it the run becomes a `timeout`.
        memory_limit: the most memory of a run, in bytes or as `"4GB"`; beyond it the run becomes an `oom`. By default
            all runs in processes of their own may take 90 % of the machine together.
        budget: seconds, or such as `"20m"`, after which no run is expected to end; others are left.
        executor: `local`, or `ray` for a running Ray cluster.
        address: address of the cluster's head.
        gpus_per_run: GPUs per run on a cluster, such as 0.25.
        cells: keys of the runs to execute; the plan's others are left out.
        loss: the loss to train every configuration with, whatever the suite says.
        settings: a file that `routebench tune` wrote, instead of the preset's.
        until: points of accuracy; adds seeds until the 95 % interval of every pre-specified comparison is at most this
            to either side.
        progress: is called with every finished run, and once a second between them.
        report: whether the report is written.

    Raises:
        UserError: an argument is wrong, cannot be had on this machine, or the folder cannot be written.
    """
    refuse_unknown(
        _several(plugins), suite=str(suite), preset=preset, methods=_several(methods), models=_several(models),
        data=data,
    )  # fmt: skip
    from routebench.engine.running import SuiteOptions, prepare

    call = prepare(
        SuiteOptions(
            suite=str(suite), preset=preset, methods=_several(methods), data=data, models=_several(models),
            seeds=None if seeds is None else seeds_of(seeds), jobs=jobs, device=device, backend=backend,
            results=Path(results), plugins=_several(plugins), threads=threads, compile=compile, isolate=isolate,
            time_limit=_number(seconds, time_limit), memory_limit=_number(size, memory_limit),
            budget=_number(seconds, budget), executor=executor, address=address, gpus_per_run=gpus_per_run,
            cells=_several(cells), loss=loss, settings=None if settings is None else Path(settings), until=until,
        )
    )  # fmt: skip
    return _run(call, progress, report)


def _run(call: "Call", progress: "Callable[[Progress], None]", report: bool) -> SuiteRun:
    """Runs the suites of a call in turn, and writes the report if it is wanted."""
    from routebench.analysis import open_folder
    from routebench.engine.running import Counts, Follower, follow, torch_as_before

    counts, planned, folder = Counts(), [], call.store.path
    with torch_as_before():
        for part in call:
            part.write_plan()
            counts += part.run(follow(Follower(part), progress))
            planned.append(part)
    opened = None if call.analyses or not report else open_folder(folder)  # plug-ins draw in a process of its own
    written = write_page(opened or folder, None, call.analyses) if report else None
    told = dict.fromkeys([*call.warnings, *call.store.warnings, *(written.warnings if written else ())])
    return SuiteRun(folder, tuple(planned), counts, written.page if written else None, tuple(told), opened)


@checked
def write_report(
    results: Path | str, output: Path | str | None = None, *, plugins: str | Path | Sequence[str | Path] = ()
) -> "Written":
    """Writes one HTML page from a results folder, which opens offline, and beside it every figure and table.

    Args:
        results: a results folder.
        output: the page; `report.html` in the results folder if None.
        plugins: plug-ins with analyses of your own; they draw in a process of its own, which they may end.

    Returns:
        its `page`, `warnings`, and whether an analysis is `broken`.

    Raises:
        UserError: the page cannot be written, or that process ended.
    """
    given = tuple(dict.fromkeys([*plugins_of_environment(), *_several(plugins)]))
    return write_page(Path(results), None if output is None else Path(output), given)


def write_page(results: "Path | Folder", output: Path | None, plugins: tuple[str, ...]) -> "Written":
    """Writes the page as `write_report` does, with these plug-ins alone, whose process opens the folder itself."""
    from routebench.report import Written

    if plugins and not isinstance(results, Path):
        results = results.path
    written: Written = with_plugins(plugins, _written, results, output, plugins, gives=Written)
    return written


def _written(results: "Path | Folder", output: Path | None, plugins: tuple[str, ...]) -> "Written":
    from routebench.report import write_report as write

    for plugin in plugins:
        import_plugin(plugin)
    return write(results, output)


@checked
def merge(results: "str | Path | Sequence[str | Path]", output: Path | str) -> "Merged":
    """Merges results folders and packs, made by several people or machines, into a new folder.

    Equal keys with equal numbers become one. Times, speeds and memory may differ, as the units of metrics tell them
    apart; so may provenance. A result counts before a failure. The order of the folders changes nothing.

    Args:
        results: two or more results folders or packs.
        output: the new folder, which must not hold anything yet. It appears when it is whole.

    Returns:
        the number of its `runs`, of those `shared` by several folders, and of `plans` and `fits`; which failures were
        `replaced` by results; and `warnings` of what was damaged and is left out.

    Raises:
        UserError: fewer than two folders are given, one is no results folder or is there twice, a run has different
            numbers in two of them, or `output` is taken, lies in one of them, or cannot be written.
    """
    from routebench.engine.merge import merge as merged
    from routebench.engine.merge import opened

    stores = opened([*map(Path, _several(results))])
    try:
        return merged(stores, Path(output))
    finally:
        for store in stores:
            store.tell()


@checked
def compare(
    base: Path | str,
    head: Path | str,
    *,
    metrics: str | Sequence[str] = (),
    methods: str | Sequence[str] = (),
    alpha: float = 0.05,
    tolerances: str | Sequence[str] = (),
    must_see: str | Sequence[str] = (),
) -> "FolderComparison":
    """Compares two results folders: what got worse, what got better, and which changes are too small to detect.

    Args:
        base, head: results folders.
        metrics, methods: only these; empty for all.
        alpha: family-wise significance level.
        tolerances: changes that are accepted, such as `["accuracy=0.5", "training_time=10%"]`.
        must_see: changes in the same form that the comparison has to detect; else it is undecided.

    Returns:
        the comparison; its `exit_code` is that of the gate, and `routebench.comparing.as_text` writes it as text.

    Raises:
        UserError: a folder is missing or empty, they have nothing in common, a metric or method is unknown, or an
            option has no legal value.
    """
    from routebench.comparing import Wishes, compare_folders, read_tolerances

    accepted, seen = read_tolerances(_several(tolerances)), read_tolerances(_several(must_see), "--must-see")
    return compare_folders(Path(base), Path(head), Wishes(_several(metrics), _several(methods), accepted, alpha, seen))


@checked
def check(
    method: "str | type[RoutingMethod]" = "",
    *,
    plugins: str | Path | Sequence[str | Path] = (),
    device: str = "auto",
    seed: int = 0,
    time_limit: float | str = 900.0,
) -> "Checkup":
    """Checks a routing method: what is required of every method, and what this one claims, on random inputs.

    Args:
        method: `NAME` or `NAME[key=value,...]`, checked in a process of its own; empty for that of the plug-ins. Or a
            class, which is checked in this one.
        plugins: files with routing methods of your own.
        device: `cuda` compares the processor with the GPU, too.
        seed: seed of the random inputs.
        time_limit: seconds, or such as `"15m"`.

    Raises:
        UserError: the seed is negative or too large, the method is unknown, it is not clear which one is meant, or a
            plug-in cannot be imported.
        Ended: the method ended or crashed its process, or ran past the limit.
    """
    if not 0 <= seed < 2**63:
        raise UserError(f"seed: expected an integer from 0 to 2**63 - 1, got {seed!r}")
    if not isinstance(method, str):
        from routebench import conformance
        from routebench.engine.running import choose_device

        return conformance.check(method, seed=seed, device=choose_device(device))
    refuse_unknown(_several(plugins), methods=_several(method) if method else ())
    from routebench.conformance import Checkup

    limit = seconds(time_limit) if isinstance(time_limit, str) else time_limit
    each = limit if limit < STEP_LIMIT else None
    try:
        checkup: Checkup = alone(_check, method, _several(plugins), device, seed, limit=limit, each=each, gives=Checkup)
    except Ended as end:
        if end.during is None or end.during[0] != "plug-in":
            raise
        raise UserError(f"{' '.join(end.during)}: expected it to be imported, but it {end}") from end
    return checkup


def _check(method: str, plugins: tuple[str, ...], device: str, seed: int) -> "Checkup":
    import torch

    from routebench import conformance
    from routebench.engine.running import choose_device

    torch.set_num_threads(1)  # inputs are small: more threads would wait for each other
    for plugin in plugins_of_environment():
        with contextlib.suppress(UserError):  # another method may be asked for
            import_plugin(plugin)
    added = [name for plugin in plugins for name in import_plugin(plugin)["methods"]]
    name = method or _only(added, plugins)
    with step("method", name, timed=False):
        return conformance.check(name, seed=seed, device=choose_device(device))


def _only(added: list[str], plugins: tuple[str, ...]) -> str:
    """The one method of the plug-ins."""
    if not plugins:
        raise UserError(
            "expected a METHOD or a --plugin FILE.py; `python -m routebench list methods` shows the methods"
        )
    if len(added) != 1:
        raise UserError(
            f"expected a METHOD, because the plug-in has {len(added)} of them: {', '.join(added) or 'none'}"
        )
    return added[0]


@dataclass(frozen=True, repr=False)
class Placement:
    """The result of `rank`. A notebook shows the board, its answer, and a link to the page.

    Args:
        standing: the board with the method on it; None while trials are left.
        told: what it says of the method, a sentence each.
        page: the page; None where nothing was measured yet.
        left: the number of runs that the budget left; the same call goes on with them.
    """

    standing: "Standing | None"
    told: tuple[str, ...]
    page: Path | None
    left: int = 0

    @property
    def table(self) -> "DataFrame":
        """The board, as text, one row per configuration; empty while trials are left."""
        from pandas import DataFrame

        from routebench.ranking import as_table

        return DataFrame() if self.standing is None else as_table(self.standing)

    def __repr__(self) -> str:
        table = "" if self.standing is None else f"{self.table.to_string(index=False)}\n\n"
        return f"{table}{chr(10).join(self.told)}"

    def _repr_html_(self) -> str:
        shown = [] if self.standing is None else [self.table.to_html(index=False, border=0)]
        shown += [f"<p>{html.escape(sentence)}</p>" for sentence in self.told]
        if self.page is not None:
            place = quote(os.fsencode(Path(os.path.relpath(self.page)).as_posix()))
            shown.append(f'<p><a href="{place}">board</a></p>')
        return "\n".join(shown)


@checked
def rank(
    method: "str | Path | type[RoutingMethod]",
    *,
    board: str = "quick",
    chosen: str | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    beside: Path | str | None = None,
    results: Path | str = "results",
    jobs: int | None = None,
    device: str = "auto",
    isolate: bool | None = None,
    time_limit: float | str | None = None,
    memory_limit: int | str | None = None,
    budget: float | str | None = None,
    until: float | None = None,
    output: Path | str | None = None,
    progress: "Callable[[Progress], None]" = lambda _: None,
) -> Placement:
    """Places a routing method among the published ones, fairly tuned, with an interval and a rank.

    The method is checked, tuned with the published number of trials, and trained with the published seeds, as uniform
    routing is on this machine. Interrupted, the same call goes on.

    Args:
        method: a file `FILE.py`, `FILE.py:Name`, the name of a method that is known, or a class of this session, whose
            runs then take place in this process, one at a time.
        board: the published comparison to join: `quick`, `full` or `mnist`; or that of a suite of your own,
            `FILE.toml:PRESET`, whose results `beside` names.
        chosen: the method of the file where it has several, also with hyperparameters: `NAME[key=value,...]`.
        plugins: further plug-ins.
        beside: a pack or results folder whose results stand in place of the published ones in the package.
        results: the folder of the method's results.
        jobs, device, isolate, time_limit, memory_limit: as for `run_suite`.
        budget: seconds, or such as `"20m"`, after which no run is expected to end; others are left.
        until: points of accuracy; adds seeds until the interval over uniform routing is at most this to either side.
        output: the page; `rank.SUITE.PRESET.html` in the results folder if None.
        progress: is called with every finished run, and once a second between them.

    Raises:
        UserError: the method keeps not to its contract, cannot be planned, or nothing published can be read.
        Ended: its check ended or crashed its process.
    """
    from routebench.engine.running import torch_as_before

    with torch_as_before():
        return ranked(
            method, _Silent(progress), board=board, chosen=chosen, plugins=_several(plugins), beside=beside,
            results=Path(results), jobs=jobs, device=device, isolate=isolate, output=output, until=until,
            time_limit=_number(seconds, time_limit), memory_limit=_number(size, memory_limit),
            budget=_number(seconds, budget),
        )  # fmt: skip


class _Silent:
    """Tells a program's own function how far a ranking is."""

    def __init__(self, progress: "Callable[[Progress], None]"):
        self.progress = progress

    def say(self, text: str) -> None:
        """Tells nothing: the result holds what has to be known."""

    @contextlib.contextmanager
    def follow(self, planned: "PlannedRun") -> Iterator["Listener"]:
        """Follows the runs of one stage."""
        from routebench.engine.running import Follower, follow

        yield follow(Follower(planned), self.progress)


def ranked(
    method: "str | Path | type[RoutingMethod]",
    tell: "Teller",
    *,
    output: Path | str | None = None,
    beside: Path | str | None = None,
    **asked: Any,
) -> Placement:
    """Ranks a method as `rank` does.

    Args:
        method, output, beside: as for `rank`.
        tell: tells how far it is.
        asked: the other arguments of `rank`.
    """
    from routebench import atomic, ranking

    wanted = _wanted(method, **asked)
    ranking.expect_primary(wanted.board, asked["until"])
    known = ranking.published(wanted.board, None if beside is None else Path(beside))
    page = Path(output) if output is not None else wanted.results / f"rank.{'.'.join(wanted.board.part)}.html"
    atomic.expect_place(page, "the board", named=output is not None)
    _expect_conforming(method, wanted)
    measured = ranking.measure(wanted, tell)
    runs = ranking.part_of(measured.store, wanted.board) if measured.settings else None
    if runs is None:
        return Placement(None, (), None, measured.counts.left)
    standing = ranking.standing_of(known, runs, measured.store, measured.label, measured.iterations)
    facts = _facts(measured, wanted)
    ranking.write_page(standing, page, facts, [*ranking.settings_of(measured)])
    measured.store.tell_gone()
    told = (*ranking.told(standing), *measured.store.warnings)
    return Placement(standing, told, page, measured.counts.left)


def submit(method: str | Path, folder: Path, *, beside: Path | None = None, **asked: Any) -> str:
    """Writes a submission of a method that was ranked; returns its place, in words.

    Args:
        method, beside: as for `rank`.
        folder: that of the submission.
        asked: `board`, `chosen` and `results` as for `rank`, and what is told: `who`, `licence`, `code`, `cite`.

    Raises:
        UserError: a maintainer would refuse it.
    """
    from routebench import ranking

    facts = {name: asked.pop(name) for name in ("who", "licence", "code", "cite")}
    wanted = _wanted(method, **asked)
    known = ranking.published(wanted.board, beside)
    ranking.submit(wanted, known, folder, {name: value for name, value in facts.items() if value})
    return f"{wanted.method} on {known.board.title}"


def listed_ranking(method: str | Path, *, beside: Path | None = None, **asked: Any) -> list[str]:
    """Lists what `ranked` would run, a line each; runs nothing.

    Args:
        method, beside: as for `rank`.
        asked: the other arguments of `rank`.
    """
    from routebench import ranking

    wanted = _wanted(method, **asked)
    return ranking.listed(wanted, ranking.published(wanted.board, beside))


def _wanted(
    method: "str | Path | type[RoutingMethod]", *, board: str, chosen: str | None = None, **execution: Any
) -> "Wanted":
    """The method by the name that suites know it by, with the plug-ins that bring it."""
    from routebench import ranking

    plugins = tuple(map(str, execution.pop("plugins", ())))
    own = ranking.board_of(board)
    if isinstance(method, type):
        name = _of_session(method)
        return ranking.Wanted(own, name, plugins, **{**execution, "isolate": False})
    text = str(method)
    if not (text.partition(".py:")[0].endswith(".py") or ".py:" in text or os.path.isdir(text)):  # noqa: PTH112  # of names that no file can have, too
        refuse_unknown(plugins, methods=(chosen or text,))
        return ranking.Wanted(own, chosen or text, plugins, **execution)
    together = tuple(dict.fromkeys([*plugins, text]))
    if chosen is None:
        chosen = _only(with_plugins((text,), _added, text, gives=list[str]), (text,))
    return ranking.Wanted(own, chosen, together, **execution)


def _added(plugin: str) -> list[str]:
    """The methods that a plug-in registers."""
    return [*import_plugin(plugin)["methods"]]


def _of_session(method: "type[RoutingMethod]") -> str:
    """The name of a class of this session, which is registered where it is not."""
    from routebench.registry import kebab, routing

    known = next((name for name in routing if routing[name] is method), "")
    if not known:
        known = kebab(method.__name__)
        routing.register(known)(method)
    return known


def _expect_conforming(method: "str | Path | type[RoutingMethod]", wanted: "Wanted") -> None:
    """Checks a method before hours are spent on it.

    Raises:
        UserError: it does what no method may, or not what it claims.
    """
    found = check(method) if isinstance(method, type) else check(wanted.method, plugins=wanted.plugins)
    if not found.conforms:
        first = found.faults[0]
        raise UserError(f"{found}; {first.name}: {first.seen} ({first.advice}); `routebench check` shows all")


def _facts(measured: "Measured", wanted: "Wanted") -> dict[str, str]:
    """Facts on how the method was measured, for the page."""
    from routebench.engine.origin import command_line, processor, versions

    found = {
        "method": measured.label,
        "processor here": processor(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "command": command_line(),
    }
    if measured.settings is not None:
        found["settings"] = measured.settings.name
    if wanted.plugins:
        found["plug-ins"] = ", ".join(wanted.plugins)
    return found


def _several(given: "str | Path | Sequence[str | Path]") -> tuple[str, ...]:
    """One or several, as a tuple of texts."""
    return (str(given),) if isinstance(given, str | os.PathLike) else tuple(map(str, given))


def _number(read: Callable[[str], Number], given: Number | str | None) -> Number | None:
    """A number that may be given as text with a unit."""
    return read(given) if isinstance(given, str) else given
