"""Plug-ins that write to the first process what is no message: each is a failed cell, and the others go on.

By hand: `python tests/stress/hostile.py`, which counts tries and holds; `--code FOLDER` tries another checkout.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "tests" / "engine" / "small_parts.py"
LIMIT = 20  # seconds of a cell, and of a plug-in to import
LONGEST = 900  # seconds after which a run counts as hanging
SUITE = """
question = "How bright are digits?"
version = 1
protocol = "brightness"
[[methods]]
name = "uniform"
[presets.quick]
data = "digits200"
model = "capsnet-small"
iterations = [1]
seeds = 1
training = { epochs = 1 }
"""
PLUGIN = """
import inspect, json, os, pickle, sys, threading, time
from routebench import routing
from routebench.engine.isolation import _process
from routebench.ops import length, squash

@routing.register("hostile")
class Hostile(routing.RoutingMethod):
    "Uniform coupling."
    def route(self, votes, activations):
        poses = squash(votes.sweep().first)
        return routing.Routed(poses, length(poses))

class Runs:
    def __reduce__(self):
        return os._exit, (7,)

def say(text, again=False):
    for sender in _process._main:
        os.write(sender.fileno(), text)
        while again:
            os.write(sender.fileno(), text)
    time.sleep(1000)

is_cell = any(frame.function == "_work" for frame in inspect.stack())
if is_cell == {in_cell} and _process._main:
    {deed}
"""
DEEDS = {
    "garbage": "say(b'garbage')",
    "garbage in a line": "say(b'garbage\\n')",
    "garbage as a connection frames it": "_process._main[0].send_bytes(b'garbage'); time.sleep(1000)",
    "half a message": "say(b'[\"answer\", ')",
    "half of a connection's": "say(b'\\x00\\x10\\x00\\x00abc')",
    "a pickle that runs": "_process._main[0].send(('stage', Runs())); time.sleep(1000)",
    "a pickle that runs, as an answer": "_process._main[0].send(('answer', Runs())); time.sleep(1000)",
    "a pickle in a line": "say(pickle.dumps(('answer', Runs())) + b'\\n')",
    "another kind": "say(b'[\"deed\", 1]\\n')",
    "a number": "_process._main[0].send(5); time.sleep(1000)",
    "an answer of another type": "say(b'[\"answer\", 5]\\n')",
    "a record of another run": 'say(b\'["answer", ["done", {}]]\\n\')',
    "a stage of another type": 'say(b\'["stage", {"Stage": {"share": "much", "doing": 5}}]\\n\')',
    "a stage without an end": 'say(b\'["stage", {"Stage": {"share": 1e308, "doing": ""}}]\\n\', again=True)',
    "steps without an end": "say(b'[\"step\", [null, false]]\\n', again=True)",
    "numbers of 5,000 digits": "say(b'[\"answer\", ' + b'9' * 5000 + b']\\n')",
    "tables within tables": "say(b'[\"answer\", ' + b'[' * 100000 + b'\\n')",
    "a pipe in place of its output": (
        "out = os.readlink('/proc/self/fd/2'); os.path.isfile(out) and (os.unlink(out), os.mkfifo(out)); "
        "time.sleep(1000)"
    ),
}


def attempt(code: Path, deed: str, folder: Path, *, in_cell: bool) -> str:
    """Runs a suite with such a plug-in; empty if it held, else what did not."""
    (folder / "small.toml").write_text(SUITE)
    text = PLUGIN.replace("{in_cell}", str(in_cell)).replace("{deed}", deed)
    (folder / "hostile.py").write_text(text)
    words = ["suite", "small.toml", "--plugin", PARTS, "--plugin", "hostile.py", "--method", "hostile", "--jobs", "1"]
    words += ["--time-limit", f"{LIMIT}s", "--results", "results"]
    environment = {**os.environ, "PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "routebench", *map(str, words)], cwd=folder, env=environment, capture_output=True,
            text=True, errors="replace", timeout=LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it hangs"
    if "Traceback" in done.stdout + done.stderr or done.returncode != 3:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return f"exit code {done.returncode}: {last:.120}"
    records = [json.loads(file.read_text()) for file in (folder / "results" / "records").glob("*.json")]
    found = {record["label"]: record["status"] for record in records}
    if found.pop("hostile", "") not in ("failed", "timeout") or set(found.values()) != {"ok"}:
        return f"other records: {found}"
    return ""


def main() -> None:
    """Tries each deed at planning and in a cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", type=Path, default=ROOT)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    held = tries = 0
    for name, deed in DEEDS.items():
        for in_cell in (False, True) if chosen.only in name else ():
            with tempfile.TemporaryDirectory() as folder:
                started = time.monotonic()
                told = attempt(chosen.code.resolve(), deed, Path(folder), in_cell=in_cell)
            tries, held = tries + 1, held + (not told)
            where = "in a run" if in_cell else "at planning"
            sys.stdout.write(f"{name}, {where}: {told or 'held'} ({time.monotonic() - started:.0f} s)\n")
            sys.stdout.flush()
    sys.stdout.write(f"{held} of {tries} held\n")
    sys.exit(0 if held == tries else 1)


if __name__ == "__main__":
    main()
