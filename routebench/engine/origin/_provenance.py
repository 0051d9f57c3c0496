"""Records where a result comes from: code, machine, versions, flags; never names of machines or users."""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from routebench.atomic import encoded
from routebench.errors import printable
from routebench.options import SuiteOptions, surroundings
from routebench.received import read_plain
from routebench.registry import plugin_files, plugins_of_environment

ENVIRONMENT = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|VECLIB|NUMEXPR|ATEN|DNNL|ONEDNN|CUBLAS|CUDNN|NVIDIA_TF32|TORCH|PYTORCH|TRITON)_"
)
"""Prefixes of environment variables that can change results or timings."""
OUR_OWN = {"GOMP_SPINCOUNT": "10000"}
"""Variables that `import routebench` sets where nobody did."""
PATHS = re.compile(r"[/\\]|(?i:home|path|dir|cache|token|key|password)")
"""Variables whose name or value matches this are left out: they name places, not ways to compute."""
BESIDE = ("triton", "orjson", "pyarrow")
"""Optional packages whose presence changes results or timings."""
CODE = {".py", ".cpp", ".cu", ".toml"}
SETTINGS = "--settings"
PLACED = ("ROUTEBENCH_RESULTS", "--results", SETTINGS, "--write", "-o", "--output", "--beside")
_recorded: list[list[str]] = []
"""Commands in whose name parts of this process are done, the innermost last."""


