"""Is routing as fast and as small as it is said to be? Measures ours against yardsticks and writes README.md.

Every measurement is made by a fresh process, ours and the yardstick in turn. Before a case is timed, ours and the
yardstick must agree in outputs and all gradients; otherwise it is refused.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from routebench.errors import UserError, unknown

HERE = Path(__file__).parent
TOLERANCE = 1e-4
ROUNDING = 5
"""Results that are right but for rounding differ by a few times the rounding error of one of them."""
OUTPUTS = ("poses", "activations", "logits")
MOST_ITERATIONS = 6
"""Largest T of the measurements of one more iteration and of memory."""
SPINNING = "ours, threads spin"
"""Ours where threads that wait keep their core as long as GCC's OpenMP lets them; routebench shortens that."""
SPINS = {"GOMP_SPINCOUNT": "300000"}
"""The default of GCC's OpenMP."""
BUSY = "while True: pass"
"""The program of the other process that keeps a core busy."""
Row = dict[str, Any]


class Refused(Exception):
    """A case was not timed; the message says why."""


@dataclass(frozen=True)
class Run:
    """The options of a run that its measurements share."""

    threads: int
    backend: str
    runs: int
    seconds: float
    quick: bool

    @property
    def counts(self) -> range:
        """T of the measurements of one more iteration and of memory."""
        return range(1, 3 if self.quick else MOST_ITERATIONS + 1)

    def ask(self, *question: str, **more: str) -> Any:
        """The answer of a fresh process of this script, with more environment variables."""
        options = [f"--{name}={value}" for name, value in asdict(self).items() if name != "quick"]
        command = [sys.executable, __file__, *question, *options, *(["--quick"] if self.quick else [])]
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), **more}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise Refused(lines[-1] if lines else f"the process ended with {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", multiple=True, metavar="CASE", help="Measure this case (repeatable); others keep their results."
)
@click.option("--quick", is_flag=True, help="Tiny sizes: shows that the script works, and nothing else.")
@click.option("--backend", default="auto", show_default=True, help="Back end of routebench.kernels.")
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Processes per measurement.")
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True, help="Fewest runs in a process.")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Shortest time of all runs of a process.")
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), default=HERE, help="Folder [default: here]."
)
@click.option("--beside", is_flag=True, help="Measure ours beside a busy process, and nothing else.")
@click.option("--page-only", is_flag=True, help="Write page and figure from the results that are there.")
@click.option("--case", help="One measurement, in this process, printed as JSON; with the options below.")
@click.option("--implementation", default="ours", show_default=True)
@click.option("--iterations", type=click.IntRange(min=1), help="T [default: the case's].")
@click.option("--batch", type=click.IntRange(min=1), help="Images [default: the case's].")
@click.option("--memory-only", is_flag=True, help="Leave time out.")
@click.option("--check", is_flag=True, help="Compare with the yardstick in place of measuring.")
def main(only: tuple[str, ...], output: Path, repeats: int, page_only: bool, case: str | None, **options: Any) -> None:
    """Measures routing against yardsticks, in fresh processes, and writes results.csv, README.md and a figure.

    Exit codes: 0 done; 1 a case was refused; 2 the call was wrong.
    """
    try:
        beside = options.pop("beside")
        if case is not None:
            click.echo(json.dumps(_one(case, **options)))
            return
        run = Run(**{name: options[name] for name in Run.__dataclass_fields__})
        refused = [] if page_only else _all(run, only, output, repeats, beside=beside)
        from reports.speed import page  # here and not above, as torch and pandas: help and errors come at once

        page.write(output)
    except UserError as error:
        _stop(str(error), 2)
    if refused:
        _stop(f"{len(refused)} of the cases refused: {', '.join(refused)}", 1)


