"""Where a result comes from: code, machine, versions, flags."""

import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("torch", "torchvision", "numpy", "pandas", "scipy", "scikit-learn", "safetensors", "mlxtend", "triton")


@cache
def provenance(device: str, command: str) -> dict[str, Any]:
    """What stands in every record.

    Args:
        device: `cpu` or `cuda`.
        command: the command line that was given.
    """
    return {
        "command": command,
        **git_state(Path(__file__).parent),
        "versions": versions(),
        "device": device,
        "processor": processor(),
        "os": platform.platform(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        **_cuda(device),
    }


def command_line() -> str:
    """The command that started this process, as one would type it."""
    program = Path(sys.argv[0])
    head = ["python", "-m", "routebench"] if program.name == "__main__.py" else [program.name]
    return shlex.join([*head, *sys.argv[1:]])


def git_state(folder: Path) -> dict[str, Any]:
    """Commit, whether tracked files differ from it, and a hash of the difference; empty outside a repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    ours = _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # not a repository that an environment lies in
    if commit is None or ours is None:
        return {"commit": "", "dirty": False, "dirty_hash": ""}
    difference = _git(folder, "diff", "HEAD") or ""
    digest = hashlib.sha256(difference.encode()).hexdigest()[:16] if difference else ""
    return {"commit": commit, "dirty": bool(difference), "dirty_hash": digest}


def versions() -> dict[str, str]:
    """Of Python, this package and what its numbers depend on."""
    found = {"python": platform.python_version()}
    for package in ("routebench", *PACKAGES):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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
    return {
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda or "",
        "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "driver": _driver(),
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
    }


def _driver() -> str:
    return _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or ""


def _git(folder: Path, *arguments: str) -> str | None:
    return _output("git", "-C", str(folder), *arguments)


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
