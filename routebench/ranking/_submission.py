"""A ranked method as a folder that others can verify: code, settings, trials, records, answers, provenance, licence."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from routebench import atomic
from routebench.analysis.contenders import contenders_of, images_of
from routebench.engine.isolation import Scratch, import_plugin, with_plugins
from routebench.engine.origin import files_behind
from routebench.engine.results import Record, Store, checksum, pack, unsealed
from routebench.engine.running import PlannedRun
from routebench.engine.suites import Cell, ChosenSettings
from routebench.engine.tuning import choose
from routebench.errors import UserError, printable, shown
from routebench.ranking._boards import ACCURACY, PACKED, PublishedBoard
from routebench.ranking._measuring import Wanted, best_of, label_of, part_of
from routebench.ranking._standing import Machines, Standing, standing_of
from routebench.received import from_json, permitted, read_plain
from routebench.registry import layout_of

FORMAT = 1
ABOUT, SETTINGS, PLUGIN = "submission.json", "settings.json", "plugin"
TOLD = ("who", "licence")
"""The facts that a submission must have, besides what is measured."""
LONGEST = {"who": 200, "licence": 200, "date": 40} | dict.fromkeys(
    ("board", "method", "label", "plugin", "code", "cite"), 2000
)
"""Characters that each text about a submission may have."""
OPTIONAL = ("date", "code", "cite")


@dataclass(frozen=True)
class ClaimedPlace:
    """The runs behind a place on a board, as they are planned now.

    Args:
        stages: the trials, and the runs of the method and of uniform routing.
        store: the folder of their results.
        label: the method's name in tables.
        settings: the settings that the trials choose.
    """

    stages: Sequence[PlannedRun]
    store: Store
    label: str
    settings: ChosenSettings

    @property
    def cells(self) -> list[Cell]:
        """All trials and runs."""
        return [cell for stage in self.stages for cell in stage.plan.cells]


def claim_of(wanted: Wanted) -> ClaimedPlace:
    """Plans the trials and runs of a method again, and chooses its settings from the trials again.

    Args:
        wanted: the method, its board, and the folder of its results.

    Raises:
        UserError: it cannot be planned, or trials have no result.
    """
    call = wanted.trials()
    label = label_of(call, wanted)
    trials = [*call][-1]
    if missing := call.store.missing([cell.key for cell in trials.plan.cells]):
        raise UserError(f"{label}: {len(missing)} of {len(trials.plan.cells)} trials have no result; `rank` makes them")
    settings = choose(trials.plan, call.store)
    with Scratch() as folder:
        file = Path(folder) / SETTINGS
        settings.write(file)
        (runs,) = wanted.runs(file, wanted.board.seeds)
    return ClaimedPlace((trials, runs), call.store, label, settings)


def inspected(claim: ClaimedPlace, known: PublishedBoard) -> tuple[Standing | None, list[str]]:
    """The board with the claim on it, and what a maintainer would refuse, a line each.

    Args:
        claim: the runs behind the place.
        known: the board.

    Returns:
        no board where runs are missing.
    """
    found = [(cell, claim.store.record(cell.key)) for cell in claim.cells]
    missing = [cell for cell, record in found if record is None]
    records = [record for _, record in found if record is not None]
    told = [f"{len(missing)} of {len(found)} planned runs have no record, such as {missing[0]}"] if missing else []
    told += faults_of_records(records, claim.store, known)
    if missing:
        return None, told
    standing = place_of(claim, known)
    if standing.machines is Machines.APART:
        told.append("uniform routing reaches another accuracy than in the published results, so that nothing is ranked")
    if not standing.seeds:
        told.append("no run of the method has a result")
    return standing, told


def faults_of_records(records: Sequence[Record], store: Store, known: PublishedBoard) -> Iterator[str]:
    """Tells what speaks against the records of a claim by themselves, a line each.

    Args:
        records: those of its trials and runs.
        store: the folder that they lie in.
        known: the board.
    """
    if other := [record.cell for record in records if record.identity.key != record.cell]:
        yield f"{len(other)} records say another run than that of their key, such as {other[0]}"
    if dirty := [record for record in records if record.provenance.get("dirty")]:
        yield f"{len(dirty)} runs were made while routebench's code had changes that are not committed"
    images = images_of(known.runs, contenders_of(known.runs))
    yield from filter(None, (_fault_of_answers(record, store, images) for record in records))


def _fault_of_answers(record: Record, store: Store, images: int | None) -> str:
    """The reason why a record's accuracy does not follow from its answers; empty if it does."""
    if record.status != "ok" or record.identity.is_trial:
        return ""
    correct = store.correct(record.cell)
    values = record.accuracies
    if len(values) != 1 or "correct" not in store.arrays(record.cell):
        return f"run {record.cell}: expected one test accuracy and the answers behind it"
    if correct is not None and images is not None and correct.size != images:
        return f"run {record.cell}: expected answers to {images:,} test images, got {correct.size:,}"
    agrees = correct is not None and abs(100 * float(correct.mean()) - values[0]) < 1e-6
    return "" if agrees else f"run {record.cell}: its answers give another accuracy than it says"


