"""Measures all that is worth measuring on a GPU, the most telling first, in the time there is.

Each part runs in a process of its own with a time limit of its own. What is done is kept, and not done again: the same
command goes on where the last one stopped. A part that fails leaves its reason, and the next one runs; it is tried
again after all others. Results lie in a folder, and packed in it, without trained weights.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from reports.gpu.parts import PARTS, Part, Where, parts

ROOT = Path(__file__).resolve().parents[2]
STATE, PACKED, FOLDER = "state.json", "gpu-results.tar.xz", "gpu"
GRACE = 15
"""Seconds between the end that a part is asked for and the end that it is made to have."""
BEGUN = 20
"""Seconds from which a part that has begun goes on: what is left of it may be short."""
DONE, SKIPPED, FAILED, PARTLY = "done", "skipped", "failed", "partly"


@dataclass(frozen=True)
class Outcome:
    """How a part ended: done, skipped or failed, or partly: it goes on when it is called again. Times in seconds."""

    status: str
    seconds: float
    reason: str = ""


def plan(
    seconds: float, where: Where, known: Mapping[str, Outcome], only: Collection[str] = ()
) -> list[tuple[Part, float]]:
    """The parts that are to run, in order, each with its time. What is left goes to the first that can use it.

    Args:
        seconds: for all of them.
        where: what they run on.
        known: how parts ended before.
        only: names of parts; all that are not done if there are none.
    """
    given: dict[str, float] = {}
    free, chosen = seconds, to_do(where, known, only)
    for part in chosen:
        share = min(part.seconds, free)
        if share >= _least(known, part):
            given[part.name], free = share, free - share
    for part in chosen:
        if part.name in given:
            more = max(0.0, min(part.most - given[part.name], free))
            given[part.name], free = given[part.name] + more, free - more
    return [(part, given[part.name]) for part in chosen if part.name in given]


def to_do(where: Where, known: Mapping[str, Outcome], only: Collection[str]) -> list[Part]:
    """Parts that are not done and have no obstacle; those that failed before come last."""
    wanted = [part for part in parts(where.tiny) if (part.name in only if only else _status(known, part) != DONE)]
    able = [part for part in wanted if not part.obstacle(where)]
    return sorted(able, key=lambda part: _status(known, part) == FAILED)


def _least(known: Mapping[str, Outcome], part: Part) -> float:
    return min(BEGUN, part.least) if _status(known, part) == PARTLY else part.least


def _status(known: Mapping[str, Outcome], part: Part) -> str:
    return known[part.name].status if part.name in known else ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--budget", default="25m", show_default=True, metavar="TIME", help="For all parts together, such as 9m or 90s."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "gpu",
    help="Folder of results [default: build/gpu].",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([part.name for part in PARTS]),
    help="Run this part, whatever came of it before (repeatable).",
)
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option(
    "--packed",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"All results in one file, after each part [default: {PACKED} in the folder].",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Begin with the results of this file, where the folder has none.",
)
@click.option("--tiny", is_flag=True, help="A rehearsal: sizes that show that all works, and nothing else.")
@click.option("--dry-run", is_flag=True, help="Say what would run, and for how long; run nothing.")
def main(output: Path, packed: Path | None, resume: Path | None, only: tuple[str, ...], **options: Any) -> None:
    """Runs what is missing of all parts, the most telling first.

    Exit codes: 0 no part failed; 1 some did, and their logs say why; 2 the call was wrong.
    """
    ends = time.monotonic() + _seconds(options["budget"])
    where = Where(_device(options["device"]), output.resolve(), options["tiny"])
    if resume is not None and not (output / STATE).exists():
        unpack(resume, where.output)
    known = read(where.output)
    _say_plan(ends - time.monotonic(), where, known, only)
    if not options["dry_run"]:
        where.output.mkdir(parents=True, exist_ok=True)
        known = _all(ends, where, known, only, packed or where.output / PACKED)
        _say_outcomes(known)
        sys.exit(any(outcome.status == FAILED for outcome in known.values()))


def _all(
    ends: float, where: Where, known: dict[str, Outcome], only: tuple[str, ...], packed: Path
) -> dict[str, Outcome]:
    """Runs parts as long as one fits, each once, and plans anew after each: some take less than they were given."""
    asked = {part.name: part for part in parts(where.tiny) if not only or part.name in only}
    known |= {name: Outcome(SKIPPED, 0.0, why) for name, part in asked.items() if (why := part.obstacle(where))}
    open_ = {part.name for part in to_do(where, known, only)}
    while open_ and (chosen := plan(ends - time.monotonic(), where, known, open_)):
        part, share = chosen[0]
        open_.remove(part.name)
        known[part.name] = _run(part, where, share)
        write(where.output, known)
        pack(where.output, packed)
    write(where.output, known)
    return known


def _seconds(written: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = written[:-1], written[-1:]
    if unit not in units or not number.replace(".", "", 1).isdigit():
        raise click.UsageError(f"--budget: expected a time such as 25m, 90s or 2h, got {written!r}")
    return float(number) * units[unit]


def _device(wanted: str) -> str:
    import torch

    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise click.UsageError("--device cuda: torch finds no GPU here; --device cpu --tiny rehearses without one")
    return "cuda" if there and wanted != "cpu" else "cpu"


def _say_plan(seconds: float, where: Where, known: Mapping[str, Outcome], only: tuple[str, ...]) -> None:
    shares = {part.name: share for part, share in plan(seconds, where, known, only)}
    total = sum(shares.values())
    click.echo(f"{where.device}, results in {where.output}: {total / 60:.1f} of {seconds / 60:.1f} minutes are planned")
    for part in parts(where.tiny):
        if part.name in shares:
            said = f"up to {shares[part.name]:.0f} s"
        elif only and part.name not in only:
            said = "not asked for"
        elif obstacle := part.obstacle(where):
            said = f"skipped: {obstacle}"
        elif _status(known, part) == DONE:
            said = "done before"
        else:
            said = f"no time: at least {_least(known, part):.0f} s, better {part.seconds:.0f} s"
        click.echo(f"  {part.name:<11} {said:<40} {part.about}")


def _run(part: Part, where: Where, seconds: float) -> Outcome:
    """Runs a part in a process of its own, which has to end in time."""
    click.echo(f"{part.name}: up to {seconds:.0f} s", nl=False)
    started = time.monotonic()
    log = where.output / "logs" / f"{part.name}.txt"
    log.parent.mkdir(exist_ok=True)
    before = log.stat().st_size if log.exists() else 0
    margin = min(10.0, seconds / 4)
    with log.open("a") as kept:
        code = start(part.command(where, seconds - margin), seconds, kept.fileno())
    with log.open() as kept:
        kept.seek(before)
        said = kept.read()
    took = time.monotonic() - started
    outcome = _outcome(code, said, took)
    click.echo(f", {outcome.status} after {took:.0f} s{f': {outcome.reason}' if outcome.reason else ''}")
    return outcome


def start(command: list[str], seconds: float, log: int) -> int | None:
    """Runs Python with these arguments; its exit code, or None if it was stopped because its time was over."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": _path()}
    environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS is not deterministic
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=log, stderr=log, env=environment, start_new_session=True
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process and all that it started: asks first."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _outcome(code: int | None, said: str, took: float) -> Outcome:
    if code is None:
        return Outcome(PARTLY, took, "its time was over")
    if code == 0:
        return Outcome(DONE, took)
    if left := [line for line in said.splitlines() if "the budget left" in line]:
        return Outcome(PARTLY, took, left[-1].strip())
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return Outcome(FAILED, took, f"exit code {code}: {lines[-1] if lines else 'no output'}")


