"""Two processes run one suite in one results folder: every cell is run once. By hand: `python -m tests.stress.two`."""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.stress.scenario import Suite, expect_whole


def run_at_once(suite, folder, processes=2):
    """Starts several processes on one folder, and compares with one that ran alone.

    Returns:
        how often each cell was measured by the processes that ran at once.
    """
    journal, reference, results = folder / "journal", folder / "uninterrupted", folder / "together"
    if not reference.exists():
        suite.run(reference)
    journal.unlink()
    started = [suite.start(results) for _ in range(processes)]
    for process in started:
        suite.expect_success(process)
    suite.expect_no_orphans()
    expect_whole(results, reference)
    return Counter(journal.read_text().splitlines())


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    for number in range(chosen.times):
        with tempfile.TemporaryDirectory() as name:
            suite = Suite.quick(Path(name), seeds=5, seconds=0.1, jobs=chosen.jobs)
            counts = run_at_once(suite, Path(name), chosen.processes)
        often = {cell: count for cell, count in counts.items() if count != 1}
        assert not often, f"run more than once: {often}"
        sys.stdout.write(f"{number + 1}: {len(counts)} runs, each run once\n")


if __name__ == "__main__":
    main()
