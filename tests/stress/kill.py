"""Kills a suite with -9 at random moments, again and again, until it has finished all the same.

By hand: `python -m tests.stress.kill --kills 100`, with `--real` for training, or with `--tune` for `tune`.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.stress.scenario import REAL, Suite, expect_whole, finished, kill

AT_WORK = 0.7
"""Share of the kills that come while cells run; the others come at any time, the start and the report included."""


def wait_for_work(process, results):
    """Until the process begins a cell that no process has begun before, or ends."""
    begun = begun_before = len(list((results / "locks").glob("cell-*.lock")))
    while begun == begun_before and process.poll() is None:
        time.sleep(0.02)
        begun = len(list((results / "locks").glob("cell-*.lock")))


def kill_again_and_again(suite, folder, kills, rng, busy=3.0, at_work=AT_WORK, say=lambda _: None):
    """Runs a suite in one results folder after another until it was killed so often; every folder is finished.

    Args:
        suite: a `Suite`.
        folder: in which results folders are made.
        kills: how often the whole process group is killed.
        rng: decides when.
        busy: seconds for which a process is let work, at most.
        at_work: share of the kills that come while cells run.
        say: is told of every kill and every finished folder.

    Returns:
        how many results folders were finished, and at how many kills something was there to lose.
    """
    reference = folder / "uninterrupted"
    seconds = suite.run(reference) if not reference.exists() else 10.0
    rounds = with_results = done = 0
    while done < kills:
        results = folder / f"killed{rounds}"
        before = {}
        while done < kills:
            process = suite.start(results)
            if rng.random() < at_work:
                wait_for_work(process, results)
                moment = rng.uniform(0, busy)
            else:
                moment = rng.uniform(0.2, 1.0) * seconds
            try:
                process.wait(moment)
                suite.expect_success(process)
                break  # it has finished
            except subprocess.TimeoutExpired:
                kill(process)
            done += 1
            suite.expect_no_orphans()
            after = finished(results)
            assert before.items() <= after.items(), "a finished run is lost or was run again"
            with_results += bool(after)
            say(f"kill {done}: {len(before)} runs finished before, {len(after)} now")
            before = after
        suite.run(results)
        assert before.items() <= finished(results).items(), "a finished run is lost or was run again"
        suite.expect_no_orphans()
        expect_whole(results, reference)
        rounds += 1
        say(f"folder {rounds}: whole, and the same as without a kill")
    return rounds, with_results


def say(line):
    """At once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="train networks, instead of the quick protocol")
    parser.add_argument("--tune", action="store_true", help="tune settings, and compare those that are chosen, too")
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = Suite(REAL, folder) if chosen.real else Suite.quick(folder, seeds=6, jobs=chosen.jobs)
        suite = Suite.tuned(folder, chosen.jobs) if chosen.tune else suite
        busy = 15.0 if chosen.real or chosen.tune else 3.0
        rounds, with_results = kill_again_and_again(
            suite, folder, chosen.kills, random.Random(chosen.seed), busy=busy, say=say
        )
    sys.stdout.write(
        f"{chosen.kills} kills, {with_results} of them with finished runs to lose; {rounds} folders finished, "
        f"all whole, in {time.monotonic() - started:.0f} s\n"
    )


if __name__ == "__main__":
    main()
