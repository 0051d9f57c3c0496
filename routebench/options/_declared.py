"""The options of commands and functions, each declared once, and which contradict each other."""
# ruff: noqa: RUF009  # an option is the field itself, not its default

import tomllib
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from annotated_types import Ge, Gt, Le, Lt

from routebench.errors import UserError
from routebench.options._kinds import (
    Amount,
    Argument,
    Device,
    Either,
    File,
    Flag,
    Location,
    Name,
    OptionalFolder,
    Paths,
    Seeds,
    Size,
    Text,
    Texts,
    Time,
    Whole,
    Word,
    described,
)

ALL = "all"
"""Stands in place of a suite's name for every suite with a place in it."""
BACKENDS = ("auto", "reference", "fused", "triton")
"""The same as `routebench.kernels.BACKENDS`, without the import of torch."""
MOST_THREADS = 1024
"""The most threads of a run. Where the system gives no more threads, OpenMP crashes the process."""
BOARDS = tuple(tomllib.loads((Path(__file__).parents[1] / "ranking" / "boards" / "boards.toml").read_text("utf-8")))
"""Names of the published comparisons, without the import of what reads them."""


@dataclass(kw_only=True)
class OnDevice:
    """The option that says which device computes."""

    device: Device = Device(
        "auto",
        "device of the networks; cuda is every GPU that torch sees, cuda:N one of them, mps that of an Apple computer",
        "auto|cpu|cuda|cuda:N|mps",
        surrounds=True,
    )


@described
@dataclass(kw_only=True)
class Execution(OnDevice):
    """The options that say where and how runs are executed. None changes what they measure.

    Raises:
        UserError: an option has no legal value, or would have no effect.
    """

    jobs: Whole = Whole(None, "processes at a time; by default one per core, or per GPU", "N", Ge(1), surrounds=True)
    results: Location = Location(
        Path("results"), "folder of the results; what it already has is not done again", "DIR", surrounds=True
    )
    plugins: Paths = Paths(
        (),
        "methods, models, data sets, protocols, analyses and suites of your own; ROUTEBENCH_PLUGINS names more, "
        "separated as in PATH",
        "FILE.py[:Name]|FOLDER",
        flag="plugin",
    )
    isolate: Either = Either(
        None,
        "every run has a process of its own; if not, `jobs` 1 does all in this one; by default where a plug-in takes "
        "part",
        surrounds=True,
    )
    time_limit: Time = Time(
        None,
        "most time of a run, such as 30m, or in seconds; beyond it the run becomes a `timeout`",
        "TIME",
        surrounds=True,
    )
    memory_limit: Size = Size(
        None,
        "most memory of a run, such as 4GB, or in bytes; beyond it the run becomes an `oom`; by default all runs in "
        "processes of their own may take 90 % of the machine's memory together, beyond which the largest is stopped",
        "SIZE",
        surrounds=True,
    )
    budget: Time = Time(
        None,
        "time such as 20m, or seconds: no run starts that is expected to end later, those of unknown duration may",
        "TIME",
        surrounds=True,
    )

    def __post_init__(self) -> None:
        several = f"--jobs {self.jobs}" if self.jobs is not None and self.jobs > 1 else ""
        limited = {"--time-limit": self.time_limit, "--memory-limit": self.memory_limit}
        needs = [*filter(None, [several]), *(name for name, given in limited.items() if given is not None)]
        if self.isolate is False and needs:
            raise UserError(
                f"--no-isolate: with {needs[0]} each run has a process of its own; leave out one of the two"
            )


