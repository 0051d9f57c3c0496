"""The Python interface: suites, reports, comparisons and checks as functions. `routebench` itself exports them.

Plug-ins run in processes of their own here, as they do from the command line.
"""

import contextlib
import html
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from routebench.catalogue import refuse_unknown
from routebench.engine.isolation import STEP_LIMIT, Ended, alone, import_plugin, step, with_plugins
from routebench.errors import UserError, shown
from routebench.given import checked, several
from routebench.options import (
    CheckOptions,
    CompareOptions,
    FeaturesOptions,
    Flag,
    MergeOptions,
    ReportOptions,
    SuiteOptions,
    described,
    takes,
)
from routebench.quantities import plural
from routebench.registry import load_plugin, plugins_of_environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from routebench.analysis.folder import Folder
    from routebench.comparing import FolderComparison
    from routebench.conformance import Checkup
    from routebench.engine.merge import Merged
    from routebench.engine.running import Call, Counts, PlannedRun, Progress
    from routebench.report import NetworkAnswer, Written
    from routebench.routing import RoutingMethod


@dataclass(frozen=True, repr=False)
class SuiteRun:
    """The result of `run_suite`. A notebook shows its tables, their answers, and a link to the report.

    Args:
        folder: the results folder.
        planned: the suites, with their runs.
        counts: numbers of runs: planned, known before, executed now, without a result, and left by the budget.
        report: the page; None where no report was asked for.
        warnings: what was left out or damaged, a line each.
        beside: the folder whose results are shown beside these; None for none.
    """

    folder: Path
    planned: "tuple[PlannedRun, ...]"
    counts: "Counts"
    report: Path | None
    warnings: tuple[str, ...] = ()
    beside: Path | None = None
    _opened: "Folder | None" = field(default=None, compare=False)

    @property
    def results(self) -> "DataFrame":
        """Every value of these suites, as `load_results` has it; other runs of the folder are left out."""
        from routebench.engine.results import Store

        store = Store(self.folder)
        found = store.current_results()
        store.tell_lost()
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
        """The answers of each suite, from the folder as the call left it."""
        from routebench.analysis import open_folder
        from routebench.report import answers

        if not self.planned:
            return {}
        opened = self._opened or open_folder(self.folder, self.beside)
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
        return write_report(self.folder, output, beside=self.beside).page

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
        failed = f"no result of {counts.failed} of {plural(counts.cells, 'run')}; the same call tries again"
        left = f"the budget left {counts.left} of {plural(counts.cells, 'run')}; the same call goes on"
        return [*([failed] if counts.failed else []), *([left] if counts.left else []), *self.warnings]


@described
@dataclass
class SuiteCall(SuiteOptions):
    """The arguments of `run_suite`."""

    _: KW_ONLY
    report: Flag = Flag(True, "the report is written")  # noqa: RUF009  # it is the field itself, not its default
    progress: Annotated[
        "Callable[[Progress], None]", "is called with every finished run, and once a second between them"
    ] = lambda _: None


@takes(SuiteCall)
def run_suite(asked: SuiteCall) -> SuiteRun:
    """Runs a suite: trains what is not trained yet, measures what is missing, writes the report.

    The arguments are the options of `routebench suite`, by the same names. Interrupted, the same call goes on.

    Args:
        asked: those arguments.

    Raises:
        UserError: an argument is wrong, cannot be had on this machine, or the folder cannot be written.
    """
    refuse_unknown(
        asked.plugins, suite=asked.suite, preset=asked.preset, methods=asked.methods, models=asked.models,
        data=asked.data, loss=asked.loss,
    )  # fmt: skip
    from routebench.engine.merge import readable
    from routebench.engine.running import prepare

    if asked.beside is not None:
        readable(asked.beside)  # before hours of training
    return _run(prepare(asked), asked)


def _run(call: "Call", asked: SuiteCall) -> SuiteRun:
    """Runs the suites of a call in turn, and writes the report if it is wanted."""
    from routebench.analysis import open_folder
    from routebench.engine.running import Counts, Follower, follow, torch_as_before

    counts, planned, folder = Counts(), [], call.store.path
    with torch_as_before():
        for part in call:
            part.write_plan()
            counts += part.run(follow(Follower(part), asked.progress))
            planned.append(part)
    beside = asked.beside
    drawn_here = asked.report and not call.analyses  # those of plug-ins draw in a process of its own
    opened = open_folder(folder, beside) if drawn_here else None
    written = write_page(opened or folder, None, call.analyses, beside) if asked.report else None
    told = dict.fromkeys([*call.warnings, *call.store.warnings, *(written.warnings if written else ())])
    return SuiteRun(folder, tuple(planned), counts, written.page if written else None, tuple(told), beside, opened)


