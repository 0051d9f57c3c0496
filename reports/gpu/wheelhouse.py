"""Collects what a GPU machine without a network needs: wheels and data, small enough to travel with the checkout."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import click

from reports.gpu.environment import KIT, ROOT

LIST = Path(__file__).with_name("wheels.txt")
MIB = 2**20
PUBLISHED = (
    "reports/features/",
    "reports/quick/",
    "reports/generative-quick/",
    "reports/grouping-quick/",
    "reports/papers-full/",
    "reports/papers-quick/",
    "reports/standard/",
    "tests/packs/",
)
"""Tracked, large, and of no use on a GPU: the checkout travels without them."""
GLIBC = (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in GLIBC),
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
    "linux_x86_64",
]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), default=KIT, help="Folder [default: build/gpu-kit]."
)
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="[default: the folder that ROUTEBENCH_DATA names.]"
)
@click.option("--python", "version", default="3.12", show_default=True, help="Of the GPU machine.")
@click.option("--limit", type=float, default=60, show_default=True, help="MiB of checkout, data and wheels together.")
def main(output: Path, data: Path | None, version: str, limit: float) -> None:
    """Collects wheels and data below a size, and says what is in and what is left out."""
    output.mkdir(parents=True, exist_ok=True)
    root = data or Path(os.environ.get("ROUTEBENCH_DATA", ""))
    packed = [path for path in (_mnist(root, output), _pictures(root, output)) if path is not None]
    checkout = _checkout()
    free = limit * MIB - checkout - sum(path.stat().st_size for path in packed)
    taken, left = _wheels(output / "wheels", version, free)
    click.echo(f"checkout without published results: {checkout / MIB:.1f} MiB")
    for path in (*packed, *taken):
        click.echo(f"{path.name}: {path.stat().st_size / MIB:.1f} MiB")
    wheels = sum(path.stat().st_size for path in taken)
    click.echo(
        f"together {limit - (free - wheels) / MIB:.1f} of {limit:g} MiB; left out: {', '.join(left) or 'nothing'}"
    )
    click.echo(f"{output}: carry it along with the checkout")


def _checkout() -> int:
    """Bytes of the tracked files that have to travel."""
    git = shutil.which("git") or "git"
    named = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in named.split("\0") if name and not name.startswith(PUBLISHED)]
    return sum(file.stat().st_size for file in files if file.is_file())


def _mnist(root: Path, output: Path) -> Path | None:
    raw = root / "MNIST" / "raw"
    if not raw.is_dir():
        click.echo(f"no MNIST in {raw}: parts that need it will be skipped")
        return None
    return _packed(output / "MNIST.tar.xz", [(file, f"raw/{file.name}") for file in sorted(raw.glob("*-ubyte"))])


def _pictures(root: Path, output: Path) -> Path | None:
    """Photographs, already packed; only a link to the same bytes."""
    given, path = root / "cifar10-jpeg.tar.xz", output / "cifar10-jpeg.tar.xz"
    if given.is_file() and not path.exists():
        path.write_bytes(given.read_bytes())
    return path if path.exists() else None


def _packed(path: Path, files: list[tuple[Path, str]]) -> Path:
    if not path.exists():
        with (
            tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as made,
            tarfile.open(fileobj=made, mode="w:xz") as archive,
        ):
            for file, name in files:
                archive.add(file, name)
        Path(made.name).rename(path)
    return path


def _wheels(folder: Path, version: str, free: float) -> tuple[list[Path], list[str]]:
    """Wheels in the order of the list, as many as fit; and the names of the others."""
    folder.mkdir(exist_ok=True)
    taken: list[Path] = []
    left = []
    for name in (line for line in LIST.read_text().splitlines() if line and not line.startswith("#")):
        wheel = _fetched(folder, name, version)
        if wheel is None or wheel.stat().st_size > free - sum(path.stat().st_size for path in taken):
            left.append(name if wheel else f"{name} (no wheel)")
            if wheel:
                wheel.unlink()
        else:
            taken.append(wheel)
    return taken, left


def _fetched(folder: Path, name: str, version: str) -> Path | None:
    """The wheel of a package, from the folder or from the package index."""
    if (known := _known(folder, name)) is not None:
        return known
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(folder),
    ]
    places = [part for platform in PLATFORMS for part in ("--platform", platform)]
    where = ["--python-version", version, "--implementation", "cp", *places]
    subprocess.run([*pip, *where, name], capture_output=True, check=False)
    return _known(folder, name)


def _known(folder: Path, name: str) -> Path | None:
    stem = name.lower().replace("-", "_")
    return next((path for path in folder.glob("*.whl") if path.name.lower().startswith(f"{stem}-")), None)


if __name__ == "__main__":
    main()
