"""Makes a Python that has what routebench needs, without a network, and runs the measurements in it.

Needs nothing but Python's own library and pip. What the Python at hand has already stays as it is, its torch above all;
what it lacks is installed from the wheels of `make wheelhouse` into an environment of its own, which sees the rest.
"""

import json
import os
import re
import site
import subprocess
import sys
import tarfile
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "build" / "gpu-kit"
"""Wheels and data that travel with the checkout."""
FOR_TESTS = ("pytest>=8.3", "pytest-benchmark>=5", "beartype>=0.23")
DOWNLOADS = "torchvision"
"""What only fetches data, and is as large as torch allows."""
NEVER = ("torch", "triton", "numpy", "matplotlib")
"""What stays as it is, whatever the wheels are."""


def needed() -> list[str]:
    """Requirements of routebench and of its kernels' tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [one for one in (*project["dependencies"], *FOR_TESTS) if name_of(one) != DOWNLOADS]


def name_of(requirement: str) -> str:
    """Of the package: `pandas>=3.0` to `pandas`."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0]


def lacking() -> list[str]:
    """The requirements that this Python does not fulfil."""
    return [requirement for requirement in needed() if not _is_there(requirement)]


def _is_there(requirement: str) -> bool:
    try:
        there = version(name_of(requirement))
    except PackageNotFoundError:
        return False
    least = re.search(r">=([\d.]+)", requirement)
    return least is None or _numbers(there) >= _numbers(least[1])


def _numbers(written: str) -> tuple[int, ...]:
    """`2.11.0+cu130` to (2, 11, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", written.partition("+")[0]))


def prepare(folder: Path, wheels: Path) -> Path:
    """The Python to run in: this one, if it lacks nothing, else one of an environment in `folder`.

    Raises:
        SystemExit: something is missing that the wheels do not have, or that must stay as it is.
    """
    if not (missing := lacking()):
        return Path(sys.executable)
    if fixed := [one for one in missing if name_of(one) in NEVER]:
        sys.exit(f"expected {', '.join(fixed)} in {sys.executable}, which are too large to bring along; install them")
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=False)
        own = next((folder / "lib").glob("python*")) / "site-packages"
        # A virtual environment of a virtual environment sees the packages of the first one's base, not of the first.
        (own / "beside.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in _packages()))
    if not wheels.is_dir():
        sys.exit(
            f"expected wheels of {', '.join(missing)} in {wheels}; `make wheelhouse` makes them where a network is"
        )
    _install(python, wheels, missing)
    return python


def _packages() -> list[str]:
    """Folders that this Python imports packages from."""
    return [path for path in dict.fromkeys([*sys.path, *site.getsitepackages()]) if path.endswith("-packages")]


def _install(python: Path, wheels: Path, missing: list[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    done = subprocess.run(
        [*pip, "--find-links", str(wheels), "--no-compile", *missing], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"could not install {', '.join(missing)} from {wheels}:\n{done.stderr.strip()}")


def unpack(kit: Path, folder: Path) -> None:
    """Data sets of the kit into folders of their names, once."""
    for archive in sorted(kit.glob("*.tar.xz")):
        inside = folder / archive.name.removesuffix(".tar.xz")
        if not inside.exists():
            aside = inside.with_name(f".{inside.name}")
            with tarfile.open(archive) as packed:
                packed.extractall(aside, filter="data")
            aside.rename(inside)


def main() -> None:
    """Prepares, and goes on as `reports.gpu.run` with the same arguments."""
    build = ROOT / "build"
    python = prepare(build / "gpu-environment", KIT / "wheels")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    if "ROUTEBENCH_DATA" not in environment and KIT.is_dir():
        unpack(KIT, build / "gpu-data")
        environment["ROUTEBENCH_DATA"] = str(build / "gpu-data")
    os.chdir(ROOT)
    os.execve(python, [str(python), "-m", "reports.gpu.run", *sys.argv[1:]], environment)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    if sys.argv[1:] == ["--lacking"]:
        sys.stdout.write(json.dumps(lacking()) + "\n")
    else:
        main()
