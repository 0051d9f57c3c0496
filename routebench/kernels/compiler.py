"""Compiles a kernel for one size, once per machine, and keeps the library in the user's cache folder."""

import contextlib
import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from filelock import FileLock

from routebench.cache import CHOOSE_A_FOLDER, cache_folder
from routebench.errors import UserError

SOURCE = Path(__file__).with_name("fused.cpp")
DRAWING = Path(__file__).with_name("drawing.cpp")
FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    # Not -ffast-math: sums stay in the order written (which is the faster one here), infinities and NaN keep their
    # meaning, and no start-up code changes how the whole process rounds small numbers.
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
    "-shared",
    "-fPIC",
)
THREADS = ("-fopenmp",)
"""Options that a compiler may lack; without them, parts run on threads of Python's."""
TOLD = logging.getLogger("routebench.kernels")
PATIENCE = 300
"""Seconds after which a compiler is given up."""


class NoCompiler(RuntimeError):
    """The kernel cannot be compiled here; the message says why, in one line."""


@cache
def library(child_pose: int, pose: int, side: int) -> ctypes.CDLL:
    """The kernel of sweeps for one pose size.

    Args:
        child_pose, pose: elements of a child's pose and of a vote.
        side: rows of matrix poses; 0 for vectors.

    Raises:
        NoCompiler: there is no C++ compiler, or it failed.
        ValueError: a pose has no element.
    """
    if min(child_pose, pose) < 1:
        raise ValueError(f"expected poses of at least 1 element, got {child_pose} below and {pose} above")
    use = f"poses of {child_pose} and {pose} elements"
    return _compiled(SOURCE, use, f"sweep-{child_pose}-{pose}-{side}", CHILD_POSE=child_pose, POSE=pose, SIDE=side)


@cache
def drawing_library(channels: int) -> ctypes.CDLL:
    """The kernel that draws templates with so many channels of colour.

    Raises:
        NoCompiler: there is no C++ compiler, or it failed.
    """
    return _compiled(DRAWING, f"templates of {channels} channels", f"drawing-{channels}", CHANNELS=channels)


def _compiled(source: Path, use: str, name: str, **sizes: int) -> ctypes.CDLL:
    """A library, compiled if need be, which is told. A second process that wants it waits for the first."""
    compiler = find_compiler()
    if compiler is None:
        given = os.environ.get("CXX")
        looked = f"CXX names {given!r}, which is not there" if given else "looked for $CXX, g++, clang++"
        raise NoCompiler(f"no C++ compiler ({looked}); install one (Debian and Ubuntu: apt install g++) or set CXX")
    definitions = tuple(f"-D{size}={value}" for size, value in sizes.items())
    try:
        folder = cache_folder()
    except UserError as error:
        raise NoCompiler(str(error)) from error
    file = folder / f"{name}-{_digest(compiler, source)}.so"
    with contextlib.suppress(OSError):  # not there, or damaged; the folder may be one that can only be read
        return ctypes.CDLL(str(file))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{file.stem}.lock"):
            if not file.exists():
                TOLD.warning("compiling a kernel for %s, once on this machine; it takes some seconds", use)
                _compile(compiler, source, definitions, file)
            try:
                return ctypes.CDLL(str(file))
            except OSError:  # a damaged file
                _compile(compiler, source, definitions, file)
                return ctypes.CDLL(str(file))
    except OSError as error:
        raise NoCompiler(f"{folder} cannot be used: {error}; {CHOOSE_A_FOLDER}") from error


def find_compiler() -> tuple[str, ...] | None:
    """The command that compiles C++: what CXX says, such as `ccache g++`, else g++ or clang++."""
    given = os.environ.get("CXX")
    for command in (given, shlex.join([given])) if given else ("g++", "clang++"):  # a path may hold a space
        words = _words(command)
        if words and (path := shutil.which(words[0])):
            return path, *words[1:]
    return None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark without its pair
        return []


def _compile(compiler: tuple[str, ...], source: Path, definitions: tuple[str, ...], file: Path) -> None:
    named = " ".join(compiler)
    part = file.with_suffix(f".{os.getpid()}.part")
    for left in file.parent.glob(f"{file.stem}.*.part"):  # of processes that were killed: this one holds the lock
        left.unlink(missing_ok=True)
    failed = ""
    for threads in (THREADS, ()):
        command = (*compiler, *FLAGS, *threads, *definitions, str(source), "-o", str(part))
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
            if done.returncode == 0:
                part.replace(file)  # whole or not there
                return
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoCompiler(f"{named} did not finish: {error}") from error
        finally:
            part.unlink(missing_ok=True)
        # `ld` says "failed"
        told = (line for line in done.stderr.splitlines() if "error" in line or "failed" in line)
        failed = next(told, f"exit code {done.returncode}")
    raise NoCompiler(f"{named} failed: {failed}")


def _digest(compiler: tuple[str, ...], source: Path = SOURCE) -> str:
    """Digest of everything that a compiled library depends on; a home folder may serve machines of several kinds."""
    parts = (
        source.read_text(encoding="utf-8"),
        " ".join(FLAGS + THREADS),
        " ".join(compiler),
        _version(compiler),
        _processor(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _version(compiler: tuple[str, ...]) -> str:
    return subprocess.run((*compiler, "--version"), capture_output=True, text=True, check=False, timeout=60).stdout


def _processor() -> str:
    """The instructions that the processor has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
