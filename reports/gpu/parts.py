"""The parts of a run on a GPU, the most telling first: what each does, what it takes, and when it makes no sense."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Where:
    """What a run runs on.

    Args:
        device: `cuda` or `cpu`.
        output: folder of results.
        tiny: sizes that show that a part works, and nothing else.
    """

    device: str
    output: Path
    tiny: bool


@dataclass(frozen=True)
class Part:
    """One step of the plan. It is given a time, and goes on where it stopped when it is called again.

    Args:
        about: in a few words.
        command: arguments of Python, for a run and the seconds that it may take.
        seconds: that it is expected to take on an H100; the plan for 25 minutes gives it so much.
        least: seconds below which it is not worth starting.
        most: seconds that it is given where there is time left, at most.
        obstacle: why it cannot be done here; empty if it can.
    """

    name: str
    about: str
    command: Callable[[Where, float], list[str]]
    seconds: float
    least: float = 20
    most: float = 600
    obstacle: Callable[[Where], str] = lambda _: ""


def _script(name: str, *more: str) -> Callable[[Where, float], list[str]]:
    """A script of this folder, which stops by itself in time."""

    def command(where: Where, seconds: float) -> list[str]:
        options = ["--device", where.device, "--output", str(where.output), "--seconds", f"{seconds:.0f}"]
        return ["-m", f"reports.gpu.{name}", *options, *more, *(["--tiny"] if where.tiny else [])]

    return command


def _suite(
    name: str, folder: str, *, of: str = "", own: bool = True, jobs: int = 1, data: str = ""
) -> Callable[[Where, float], list[str]]:
    """A suite, of this folder or of routebench; those that share a folder share trained networks.

    Args:
        name: of the suite.
        folder: of its results.
        of: a pattern of the cells that are run; all without one.
        own: the suite is in this folder.
        jobs: processes at a time, on a GPU.
        data: images in place of the suite's.
    """

    def command(where: Where, seconds: float) -> list[str]:
        file, full = (f"reports/gpu/suites/{name}.toml", "gpu") if own else (name, "full")
        preset = ("tiny" if own else "smoke") if where.tiny else full
        results = where.output / (name if where.tiny else folder)  # a page of one suite is made quickly
        options = ["--preset", preset, "--device", where.device, "--results", str(results)]
        options += ["--budget", f"{seconds:.0f}s"]
        if jobs > 1 or where.tiny:
            options += ["--jobs", "1" if where.tiny else str(jobs)]
        if data and not where.tiny:
            options += ["--data", f"folder:{os.path.relpath(photographs())}"]  # records name no machine's folder
        if where.tiny and not own:
            options += ["--data", "take:200:mnist5k"]
        if not of and not where.tiny:
            return ["-m", "routebench", "suite", file, *options]
        pattern, most = ("", "1") if where.tiny else (of, "0")
        return ["-m", "reports.gpu.runs", pattern, most, file, *options]

    return command


def _doctor(where: Where, _seconds: float) -> list[str]:
    return ["-m", "routebench", "doctor", "--device", where.device]


def _tests(_where: Where, _seconds: float) -> list[str]:
    options = ["-k", "test_on_a_gpu", "-q", "-W", "default", "-p", "no:cacheprovider"]
    files = ["tests/kernels/test_triton.py", "tests/kernels/test_drawing_triton.py", "tests/engine/test_devices.py"]
    return ["-m", "pytest", *files, *options]


def _sanitized(where: Where, seconds: float) -> list[str]:
    program = shutil.which("compute-sanitizer") or "compute-sanitizer"
    checks = _script("check", "--sanitized")(where, seconds)
    options = ["--error-exitcode", "9", "--target-processes", "application-only"]
    watched = [program, *options, sys.executable, *checks]
    alone = "import os; os.environ['PYTORCH_NO_CUDA_MEMORY_CACHING'] = '1'"  # else one block holds many tensors
    return ["-c", f"{alone}; os.execv({program!r}, {watched!r})"]


def _needs_gpu(where: Where) -> str:
    return "" if where.device == "cuda" else "it needs a GPU"


def _needs_sanitizer(where: Where) -> str:
    found = shutil.which("compute-sanitizer")
    return _needs_gpu(where) or ("" if found else "compute-sanitizer is not on the PATH")


def _needs_mnist(where: Where) -> str:
    return "" if where.tiny or (root() / "MNIST" / "raw").is_dir() else f"MNIST is not in {root()}"


def _needs_photographs(where: Where) -> str:
    return "" if where.tiny or (photographs() / "train").is_dir() else f"there are no photographs in {photographs()}"


def root() -> Path:
    """The folder of data sets."""
    return Path(os.environ.get("ROUTEBENCH_DATA", "data"))


def photographs() -> Path:
    """CIFAR-10 as JPEG: `train/` and `test/`, with a folder per class. It is not the official CIFAR-10."""
    return root() / "cifar10-jpeg"


REHEARSED = 60
"""Seconds that a rehearsal gives each part at most. Of a suite it runs one cell."""
CONDITIONS = r"(dynamic T=3|none) on "
"""Routing or none: with a decoder and without one, the four conditions of Kiefer et al., appendix A."""
LABELLESS = "(?!scae)"
"""All but the stacked capsule autoencoder, whose 300,000 steps fit no half hour."""
JOBS = 6
"""Networks that train side by side on one GPU: starting their kernels takes a processor longer than the GPU needs.
An H100 with 16 cores ran six; other numbers were not tried."""


def _fits(name: str, of: str = "") -> Callable[[Where, float], list[str]]:
    """A suite of this folder; all share one folder of results, and so their trained networks."""
    return _suite(name, "networks", of=of, jobs=JOBS)


def _of_kiefer(name: str) -> Callable[[Where, float], list[str]]:
    """A suite of routebench on the same networks."""
    return _suite(name, "networks", of=CONDITIONS, own=False, jobs=JOBS)


def _convolutions(name: str, data: str = "") -> Callable[[Where, float], list[str]]:
    """A suite whose convolutional capsules keep the GPU busy: with few at a time the first are finished early."""
    return _suite(name, "networks", jobs=3, data=data)


PARTS = (
    Part("doctor", "what the machine has", _doctor, 20, most=60),
    Part("check", "kernels against double precision, gradients, determinism", _script("check"), 150, most=360),
    Part("tests", "tests of the Triton kernels", _tests, 200, most=400, obstacle=_needs_gpu),
    Part("sanitizer", "kernels under compute-sanitizer", _sanitized, 30, most=180, obstacle=_needs_sanitizer),
    Part("layers", "layers against the yardstick, compiled or not, and the floor", _script("layers"), 200, most=600),
    Part("tiles", "tile sizes of the kernels", _script("tiles"), 60, most=240, obstacle=_needs_gpu),
    Part("cost", "suite cost", _suite("cost", "cost"), 330, 60, 600, _needs_mnist),
    Part(
        "kiefer", "routing or not, decoder or not, 13 epochs", _of_kiefer("reconstruction"), 330, 60, 900, _needs_mnist
    ),
    Part("sparsity", "predictive coding in those networks", _of_kiefer("kiefer-sparsity"), 120, 30, 400, _needs_mnist),
    Part("robustness", "attacks on those networks", _fits("robustness", CONDITIONS), 180, 60, 600, _needs_mnist),
    Part(
        "photographs",
        "one network of Tsai et al. on photographs, five seeds",
        _suite("photographs", "photographs", jobs=5, data="photographs"),
        900,
        300,
        3600,
        _needs_photographs,
    ),
    Part("accuracy", "full accuracy with one and three iterations", _fits("accuracy"), 180, 90, 3600, _needs_mnist),
    Part("em", "EM as released, on toys", _convolutions("em"), 540, 150, 3600),
    Part(
        "probes",
        "linear probes of networks of their own, 13 epochs",
        _fits("probes", CONDITIONS),
        380,
        60,
        900,
        _needs_mnist,
    ),
    Part("smith", "Smith et al., table 1", _fits("smith", LABELLESS), 600, 400, 3600, _needs_mnist),
    Part(
        "tsai",
        "networks of Tsai et al. on photographs",
        _convolutions("tsai", "photographs"),
        600,
        300,
        7200,
        _needs_photographs,
    ),
)


def parts(tiny: bool) -> tuple[Part, ...]:
    """All parts, in order; a rehearsal gives each half a minute at most."""
    if not tiny:
        return PARTS
    return tuple(replace(part, seconds=min(part.seconds, REHEARSED), least=5, most=REHEARSED) for part in PARTS)