@takes(ReportOptions)
def write_report(asked: ReportOptions) -> "Written":
    """Writes one HTML page from a results folder, which opens offline, and beside it every figure and table.

    Args:
        asked: those arguments.

    Returns:
        its `page`, `warnings`, and whether an analysis is `broken`.

    Raises:
        UserError: the page cannot be written, or that process ended.
    """
    given = tuple(dict.fromkeys([*plugins_of_environment(), *asked.plugins]))
    return write_page(asked.results, asked.output, given, asked.beside)


def write_page(
    results: "Path | Folder", output: Path | None, plugins: tuple[str, ...], beside: Path | None = None
) -> "Written":
    """Writes the page as `write_report` does, with these plug-ins alone, whose process opens the folder itself.

    Args:
        results: path of the results folder, or the open folder.
        output: the page; None for `report.html` in the folder.
        plugins: files or modules.
        beside: another results folder, shown and tested beside these; None for none.
    """
    from routebench.report import Written

    if plugins and not isinstance(results, Path):
        results = results.path
    written: Written = with_plugins(plugins, _written, results, output, plugins, beside, gives=Written)
    return written


def _written(results: "Path | Folder", output: Path | None, plugins: tuple[str, ...], beside: Path | None) -> "Written":
    from routebench.analysis import open_folder
    from routebench.report import write_report as write

    for plugin in plugins:
        import_plugin(plugin)
    return write(open_folder(results, beside) if isinstance(results, Path) else results, output)


@takes(MergeOptions)
def merge(asked: MergeOptions) -> "Merged":
    """Merges results folders and packs, made by several people or machines, into a new folder.

    Equal keys with equal numbers become one. Times, speeds and memory may differ, as the units of metrics tell them
    apart; so may provenance. A result counts before a failure. The order of the folders changes nothing.

    Args:
        asked: those arguments.

    Returns:
        the number of its `runs`, of those `shared` by several folders, and of `plans` and `fits`; which failures were
        `replaced` by results; and `warnings` of what was damaged and is left out.

    Raises:
        UserError: fewer than two folders are given, one is no results folder or is there twice, a run has different
            numbers in two of them, or `output` is taken, lies in one of them, or cannot be written.
    """
    from routebench.engine.merge import merge as merged
    from routebench.engine.merge import opened

    stores = opened([*map(Path, asked.results)])
    try:
        return merged(stores, asked.output)
    finally:
        for store in stores:
            store.tell()


@takes(CompareOptions)
def compare(asked: CompareOptions) -> "FolderComparison":
    """Compares two results folders: what got worse, what got better, and which changes are too small to detect.

    Args:
        asked: those arguments.

    Returns:
        the comparison; its `exit_code` is that of the gate, and `routebench.comparing.as_text` writes it as text.

    Raises:
        UserError: a folder is missing or empty, they have nothing in common, a metric or method is unknown, or an
            option has no legal value.
    """
    from routebench.comparing import Wishes, compare_folders, read_tolerances

    accepted, seen = read_tolerances(asked.tolerances), read_tolerances(asked.must_see, "--must-see")
    alpha: Any = asked.alpha
    return compare_folders(asked.base, asked.head, Wishes(asked.metrics, asked.methods, accepted, alpha, seen))


@takes(FeaturesOptions)
def extract_features(asked: FeaturesOptions) -> Path:
    """Writes the features that a frozen network gives of a data set, which `features:FILE` then names.

    Interrupted, the same call goes on where it was, and writes the same bytes. Standard error tells how far it is.

    Args:
        asked: those arguments.

    Returns:
        the file.

    Raises:
        UserError: the file is there already, has another ending or cannot be written, there is no such network, layer,
            weights or data set, a plug-in cannot be imported, the network does not take this size, or the disk has no
            room.
    """
    import torch

    from routebench.atomic import expect_place
    from routebench.data import extract, load, pretrained
    from routebench.engine.running import choose_device

    file = asked.output
    if file.suffix != ".safetensors":
        raise UserError(f"expected an output that ends in .safetensors, got {shown(file)}")
    if file.exists():
        raise UserError(f"expected an output that is not there yet, got {shown(file)}; remove it, or name another")
    expect_place(file, "the file of features")
    for plugin in asked.plugins:
        load_plugin(plugin)
    where = torch.device(choose_device(asked.device))
    size: Any = asked.size
    batch: Any = asked.batch
    network = pretrained(asked.backbone, layer=asked.layer, size=size, weights=asked.weights, device=where)
    target = Path(os.path.realpath(file))  # a link stays
    extract(network, load(asked.data), target, kind="float32" if asked.float32 else "float16", batch=batch)
    return file


