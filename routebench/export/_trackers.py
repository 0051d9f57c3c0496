"""Writes runs for experiment trackers, on this machine: nothing is sent, and no account is needed."""

import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from routebench import atomic
from routebench.analysis.folder import Folder
from routebench.engine.results import Record, ended
from routebench.errors import UserError, printable, shown, unknown
from routebench.export._choice import Choice

if TYPE_CHECKING:
    from routebench.engine.running import Progress  # which imports torch


class Tracker:
    """Writes finished runs into a folder of a tracker; as `progress` of `run_suite`, each run when it finishes.

    Args:
        name: `tensorboard`, `mlflow`, `wandb` or `trackio`, whose package must be installed.
        folder: where its files lie; made if it is missing, added to otherwise.
        metric: numbers of this metric alone; None for all.

    Raises:
        UserError: the tracker is unknown, its package is not installed, or it cannot write the folder.
    """

    def __init__(self, name: str, folder: str | Path, metric: str | None = None):
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if find_spec(name) is None:
            told = f"pip install 'routebench[{name}]'"
            raise UserError(f"{name}: expected the package {name}, got none; {told}")
        self.name, self.folder, self.metric = name, Path(folder).absolute(), metric
        if name == "mlflow" and {*"%?"} & {*str(self.folder)}:
            told = f"expected a path without % and ?, which MLflow takes for something else, got {shown(self.folder)}"
            raise UserError(f"mlflow: {told}; name another")
        atomic.expect_place(self.folder, "the export", folder=True)

    def __call__(self, progress: "Progress") -> None:
        """Writes the run that has just finished, if one has."""
        if progress.record is not None:
            self.write(progress.record, progress.preset)

    def write(self, record: Record, preset: str = "") -> None:
        """Writes a run: its numbers, by epoch where they have one, its settings and its status.

        Args:
            record: its record.
            preset: the preset that planned it; empty where nobody knows.
        """
        with atomic.made_folder(self.folder):
            TRACKERS[self.name](_Run(record, self.metric, preset), self.folder)


class _Run:
    """A run as trackers take it.

    Args:
        record: its record.
        metric: numbers of this metric alone; None for all.
        preset: the preset that planned it; empty where nobody knows.
    """

    def __init__(self, record: Record, metric: str | None, preset: str = ""):
        known = record.identity
        steps = "" if known.iterations is None else f"-T={known.iterations}"
        self.suite = known.suite
        self.name = f"{record.label}{steps}-{known.model}-seed-{known.seed}-{record.cell[:8]}"
        self.settings = {**({"preset": preset} if preset else {}), **dict(_settings(record))}
        self.is_ok = record.status == "ok"
        self.status = printable(record.status if self.is_ok else f"{record.status}: {record.reason}")
        known_end = ended(record.provenance)
        self.finished = known_end.timestamp() if known_end else 0.0
        self.began = self.finished - float(record.provenance.get("seconds") or 0.0)
        self.numbers = [
            (_tag(one), float(one["value"]), int(one.get("epoch") or 0))
            for one in record.metrics
            if metric in (None, one["metric"]) and one["value"] is not None  # which trackers have no word for
        ]

    @property
    def file_name(self) -> str:
        """Its name without what file systems refuse; one that is too long for them keeps its beginning and its end."""
        plain = re.sub(r"[^\w.=+-]+", "-", self.name)
        whole = plain.encode()
        return plain if len(whole) <= LONGEST else f"{whole[: LONGEST - 9].decode(errors='ignore')}-{plain[-8:]}"

    @property
    def by_epoch(self) -> Iterator[tuple[int, dict[str, float]]]:
        """The numbers of each epoch, the first epoch first."""
        for epoch in sorted({epoch for _, _, epoch in self.numbers}):
            yield epoch, {tag: value for tag, value, own in self.numbers if own == epoch}


@contextlib.contextmanager
def _unheard_threads() -> Iterator[None]:
    """Lets no thread of TensorBoard print the error that ends it: the package raises it once more, for the caller."""
    before = threading.excepthook
    threading.excepthook = lambda told: None if "tensorboard" in type(told.thread).__module__ else before(told)
    try:
        yield
    finally:
        threading.excepthook = before


def _tensorboard(run: _Run, folder: Path) -> None:
    """Writes an event file into a folder of its own."""
    from torch.utils.tensorboard import SummaryWriter

    last = {tag: value for tag, value, _ in run.numbers}
    with _unheard_threads(), SummaryWriter(str(folder / run.suite / run.file_name)) as writer:
        for tag, value, epoch in run.numbers:
            writer.add_scalar(tag, value, epoch, walltime=run.finished)
        writer.add_text("status", run.status, walltime=run.finished)
        writer.add_hparams(run.settings, last, run_name=".", global_step=0)