@described
@dataclass
class SuiteOptions(Execution):
    """The options of `routebench suite` and of `routebench.run_suite`.

    Raises:
        UserError: an option has no legal value, would have no effect, or would stop everything.
    """

    suite: Argument = Argument(..., "its name, a TOML file of your own, or `all`", names="suites")
    _: KW_ONLY
    preset: Text = Text(
        "quick",
        "preset of the suite, its size and data: smoke, quick, full, or another of its own; `routebench list presets` "
        "shows all",
        "NAME",
        names="presets",
    )
    methods: Texts = Texts(
        (),
        "methods to run instead of the suite's, such as em or dynamic[detach=true]; baselines run all the same",
        "NAME[k=v,...]",
        flag="method",
        names="methods",
    )
    data: Name = Name(
        None,
        "data set, instead of the preset's; folder:PATH for your own images, take:N:NAME for N images of a set",
        "NAME",
        names="data",
        writes=("data",),
    )
    models: Texts = Texts(
        (),
        "networks, instead of the preset's",
        "NAME",
        flag="model",
        names="models",
        writes=("model", "model_params", "training_of"),
    )
    seeds: Seeds = Seeds(
        None,
        "number of seeds, or the first and the last, such as 10..19; instead of the preset's",
        "N|A..B",
        writes=("seeds",),
    )
    backend: Word = Word(
        "auto",
        "implementation of routing; auto takes the fastest that agrees with the reference",
        BACKENDS,
        writes=("backends",),
    )
    compile: Flag = Flag(
        False,
        "networks are trained as torch.compile makes them, after a comparison with plain ones; each run then has a "
        "process of its own",
    )
    threads: Whole = Whole(
        None,
        "threads of torch per run; by default cores / `jobs`, at most OMP_NUM_THREADS, and 1 on a cluster",
        "N", Ge(1), Le(MOST_THREADS), surrounds=True,
    )  # fmt: skip
    executor: Word = Word(
        "local", "place of the runs: this machine, or a running Ray cluster (pip install 'routebench[ray]')",
        ("local", "ray"), surrounds=True,
    )  # fmt: skip
    address: Text = Text("auto", "address of the Ray cluster's head", "HOST:PORT", surrounds=True)
    gpus_per_run: Amount = Amount(
        None,
        "GPUs for each run on a cluster, such as 0.25; by default 1 if there are GPUs and `device` is not cpu",
        "X", Ge(0), surrounds=True,
    )  # fmt: skip
    loss: Name = Name(
        None,
        "loss to train every configuration with, whatever the suite says; baselines that learn without labels keep "
        "theirs",
        "NAME",
        names="losses",
        writes=("training.loss", "training_of.*.loss"),
    )
    settings: File = File(
        None, "file of settings that `tune` has chosen, instead of the preset's", "FILE", writes=("settings",)
    )
    until: Amount = Amount(
        None,
        "points of accuracy: seeds are added until the 95 % interval of every pre-specified comparison is at most this "
        "to either side",
        "POINTS", Gt(0),
    )  # fmt: skip
    changes: Texts = Texts(
        (), "other values of keys of the preset, such as training.epochs=20", "KEY=VALUE", flag="set"
    )
    cells: Texts = Texts((), "keys of the runs to execute; the plan's others are left out", "KEY", flag="run")
    beside: OptionalFolder = OptionalFolder(
        None,
        "results folder or pack that is shown and tested beside these, as in one folder; it stays as it is",
        "DIR",
    )

    tuning = False
    """Tells whether trials of settings run instead."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.executor == "local" and (self.address != "auto" or self.gpus_per_run is not None):
            raise UserError("--address and --gpus-per-run are for a cluster; add --executor ray, or leave them out")
        if self.executor == "ray" and self.isolate is False:
            raise UserError("--no-isolate: on a cluster each run has a process of its own; leave out one of the two")
        if self.until is not None and self.cells:
            raise UserError(
                "--until adds seeds, and --run executes the runs that it names alone; leave out one of the two"
            )
        of_one = (self.data, self.models, self.cells, self.settings, self.tuning, self.changes)
        if self.suite == ALL and any(of_one):
            raise UserError(
                "--data, --model, --run, --settings, --set and tuning belong to one suite; name it instead of `all`"
            )
        if self.compile and self.isolate is False:
            raise UserError(
                "--compile: the compiler changes torch, so that each run needs a process; leave out --no-isolate"
            )


@described
@dataclass
class TuneOptions(SuiteOptions):
    """The options of `routebench tune`, which runs trials of settings."""

    _: KW_ONLY
    trials: Whole = Whole(None, "trials of every configuration, instead of the suite's number", "N", Ge(1))

    tuning = True


@described
@dataclass(kw_only=True)
class RankOptions(Execution):
    """The options of `routebench rank` and of `routebench.rank`."""

    board: Text = Text(
        "quick",
        f"comparison to join: {', '.join(BOARDS[:-1])} or {BOARDS[-1]}; or that of a suite of your own, whose results "
        "`beside` names",
        "NAME|FILE.toml:PRESET",
    )
    chosen: Name = Name(
        None,
        "the method of the file where it has several, also with hyperparameters, which are then not tuned",
        "NAME[k=v,...]",
        flag="method",
    )
    beside: OptionalFolder = OptionalFolder(
        None, "results folder or pack that stands in place of the published results in the package", "DIR"
    )
    until: Amount = Amount(
        None,
        "points of accuracy: seeds are added until the interval over uniform routing is at most this to either side "
        "(boards full and mnist)",
        "POINTS", Gt(0),
    )  # fmt: skip
    output: File = File(None, "the page; rank.METHOD.SUITE.PRESET.html in the results folder by default", "FILE")


@described
@dataclass
class CompareOptions:
    """The options of `routebench compare` and of `routebench.compare`.

    Raises:
        UserError: an option has no legal value, or would have no effect.
    """

    base: Location = Location(..., "results folder, the one to compare with")
    head: Location = Location(..., "results folder, the one that may be worse")
    _: KW_ONLY
    metrics: Texts = Texts((), "metrics to compare, instead of all", "NAME", flag="metric")
    methods: Texts = Texts((), "methods to compare, instead of all", "NAME", flag="method", names="methods")
    alpha: Amount = Amount(0.05, "family-wise significance level, between 0 and 1", "X", Gt(0), Lt(1))
    tolerances: Texts = Texts(
        (),
        "changes to accept up to this size, such as accuracy=0.5 or training_time=10%",
        "METRIC=VALUE[%]",
        flag="tolerance",
    )
    must_see: Texts = Texts(
        (),
        "changes that the comparison has to detect at this size, else the gate is undecided; by default 30 % of a "
        "time, and a warning alone from 20 % of another ratio, 1 point of a share",
        "METRIC=VALUE[%]",
    )

    def __post_init__(self) -> None:
        for flag, wishes in (("--tolerance", self.tolerances), ("--must-see", self.must_see)):
            for metric in (wish.partition("=")[0].strip() for wish in wishes):
                if self.metrics and metric and metric not in self.metrics:
                    raise UserError(f"{flag} {metric}: --metric leaves this metric out; name it there, too, or nowhere")


@described
@dataclass(kw_only=True)
class CheckOptions(OnDevice):
    """The options of `routebench check` and of `routebench.check`."""

    plugins: Paths = Paths(
        (),
        "files with routing methods of your own; theirs is checked where none is named",
        "FILE.py[:Name]",
        flag="plugin",
    )
    seed: Whole = Whole(0, "seed of the random inputs", "N", Ge(0))
    time_limit: Time = Time("15m", "time such as 15m, or seconds, after which a method that hangs is stopped", "TIME")


@described
@dataclass
class FeaturesOptions(OnDevice):
    """The options of `routebench features` and of `routebench.extract_features`."""

    backbone: Argument = Argument(..., "`efficientnet-lite0`; or `timm:NAME` or `torchvision:NAME`")
    data: Argument = Argument(..., "name of a data set of pictures")
    output: Location = Location(..., "the file to write, which ends in .safetensors")
    _: KW_ONLY
    layer: Text = Text("", "module whose output is taken; by default the last that has places", "NAME")
    size: Whole = Whole(224, "height and width that images are scaled to, in pixels", "N", Ge(8), Le(4096))
    weights: Text = Text(
        "", "file of weights; `random` to draw them; by default those that the library finds", "FILE|random"
    )
    float32: Flag = Flag(False, "numbers have 32 bits in place of 16")
    plugins: Paths = Paths((), "files with data sets of your own", "FILE.py[:Name]|FOLDER", flag="plugin")
    batch: Whole = Whole(64, "images in a pass of the network", "N", Ge(1))


@described
@dataclass
class ReportOptions:
    """The options of `routebench report` and of `routebench.write_report`."""

    results: Location = Location(..., "results folder")
    output: File = File(None, "the page; report.html in the results folder by default", "FILE.html")
    _: KW_ONLY
    plugins: Paths = Paths(
        (),
        "analyses of your own, which draw in a process of its own that they may end; ROUTEBENCH_PLUGINS names more",
        "FILE.py[:Name]|FOLDER",
        flag="plugin",
    )
    beside: OptionalFolder = OptionalFolder(
        None, "results folder or pack that is shown and tested beside these, as in one folder; it stays as it is", "DIR"
    )


@described
@dataclass
class MergeOptions:
    """The arguments of `routebench merge` and of `routebench.merge`."""

    results: Paths = Paths(..., "two or more results folders or packs")
    output: Location = Location(..., "the new folder, which must not hold anything yet; it appears when it is whole")