@described
@dataclass
class CheckCall(CheckOptions):
    """The arguments of `check`."""

    method: Annotated[
        "str | type[RoutingMethod]",
        "`NAME` or `NAME[key=value,...]`, checked in a process of its own; empty for that of the plug-ins; or a class, "
        "which is checked in this one",
    ] = ""


@takes(CheckCall)
def check(asked: CheckCall) -> "Checkup":
    """Checks a routing method: what is required of every method, and what this one claims, on random inputs.

    Args:
        asked: those arguments.

    Raises:
        UserError: an argument is wrong, the method is unknown, it is not clear which one is meant, or a plug-in cannot
            be imported.
        Ended: the method ended or crashed its process, or ran past the limit.
    """
    method, plugins, device = asked.method, asked.plugins, asked.device
    seed: Any = asked.seed
    limit: Any = asked.time_limit
    if not isinstance(method, str):
        from routebench import conformance
        from routebench.engine.running import choose_device

        return conformance.check(method, seed=seed, device=choose_device(device))
    refuse_unknown(plugins, methods=several(method) if method else ())
    from routebench.conformance import Checkup

    each = limit if limit < STEP_LIMIT else None
    try:
        checkup: Checkup = alone(_check, method, plugins, device, seed, limit=limit, each=each, gives=Checkup)
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
    name = method or only(added, plugins)
    with step("method", name, timed=False):
        return conformance.check(name, seed=seed, device=choose_device(device))


def only(added: list[str], plugins: tuple[str, ...]) -> str:
    """The one method of the plug-ins.

    Args:
        added: names of the methods that they bring.
        plugins: the plug-ins that were named.

    Raises:
        UserError: there is none, or several.
    """
    if not plugins:
        raise UserError(
            "expected a METHOD or a --plugin FILE.py; `python -m routebench list methods` shows the methods"
        )
    if len(added) != 1:
        raise UserError(
            f"expected a METHOD, because the plug-in has {len(added)} of them: {', '.join(added) or 'none'}"
        )
    return added[0]


@checked
def draw_coupling(
    results: Path | str,
    cell: str,
    images: int | Sequence[int],
    *,
    device: str = "cpu",
    plugins: str | Path | Sequence[str | Path] = (),
) -> "Figure":
    """Draws where the coupling of chosen images goes: the images, and maps for the right class and the strongest other.

    Args:
        results: a results folder, with its trained networks.
        cell: a value of the column `cell` of `load_results`.
        images: the number of a test image, from 0, or several.
        device: the device for the network.
        plugins: files with models and methods of your own that the run was trained with; they are imported here.

    Returns:
        a figure of matplotlib, which shows itself in a notebook.

    Raises:
        UserError: the network is not there, an image is not, or its class capsules have no coupling.
    """
    import torch

    from routebench.analysis.coupling import figure_of_coupling
    from routebench.data import Images, load
    from routebench.engine.results import existing
    from routebench.engine.running import load_fit
    from routebench.engine.suites import cell_of
    from routebench.protocols.coupling_maps import mapped_examples

    network = load_fit(results, cell, device=device, plugins=plugins)
    record = existing(results).record(cell)
    assert record is not None  # its network was read
    test = load(record.identity.data).test
    numbers = [*images] if isinstance(images, Collection) else [images]
    if not numbers or not all(0 <= one < len(test) for one in numbers):
        raise UserError(f"images: expected numbers of test images, 0 to {len(test) - 1}, got {numbers}")
    if not isinstance(test, Images) or test.multi_label:
        raise UserError(f"images: expected pictures of one class each, and {record.identity.data} has others")
    arrays = mapped_examples(network, test.at(torch.tensor(numbers)), record.identity.iterations, torch.device(device))
    if not arrays:
        raise UserError(f"the class capsules of run {cell} have no coupling to draw; choose a run with routing")
    drawn = figure_of_coupling({str(cell_of(record.identity)): {name: value.numpy() for name, value in arrays.items()}})
    assert drawn is not None  # there is one sheet
    return drawn
