"""A results folder with 100,000 records, and how long it takes to read it.

By hand: `python tests/stress/many.py FOLDER`.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from routebench.engine.results import digest, files_of
from routebench.engine.results._checksum import sealed

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests" / "packs" / "accuracy-quick"
CALLS = {
    "load_results": "from routebench import load_results as call",
    "planned": "from routebench.engine.results import Store; call = lambda path: Store(path).planned()",
}


def make_folder(path: Path, records: int, metrics: int = 10, age: float = 3600) -> Path:
    """Copies of published records that differ in seed and values, and the plan that names them all.

    Args:
        path: of the folder, which is made.
        records: how many.
        metrics: values of each, at most.
        age: seconds since they seem to have been written.
    """
    published = files_of(REAL)
    real = [json.loads(file.read_text()) for file in sorted((published / "records").glob("*.json"))]
    real = [record for record in real if record["identity"]["seed"] == 0]
    (plan_file,) = (published / "plans").glob("*.json")
    plan = json.loads(plan_file.read_text())
    for part in ("plans", "records"):
        (path / part).mkdir(parents=True)
    (path / "schema.json").write_text((published / "schema.json").read_text())
    cells, then = [], time.time() - age
    for number in range(records):
        record = varied(real[number % len(real)], number // len(real), metrics)
        cells.append({key: record[key] for key in ("cell", "label", "params", "identity")})
        _write(path / "records" / f"{record['cell']}.json", record, then)
    _write(path / "plans" / plan_file.name, {**plan, "cells": cells}, then)
    return path


def varied(real, seed, metrics):
    """A record of another seed, whose values are smaller by up to a tenth: none leaves the range of its measure."""
    record = copy.copy(real)
    record["identity"] = {**real["identity"], "seed": seed}
    record["cell"] = digest(record["identity"])
    record["arrays"] = None
    record["metrics"] = [{**one, "value": one["value"] * (1 - seed / 1e6)} for one in real["metrics"][:metrics]]
    record["provenance"] = {**real["provenance"], "seconds": real["provenance"]["seconds"] + seed}
    return record


def _write(file, content, then):
    file.write_text(sealed(content))
    os.utime(file, (then, then))


def measure(folder: Path, call: str) -> tuple[float, float, str]:
    """Seconds of a call and of its whole process, which is a new one, and the size of what it gave."""
    code = f"import sys, time; {CALLS[call]}; a = time.perf_counter(); x = call(sys.argv[1]); "
    code += "print(time.perf_counter() - a, len(x), *x['status'].value_counts().items())"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, told = done.stdout.split(maxsplit=1)
    return float(seconds), time.perf_counter() - started, told.strip()


def main() -> None:
    """Makes the folder if it is not there, and measures each call without and with an index."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=10)
    chosen = parser.parse_args()
    if not chosen.folder.exists():
        make_folder(chosen.folder, chosen.records, chosen.metrics)
    for call in CALLS:
        for file in (chosen.folder / "index").glob("*.safetensors"):
            file.unlink()
        for state in ("without an index", "with an index"):
            inside, whole, told = measure(chosen.folder, call)
            sys.stdout.write(f"{call}, {state}: {inside:.2f} s, {whole:.2f} s with start; {told}\n")


if __name__ == "__main__":
    main()