def place_of(claim: ClaimedPlace, known: PublishedBoard) -> Standing:
    """The board with the claim on it.

    Args:
        claim: the runs behind the place.
        known: the board.

    Raises:
        UserError: the runs cannot be compared with the published ones.
    """
    runs = part_of(claim.store, known.board)
    if runs is None:
        raise UserError(f"{claim.label}: expected runs of {known.board.title}, got none; `rank` makes them")
    return standing_of(
        known, runs, claim.store, claim.label, best_of(claim.settings, claim.label, known.board).iterations
    )


def submit(wanted: Wanted, known: PublishedBoard, folder: Path, told: Mapping[str, str]) -> ClaimedPlace:
    """Writes a submission, whole or not at all.

    Args:
        wanted: the method, its board, and the folder of its results.
        known: the board.
        folder: that of the submission; it must not exist yet.
        told: `who`, `licence`, and further facts, such as `cite` and `code`.

    Raises:
        UserError: a maintainer would refuse it; the message says why.
    """
    if lacking := [name for name in TOLD if not told.get(name)]:
        raise UserError(f"submission: expected --{lacking[0]}, got none")
    for name, value in told.items():
        if fault := _fault_of_text(name, value):
            raise UserError(f"submission: --{name}: {fault}")
    if (measure := wanted.board.measure) != ACCURACY:
        raise UserError(f"{wanted.board.title}: expected a board of accuracies, whose answers are kept, got {measure}")
    if len(wanted.asked.plugins) != 1:
        raise UserError(
            f"{wanted.method}: expected a method of one file or folder, got {len(wanted.asked.plugins)} plug-ins"
        )
    atomic.expect_place(folder, "the submission", folder=True)
    if folder.exists():
        raise UserError(f"{str(folder)!r} is there already; name another folder with -o")
    claim = claim_of(wanted)
    _, faults = inspected(claim, known)
    if faults:
        raise UserError(f"{claim.label}: {faults[0]}" + (f"; and {len(faults) - 1} more" if len(faults) > 1 else ""))
    (spec,) = wanted.asked.plugins
    files = _files_of(spec)
    with atomic.told_when_full(folder), atomic.filled(folder, ABOUT) as whole:
        _write_results(claim, whole)
        claim.settings.write(whole / SETTINGS)
        _copy(files, whole / PLUGIN)
        about = {
            "format": FORMAT, "board": wanted.board.name, "method": wanted.method, "label": claim.label,
            "plugin": _own_spec(spec), "date": f"{datetime.now(UTC):%Y-%m-%d}", **told,
            "files": {name: _sum(whole / name) for name in _names(whole)},
        }  # fmt: skip
        atomic.write_text(whole / ABOUT, checksum.sealed(about) + "\n")
    return claim


def _write_results(claim: ClaimedPlace, folder: Path) -> None:
    """Packs the plans, records and answers of a claim."""
    import torch

    with Scratch() as made:
        store = Store(Path(made))
        store.prepare()
        for stage in claim.stages:
            replace(stage, store=store).write_plan()
        for cell in claim.cells:
            record = claim.store.record(cell.key)
            if record is not None:
                files = {name: one for name, one in (record.files or {}).items() if not name.startswith("arrays/")}
                arrays = {name: torch.from_numpy(value) for name, value in claim.store.arrays(cell.key).items()}
                store.write_record(replace(record, files=files or None), arrays)
        pack(Path(made), folder)


def _copy(files: Mapping[str, Path], folder: Path) -> None:
    for name, file in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)


def _files_of(spec: str) -> dict[str, Path]:
    """The files that a plug-in needs, by their place in a submission.

    Raises:
        UserError: one lies where the plug-in's folder does not hold it.
    """
    root = _root_of(spec)
    folder = root if root.is_dir() else root.parent
    files = [Path(file) for file in with_plugins((spec,), _needed, spec, gives=list[str])]
    if outside := [file for file in files if not file.is_relative_to(folder)]:
        raise UserError(
            f"{root.name}: expected every file that it needs in {shown(folder)}, got {shown(outside[0])}, without "
            "which nobody can verify it; move it there, and rank again"
        )
    return {file.relative_to(folder).as_posix(): file for file in files}


def _needed(spec: str) -> list[str]:
    """The files by which a plug-in is found, and those that count as its code; imports it."""
    import_plugin(spec)
    files = layout_of(spec)
    return [*map(str, sorted({*files, *files_behind(file for file in files if file.suffix == ".py")}))]