def provenance(device: str, command: str, plugins: tuple[str, ...] = ()) -> dict[str, Any]:
    """The provenance in every record.

    Args:
        device: `cpu`, `cuda` or one of several GPUs; the record names the GPU's model, not its number.
        command: the command line that was given.
        plugins: the user's plug-ins, as `load_plugin` takes them; the record has a hash of their content.
    """
    import torch  # only here: who shows a command does without

    return {
        "command": command,
        **code_state(Path(__file__).parents[2]),
        "plugins": plugin_hashes(plugins),
        "versions": versions(),
        "device": device.partition(":")[0],
        "processor": processor(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "os": platform.platform(),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "environment": environment(),
        **_cuda(device),
    }


@contextlib.contextmanager
def recorded_as(words: Sequence[str]) -> Iterator[None]:
    """Records another command than the one that started this process: one that does this part of it alone.

    Args:
        words: the command's, such as `["python", "-m", "routebench", "suite", "accuracy"]`.
    """
    _recorded.append([*words])
    try:
        yield
    finally:
        _recorded.pop()


def command_line() -> str:
    """The command that started this process, as typed in a shell; of `PLACED` only the last part of their paths.

    Settings below the folder in which it was given keep their path: they may lie in the repository.

    Options that came from the environment stand before it, as a shell takes them.

    Records are published, and where their folder lay is nobody's business.
    """
    if _recorded:
        program, *given = _recorded[-1]
        head, before = [program], []
    else:
        program, *given = sys.argv
        name = Path(program).name
        head = ["python", "-m", "routebench"] if name == "__main__.py" else [name]
        before = [_unplaced("", f"{name}={shlex.quote(value)}") for name, value in surroundings(SuiteOptions).items()]
    return printable(
        " ".join([*before, shlex.join([*head, *(_unplaced(*pair) for pair in pairwise([program, *given]))])])
    )


def _unplaced(before: str, argument: str) -> str:
    if before in PLACED:
        return _last_part(before, argument)
    option, equals, value = argument.partition("=")
    return f"{option}={_last_part(option, value)}" if equals and option in PLACED else argument


def _last_part(option: str, value: str) -> str:
    path = Path(value)
    is_below = option == SETTINGS and not path.is_absolute() and path.parts[:1] != ("~",) and ".." not in path.parts
    return value if is_below else path.name or value


def code_state(folder: Path) -> dict[str, Any]:
    """The result of `git_state`; outside a repository, a hash of the package's code replaces the commit."""
    found = git_state(folder)
    return found if found["commit"] else {**found, "dirty": None, "package_hash": _package_hash(folder)}


def _package_hash(folder: Path) -> str:
    return files_hash((file for file in folder.rglob("*") if file.suffix in CODE), folder)


def files_hash(files: Iterable[Path], folder: Path) -> str:
    """16 hex digits of the content of files, and of their paths from a folder, wherever that lies.

    Args:
        files: their paths.
        folder: the folder to which hashed paths are relative.
    """
    named = {file: Path(os.path.relpath(file, folder)).as_posix() for file in sorted({*files})}
    told = "\n".join(f"{name} {content_hash(file)}" for file, name in named.items())
    return hashlib.sha256(encoded(told)).hexdigest()[:16]


def git_state(folder: Path) -> dict[str, Any]:
    """Commit, whether the code differs from it, and a hash of the difference; empty outside a repository.

    Args:
        folder: the folder of the package. Code that git does not track counts as well; ignored files and files that are
            not code, such as results, do not.
    """
    commit = commit_of(folder / "__init__.py")
    if not commit:
        return {"commit": "", "dirty": False, "dirty_hash": ""}
    difference = _git(folder, "diff", "HEAD", "--", *(f":(top)*{suffix}" for suffix in sorted(CODE))) or ""
    listed = (_git(folder, "ls-files", "-z", "--others", "--exclude-standard") or "").split("\0")  # -z: names unquoted
    unknown = [name for name in sorted(listed) if Path(name).suffix in CODE]
    told = [difference, *(f"{name} {content_hash(folder / name)}" for name in unknown)]
    is_dirty = bool(difference or unknown)
    digest = hashlib.sha256(encoded("\n".join(told))).hexdigest()[:16] if is_dirty else ""
    return {"commit": commit, "dirty": is_dirty, "dirty_hash": digest}


def commit_of(file: Path) -> str:
    """The commit of the repository that has a file, not of one that merely surrounds it; empty without one."""
    ours = _git(file.parent, "ls-files", "--error-unmatch", file.name)
    return (_git(file.parent, "rev-parse", "HEAD") or "") if ours is not None else ""


def plugin_hashes(plugins: Iterable[str]) -> dict[str, str]:
    """Hashes of plug-ins: those of the command line by their given name, those of the environment by file name."""
    named = {Path(spec).name: plugin_hash(spec) for spec in plugins_of_environment() if Path(spec).exists()}
    return named | {spec: plugin_hash(spec) for spec in plugins}


def plugin_hash(spec: str) -> str:
    """16 hex digits of the content of a plug-in's files.

    Raises:
        UserError: there is no such file or folder.
    """
    files = plugin_files(spec)
    if len(files) == 1:
        return content_hash(files[0])
    told = "\n".join(f"{file.name} {content_hash(file)}" for file in files)
    return hashlib.sha256(encoded(told)).hexdigest()[:16]


def content_hash(file: Path) -> str:
    """16 hex digits of a file's content; empty if it cannot be read."""
    try:
        return hashlib.sha256(read_plain(file, named=True)[0]).hexdigest()[:16]
    except OSError:
        return ""


def versions() -> dict[str, str]:
    """Versions of Python, this package and its dependencies."""
    found = {"python": platform.python_version()}
    for package in ("routebench", *_dependencies(), *BESIDE):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _dependencies() -> list[str]:
    """Names of routebench's dependencies."""
    try:
        asked = importlib.metadata.requires("routebench") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        asked = ["torch", "torchvision", "numpy", "pandas", "scipy", "scikit-learn", "safetensors", "mlxtend"]
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in asked if "extra ==" not in line]


def environment() -> dict[str, str]:
    """Environment variables that can change numbers or times, such as `OMP_NUM_THREADS`."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if ENVIRONMENT.match(name) and not PATHS.search(name) and not PATHS.search(value)
        if OUR_OWN.get(name) != value
    }


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        named = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        named = None
    name = named[1] if named else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def _cuda(device: str) -> dict[str, Any]:
    if device == "cpu":
        return {"gpu": "", "cuda": "", "cudnn": "", "driver": "", "tf32": False}
    import torch

    return {
        "gpu": torch.cuda.get_device_name(device),
        "cuda": torch.version.cuda or "",
        "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "driver": _driver(),
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }


def _driver() -> str:
    """The driver's version; every GPU gives the same line."""
    told = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or ""
    return told.partition("\n")[0].strip()


def _git(folder: Path, *arguments: str) -> str | None:
    return _output("git", "-C", str(folder), *arguments)


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).strip("\n")  # a name of a file may begin with a space