def read(output: Path) -> dict[str, Outcome]:
    """How parts ended that ran before."""
    file = output / STATE
    if not file.exists():
        return {}
    return {name: Outcome(**outcome) for name, outcome in json.loads(file.read_text()).items()}


def write(output: Path, known: Mapping[str, Outcome]) -> None:
    """Keeps how parts ended, at once."""
    aside = output / f".{STATE}"
    aside.write_text(json.dumps({name: asdict(outcome) for name, outcome in known.items()}, indent=1) + "\n")
    aside.replace(output / STATE)


def pack(output: Path, path: Path) -> None:
    """All results but trained weights, in one file, which is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}")
    with tarfile.open(aside, "w:xz", preset=1) as archive:
        archive.add(output, FOLDER, filter=_packable)
    aside.replace(path)


def unpack(path: Path, output: Path) -> None:
    """What `pack` put in."""
    output.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            inside = Path(member.name).relative_to(FOLDER)
            archive.extract(member.replace(name=str(inside)), output, filter="data")


def _packable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    path = Path(member.name)
    weights = path.suffix == ".safetensors" and path.parent.parent.name == "fits"  # a network each: too large
    return None if weights or path.name.endswith(PACKED) or path.name.startswith(".") else member


def _say_outcomes(known: Mapping[str, Outcome]) -> None:
    for part in parts(tiny=False):
        if part.name in known:
            outcome = known[part.name]
            click.echo(f"  {part.name:<11} {outcome.status:<8} {outcome.seconds:6.0f} s  {outcome.reason}")


if __name__ == "__main__":
    main()