def _root_of(spec: str) -> Path:
    """The file or folder that a plug-in's text names."""
    return Path(os.path.realpath(_file_of(spec)))


def _file_of(spec: str) -> str:
    """The file or folder that a plug-in's text names, as it names it."""
    return spec.partition(".py:")[0] + ".py" if ".py:" in spec else spec


def _own_spec(spec: str) -> str:
    """The plug-in as it lies in a submission."""
    root = _root_of(spec)
    name = spec.partition(".py:")[2]
    return PLUGIN if root.is_dir() else f"{PLUGIN}/{root.name}{f':{name}' if name else ''}"


def about_of(folder: Path) -> tuple[dict[str, Any], str]:
    """The facts that a submission says of itself, and its checksum.

    Args:
        folder: the submission.

    Raises:
        UserError: it is no submission, of another format, or its files are not those that it lists.
    """
    try:
        text = read_plain(permitted(permitted(folder) / ABOUT), named=True)[0]
        content = from_json(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"expected a submission, as `routebench submit` writes it, got {str(folder)!r}") from error
    if not isinstance(content, dict) or repr(content.get("format")) != repr(FORMAT):  # true and 1.0 are no format
        got = content.get("format") if isinstance(content, dict) else content
        raise UserError(f"{str(folder)!r}: expected a submission of format {FORMAT}, got {got!r:.40}")
    seal = str(content.get(checksum.KEY) or "")
    if not seal or not unsealed(text.strip(), content):
        raise UserError(f"{str(folder)!r}: {ABOUT} has changed since it was written")
    for name in LONGEST:
        if (name in content or name not in OPTIONAL) and (fault := _fault_of_text(name, content.get(name))):
            raise UserError(f"{str(folder)!r}: {ABOUT}: {name}: {fault}")
    suite, colon, _ = content["board"].rpartition(":")
    if colon and Path(os.path.realpath(suite)).is_relative_to(os.path.realpath(folder)):
        raise UserError(f"{str(folder)!r}: expected a board of others, got {content['board']!r}, a suite in itself")
    files = content.get("files")
    if not isinstance(files, dict) or not {*PACKED, SETTINGS} <= files.keys():
        raise UserError(f"{str(folder)!r}: expected a list of files with {', '.join(PACKED)} and {SETTINGS}")
    _expect_code(folder, content["plugin"], files)
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name or name != shown(name):
            raise UserError(f"{str(folder)!r}: {ABOUT} names a file {name!r:.80} outside the submission")
    if extra := sorted({*_names(folder)} - files.keys() - {ABOUT}):
        raise UserError(f"{str(folder)!r}: {extra[0]!r} is not among the files that it lists")
    for name, known in files.items():
        if _sum(folder / name) != known:
            raise UserError(f"{str(folder)!r}: {name} is missing, or has changed since it was submitted")
    return content, seal


def _expect_code(folder: Path, plugin: str, files: Iterable[str]) -> None:
    """Checks that a submission's code is among the files that it lists.

    Args:
        folder: the submission.
        plugin: what it names as its code.
        files: the names of its files.
    """
    code = PurePosixPath(_file_of(plugin))
    if code.parts[:1] != (PLUGIN,) or not any(PurePosixPath(name).is_relative_to(code) for name in files):
        told = f"expected the code in {PLUGIN}/ that it lists, got {plugin!r:.80}"
        raise UserError(f"{str(folder)!r}: {ABOUT}: plugin: {told}")


def _fault_of_text(name: str, value: object) -> str:
    """The reason why no page can show a text about a submission; empty where it can.

    Args:
        name: what it tells, such as `who`.
        value: the text, or whatever stands in its place.
    """
    most = LONGEST.get(name, max(LONGEST.values()))
    if not isinstance(value, str) or not (value.strip() or name in OPTIONAL):
        return f"expected a text, got {value!r:.40}"
    if len(value) > most:
        return f"expected at most {most:,} characters, got {len(value):,}"
    if value != (printable if name == "cite" else shown)(value):
        return f"expected one line without control characters, got {value!r:.80}"
    if name in TOLD and not any(map(str.isalnum, value)):
        return f"expected a name, got {value!r}"
    try:
        if name == "code":
            _ = urlsplit(value).port
        if name == "date" and value:
            date.fromisoformat(value)
    except ValueError as error:
        kind = "the address of code" if name == "code" else "a day, such as 2026-11-27"
        return f"expected {kind}, got {value!r:.80} ({error})"
    return ""


def _names(folder: Path) -> list[str]:
    return sorted(
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*")
        if (file.is_file() or file.is_symlink()) and (file.parent.name, file.suffix) != ("__pycache__", ".pyc")
    )


def _sum(file: Path) -> str:
    try:
        return hashlib.sha256(read_plain(permitted(file))[0]).hexdigest()
    except OSError:
        return ""
