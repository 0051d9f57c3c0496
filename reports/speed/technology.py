"""In what should the processor's kernel be written? One sweep, forward, in plain torch, compiled, and by hand.

The sweep is an iteration of the dense layer: votes of 1152 children with poses of 8 for 10 parents with poses of 16,
logits from a query, softmax over parents, weighted sum; 128 images. Each candidate runs in a process of its own.

numba is no dependency of routebench. With `--numba PYTHON`, a Python that has numba and numpy, it is measured too:
`python -m venv X && X/bin/pip install numba && python reports/speed/technology.py --numba X/bin/python`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import click
import numpy as np

CANDIDATES = {
    "reference": "plain torch, tiled, as in routebench.kernels.reference",
    "compile-einsum": "torch.compile, votes by einsum and stored",
    "compile-fused": "torch.compile, votes as products and sums that the compiler can merge with the rest",
    "numba": "numba, a tile of images at a time",
    "fused": "routebench.kernels.fused, C++",
}
BATCH, CHILDREN, POSE_IN, PARENTS, POSE = 128, 1152, 8, 10, 16
TINY_BATCH, TINY_CHILDREN = 4, 24


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--numba", type=click.Path(exists=True, dir_okay=False), help="A Python that has numba and numpy.")
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--runs", type=click.IntRange(min=1), default=15, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(CANDIDATES)), help="Repeatable.")
@click.option("--quick", is_flag=True, help="Tiny sizes.")
def main(numba: str | None, threads: int, runs: int, only: tuple[str, ...], quick: bool) -> None:
    """Prints a table with the time of a sweep, its error against double precision, and the time until it first ran."""
    rows = ["| what | ms | error | seconds until it first ran |", "| --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        _pose_problem(problem, quick)
        for name in only or CANDIDATES:
            python = numba if name == "numba" else sys.executable
            found = "left out: no --numba" if python is None else _ask(python, name, problem, threads, runs)
            rows.append(f"| {CANDIDATES[name]} | {found} |")
    click.echo("\n".join(rows))


def _pose_problem(path: Path, quick: bool) -> None:
    batch, seen = (TINY_BATCH, TINY_CHILDREN) if quick else (BATCH, CHILDREN)
    draw = np.random.default_rng(0)
    children = draw.standard_normal((batch, seen, POSE_IN))
    weight = 0.1 * draw.standard_normal((seen, PARENTS, POSE_IN, POSE))
    query = draw.standard_normal((batch, PARENTS, POSE))
    names = {"children": children, "weight": weight, "query": query}
    singles = {name: values.astype(np.float32) for name, values in names.items()}
    np.savez(path, **singles, expected=_expected(*(values.astype(np.float64) for values in singles.values())))


def _expected(children: np.ndarray, weight: np.ndarray, query: np.ndarray) -> np.ndarray:
    found = np.empty_like(query)
    for image, poses in enumerate(children):
        votes = np.einsum("id,ijde->ije", poses, weight)
        logits = np.einsum("ije,je->ij", votes, query[image])
        coupling = np.exp(logits - logits.max(axis=1, keepdims=True))
        coupling /= coupling.sum(axis=1, keepdims=True)  # over parents
        found[image] = np.einsum("ij,ije->je", coupling, votes)
    return found


def _ask(python: str, name: str, problem: Path, threads: int, runs: int) -> str:
    """Cells of a row: what a process of its own found."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
    script = Path(__file__).with_name("one_sweep.py")
    command = [python, str(script), name, str(problem), str(threads), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    found = json.loads(done.stdout.splitlines()[-1])
    return f"{1e3 * median(found['seconds']):.1f} | {found['error']:.1e} | {found['start']:.1f}"


if __name__ == "__main__":
    main()
