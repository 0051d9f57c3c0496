"""Runs examples as a reader would, each in a process of its own that has the heavy imports already.

A fresh `python -m routebench` spends seconds on imports; a process that is forked off a server with them does not.
"""

import multiprocessing
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, Block

HEAVY = ["torch", "pandas", "scipy.stats", "matplotlib.figure", "seaborn", "pyarrow.parquet", "sklearn.datasets"]
HEAVY += ["routebench.cli", "routebench.report", "routebench.engine.running._suite", "routebench.conformance"]
HEAVY += ["torch._dynamo"]  # torch's first optimizer imports it
MODULE = "python -m "
LIMIT = 300  # seconds for one command, of which a quiet machine needs 20
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(HEAVY)


def run_block(block: Block, folder: Path, before: str = "") -> None:
    """Saves a block with a title, and runs it where it is a step of the page.

    Args:
        block: of a page.
        folder: in which the page is worked through.
        before: Python of the page's earlier blocks, whose names this one uses.

    Raises:
        AssertionError: a command failed, or does not print what the page shows.
    """
    if block.title:
        (folder / block.title).write_text(block.code, encoding="utf-8")
    elif block.language == "python":
        (folder / ".example.py").write_text(before + block.code, encoding="utf-8")
        code, output = run_forked([".example.py"], folder)
        assert code == 0, f"{block.code}\n{output}"
    elif block.language == "console":
        for command, shown in block.steps:
            _run_step(command, shown, folder)
    elif block.language == "bash":
        _run_step(block.code, [], folder)


def _run_step(command: str, shown: list[str], folder: Path) -> None:
    simple = command.startswith(MODULE) and not set(command) & set("|<>&;$\"'")
    if simple:
        code, output = run_forked(command.split()[2:], folder)
    else:
        code, output = run_in_shell(command, folder)
    assert code == 0, f"{command}: exit code {code}\n{output}"
    expect_shown(command, shown, output)


def expect_shown(command: str, shown: list[str], output: str) -> None:
    """The output begins with what the page shows; `...` stands for any text in a line, alone for any lines."""
    lines = [line for line in output.splitlines() if not line.startswith("compiling a kernel")]  # on a fresh machine
    place = 0
    for number, wanted in enumerate(shown):
        if wanted == "...":
            continue
        pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        found = (at for at in range(place, len(lines)) if pattern.match(lines[at]))
        at = next(found, None)
        if at is None or (at > place and shown[number - 1 : number] != ["..."]):
            raise AssertionError(f"{command}\ndoes not print, where the page shows it: {wanted}\nbut:\n{output}")
        place = at + 1


def run_forked(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Runs `python FILE.py` or `python -m MODULE ...`: exit code, and everything printed."""
    file = folder / ".output"
    process = SERVER.Process(target=_be_python, args=(arguments, str(folder), str(file)))
    process.start()
    process.join(LIMIT)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"{' '.join(arguments)} ran for more than {LIMIT} s")
    return process.exitcode, file.read_text(encoding="utf-8")


def run_in_shell(command: str, folder: Path) -> tuple[int, str]:
    """Runs a line as bash would, with this Python first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stdout


def _be_python(arguments: list[str], folder: str, file: str) -> None:
    """In the forked process: becomes `python` with these arguments, on one core, where a suite starts no processes."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.chdir(folder)
    with open(file, "w", encoding="utf-8") as output:  # noqa: PTH123  # its descriptor is what is wanted
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1)
    sys.path.insert(0, str(ROOT))
    try:
        if arguments[0].endswith(".py"):
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            sys.argv = [f"{arguments[0]}/__main__.py", *arguments[1:]]
            runpy.run_module(arguments[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