def _stop(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def _one(
    name: str,
    *,
    implementation: str,
    iterations: int | None,
    batch: int | None,
    check: bool,
    quick: bool,
    backend: str,
    threads: int,
    runs: int,
    seconds: float,
    memory_only: bool,
) -> dict[str, Any]:
    from reports.speed import once

    case = _case(name)
    if implementation not in case.implementations:
        raise unknown("implementation", implementation, case.implementations)
    setting = once.Setting(threads, backend, runs, seconds, tiny=quick, memory_only=memory_only)
    sizes = {"iterations": iterations or case.iterations}
    try:
        if check:
            once.prepare(setting)
            errors = once.cases.disagreement(case, implementation, tiny=quick, **sizes)
            return {"errors": errors, "rounding": once.cases.rounding(case, tiny=quick, **sizes)}
        found = once.measure(case, implementation, setting, batch=batch or case.batch, **sizes)
    except RuntimeError as error:
        if "not enough memory" in str(error) or "allocate memory" in str(error):
            raise UserError(f"{name}, {implementation}: does not fit into the memory that is free") from error
        raise
    return {**found, **once.machine()}


def _case(name: str) -> Any:
    from reports.speed.cases import CASES

    if name not in CASES:
        raise unknown("case", name, CASES)
    return CASES[name]


def _all(run: Run, only: tuple[str, ...], output: Path, repeats: int, *, beside: bool) -> list[str]:
    from reports.speed.cases import CASES
    from routebench import kernels

    with kernels.using(run.backend):
        pass  # a back end that does not exist is an error here, not in every process
    for name in only:
        _case(name)
    output.mkdir(parents=True, exist_ok=True)
    refused = []
    layers = [name for name, case in CASES.items() if case.memory_batch is not None]
    for name in only or (layers if beside else CASES):
        click.echo(f"{name}:", err=True)
        try:
            rows = (_measure_beside if beside else _measure_case)(run, name, repeats)
        except Refused as error:
            click.echo(f"{name}: refused: {error}", err=True)
            refused.append(name)
            if beside:
                continue  # what was measured before stays
            rows = [{"part": "refused", "used": str(error)}]
        common = {"case": name, "threads": run.threads, "backend": run.backend, "quick": run.quick}
        _keep(output / "results.csv", name, [{**common, **row} for row in rows], beside=beside)
    return refused


def _measure_case(run: Run, name: str, repeats: int) -> list[Row]:
    case = _case(name)
    layer = case.memory_batch is not None
    variants = [implementation for implementation in case.implementations if implementation.startswith("ours")]
    rows = [_check(run, name, implementation, case.iterations) for implementation in variants]
    if layer and run.counts[-1] != case.iterations:
        rows.append(_check(run, name, "ours", run.counts[-1]))
    batch = 4 if run.quick else case.batch
    for repeat in range(repeats):
        for implementation in case.implementations:
            asked = {"implementation": implementation, "iterations": case.iterations, "batch": batch}
            rows.append(_measured(run, name, "table", repeat, asked))
    if not layer:
        return rows
    for repeat in range(repeats):
        for iterations in run.counts:
            asked = {"implementation": "ours", "iterations": iterations, "batch": batch}
            rows.append(_measured(run, name, "iterations", repeat, asked))
    for iterations in run.counts:
        for implementation in ("ours", "yardstick"):
            asked = {"implementation": implementation, "iterations": iterations}
            asked["batch"] = 4 if run.quick else case.memory_batch
            rows.append(_measured(run, name, "memory", 0, asked))
    return rows


def _measure_beside(run: Run, name: str, repeats: int) -> list[Row]:
    """Ours on a quiet machine and beside one busy process, with threads that give way and threads that spin."""
    case, rows = _case(name), []
    asked = {"iterations": case.iterations, "batch": 4 if run.quick else case.batch}
    for repeat in range(repeats):
        for neighbours in (0, 1):
            for implementation, spin in (("ours", {}), (SPINNING, SPINS)):
                with _busy(neighbours):
                    row = _measured(run, name, "beside", repeat, {"implementation": "ours", **asked}, **spin)
                rows.append({**row, "implementation": implementation, "neighbours": neighbours})
    return rows


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """So many other processes keep a core busy each."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _check(run: Run, name: str, implementation: str, iterations: int) -> Row:
    """Whether ours and the yardstick agree.

    Rounding grows with the iterations of EM: beyond the T of the table, where the yardstick itself is further than the
    tolerance from double precision, ours may be as far.

    Raises:
        Refused: they do not.
    """
    asked = {"implementation": implementation, "iterations": iterations}
    found = run.ask("--check", f"--case={name}", *(f"--{key}={value}" for key, value in asked.items()))
    errors: dict[str, float] = found["errors"]
    own = max(found["rounding"].values(), default=0.0)
    allowed = TOLERANCE if iterations <= _case(name).iterations else max(TOLERANCE, ROUNDING * own)
    worst = max(errors, key=errors.__getitem__)
    click.echo(f"  check: {implementation}, T = {iterations}: {errors[worst]:.1e} ({worst})", err=True)
    if not errors[worst] <= allowed:
        raise Refused(
            f"{implementation} with T = {iterations} differs in {worst!r} by {errors[worst]:.1e} of the largest value, "
            f"more than {allowed:.0e}"
        )
    outputs = max(error for what, error in errors.items() if what in OUTPUTS)
    return {"part": "check", **asked, "error_outputs": outputs, "error": errors[worst], "rounding": own}


def _measured(run: Run, name: str, part: str, repeat: int, asked: dict[str, Any], **more: str) -> Row:
    question = [f"--case={name}", *(f"--{key}={value}" for key, value in asked.items())]
    found: Row = run.ask(*question, *(["--memory-only"] if part == "memory" else []), **more)
    took = f"{1e3 * found['seconds']:.1f} ms, " if "seconds" in found else ""
    what = f"{asked['implementation']}, T = {asked['iterations']}"
    click.echo(f"  {part}: {what}: {took}{found['extra'] / 2**20:.0f} MiB ({found['used']})", err=True)
    return {"part": part, "repeat": repeat, **asked, **found}


def _keep(path: Path, name: str, rows: list[Row], *, beside: bool) -> None:
    """Adds the rows of a case to the results, in place of its old ones: those beside a busy process, or the others."""
    import pandas as pd

    from reports.speed.page import COLUMNS

    kept = pd.read_csv(path) if path.exists() else pd.DataFrame({"case": [], "part": []})
    old = (kept["case"] == name) & ((kept["part"] == "beside") == beside)
    together = pd.concat([kept[~old], pd.DataFrame(rows)], ignore_index=True)
    together[[column for column in COLUMNS if column in together]].to_csv(path, index=False)


if __name__ == "__main__":
    main()