def _mlflow(run: _Run, folder: Path) -> None:
    """Adds a run to the data base `mlflow.db`; the suite is the experiment."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # it tells of every table that it makes
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    known = client.get_experiment_by_name(run.suite)
    experiment = known.experiment_id if known else client.create_experiment(run.suite, artifact_location="artifacts")
    made = client.create_run(experiment, start_time=int(1000 * run.began), run_name=run.name).info.run_id
    when = int(1000 * run.finished)
    numbers = [Metric(_mlflow_name(tag), value, when, epoch) for tag, value, epoch in run.numbers]
    settings = [Param(_mlflow_name(key), str(value)) for key, value in run.settings.items()]
    for some in range(0, len(numbers), MLFLOW_BATCH):
        client.log_batch(made, metrics=numbers[some : some + MLFLOW_BATCH])
    client.log_batch(made, params=settings, tags=[RunTag("status", run.status)])
    client.set_terminated(made, "FINISHED" if run.is_ok else "FAILED", end_time=when)


TOLD = ("protocol", "suite_version", "role", "variant", "data_fingerprint", "source")
"""Facts of an identity that trackers take beside its settings."""
LONGEST = 200
"""Bytes of the name of a file; file systems take 255."""
MLFLOW_BATCH = 500
"""Numbers in a call; MLflow refuses more than 1,000."""


def _mlflow_name(tag: str) -> str:
    """A name without what MLflow refuses, such as the sign in `T=2`."""
    return re.sub(r"[^\w./ :-]", " ", tag)


def _wandb(run: _Run, folder: Path) -> None:
    """Writes an offline run, which `wandb sync` sends; the suite is the project."""
    import wandb

    quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True, save_code=False)
    made = wandb.init(
        project=run.suite, name=run.name, config=run.settings, dir=folder, mode="offline", settings=quiet,
        reinit="create_new",
    )  # fmt: skip
    for epoch, numbers in run.by_epoch:
        made.log({**numbers, "epoch": epoch}, step=epoch)
    made.summary["status"] = run.status
    made.finish(exit_code=0 if run.is_ok else 1)


def _trackio(run: _Run, folder: Path) -> None:
    """Adds a run to the data base of the suite, which is the project."""
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio
    from trackio.utils import TRACKIO_DIR  # of when it was imported

    if Path(TRACKIO_DIR) != folder:
        raise UserError(
            f"trackio: expected a process in which it has not written elsewhere, and it has into {shown(TRACKIO_DIR)}; "
            "start Python again, or use `routebench export`"
        )
    with contextlib.redirect_stdout(None):  # it tells where its dashboard is
        trackio.init(
            project=run.suite, name=run.name, config={**run.settings, "status": run.status}, embed=False,
            auto_log_cpu=False, auto_log_gpu=False,
        )  # fmt: skip
        trackio.log({"ok": float(run.is_ok)}, step=0)  # a run without numbers would not be written
        for epoch, numbers in run.by_epoch:
            trackio.log(numbers, step=epoch)
        trackio.finish()


TRACKERS: dict[str, Callable[[_Run, Path], None]] = {
    "tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb, "trackio": _trackio,
}  # fmt: skip
"""The function that writes a run, by the name of the tracker, which is also its package."""

SHOWN_BY = {
    "tensorboard": "tensorboard --logdir {0}",
    "mlflow": "mlflow ui --backend-store-uri sqlite:///{0}/mlflow.db",
    "wandb": "wandb sync {0}/wandb/offline-run-*",
    "trackio": "TRACKIO_DIR={0} trackio show",
}
"""The command that shows, or sends, what was written into a folder."""


def write_runs(folder: Folder, choice: Choice, name: str, output: Path) -> int:
    """Writes stored runs for a tracker, all or none, and returns their number; 0 where nothing was measured.

    Args:
        folder: opened; its warnings say afterwards what was found damaged.
        choice: which part of it.
        name: the name of the tracker.
        output: the folder to write, which must not be there yet.

    Raises:
        UserError: the package is not installed, the folder is there or cannot be written, or nothing fits the choice.
    """
    Tracker(name, output)
    if os.path.lexists(output):
        raise UserError(f"expected an output that is not there yet, got {str(output)!r}; name another with -o")
    parts = choice.parts(folder)
    presets: dict[str, dict[str, None]] = {}
    for cell, preset in ((cell, part.preset) for part in parts for cell in part.planned["cell"]):
        presets.setdefault(cell, {})[preset] = None
    cells = {*choice.rows(folder.store)["cell"]}
    records = [record for record in folder.store.records() if record.cell in cells]
    if not records:
        return 0
    told = atomic.told_unwritten(output, "the export")
    with told, atomic.made_folder(output.parent), atomic.unfinished(output) as made:
        tracker = Tracker(name, made / "whole", choice.metric)
        for record in records:
            tracker.write(record, ", ".join(presets.get(record.cell, ())))
        os.replace(tracker.folder, output)
    return len(records)


def _settings(record: Record) -> Iterator[tuple[str, bool | int | float | str]]:
    """The names and settings of a run, as trackers take them: numbers, texts, yes and no.

    Runs that are not the same differ in one. A name that several parts have is that of the recipe; the others have
    their part before it, as `method_schedule`.
    """
    known, tuning = record.identity, record.identity.tuning or {}
    named = {
        "method": record.label,
        "model": known.model,
        "data": known.data,
        "seed": known.seed,
        "T": known.iterations,
        **{name: getattr(known, name) for name in TOLD},
        **{f"tuning_{name}": tuning.get(name) for name in ("score", "trials")},
    }
    taken: set[str] = {"preset"}
    parts = {"": named, "training": known.training, "method": known.method_params, "model": known.model_params}
    parts |= {"options": known.options, "version": known.versions or {}}
    for part, settings in parts.items():
        for key, value in settings.items():
            name = f"{part}_{key}" if key in taken else key
            taken.add(name)
            if value is not None:
                yield name, value if isinstance(value, bool | int | float | str) else str(value)


def _tag(metric: Mapping[str, Any]) -> str:
    """The name of a number, such as `accuracy/test/T=2`."""
    steps = metric.get("test_iterations")
    words = [metric["metric"], metric.get("split") or "", "" if steps is None else f"T={steps}"]
    words += [f"{key}={value}" for key, value in (metric.get("where") or {}).items()]
    return "/".join(str(word) for word in words if word)
