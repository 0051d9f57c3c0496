"""Does the gate see what is planted, and nothing else? Copies of the code where a method takes more, really measured.

By hand: `python -m tests.stress.gate FOLDER`. In every round the unchanged code, five times, and five changed copies
are measured in turn by `suite cost`. In each changed copy the layers of one method take 1.3 times the CPU time, and
those of another one 1.2 times the memory. The unchanged ones are compared with the changed ones, and with each other:
ten plants and ten comparisons in which nothing changed. The same command with more rounds adds to what is there.
"""

import argparse
import itertools
import shutil
import sys
import time
from pathlib import Path

from routebench.analysis import Verdict
from routebench.commands.alternate import measure, rounds_in
from routebench.comparing import Wishes, compare_folders, verdict
from routebench.engine.results import Store
from routebench.units import TIMED

ROOT = Path(__file__).parents[2]
CODE = "routebench", "suites", "analyses"
SUITE, PRESET = "cost", "smoke"
METHODS = "dynamic", "em", "inverted-attention", "uniform", "random"
TIME, MEMORY = 1.3, 1.2

PLANT = """

import time as _time

import torch


def _wait(until):
    while _time.thread_time() < until:
        pass


def _planted(routing, run, children):
    method = type(routing).__module__.rpartition(".")[2].replace("_", "-")
    times = {times} if method == {slow!r} else 1.0
    ballast = {sizes}.get(getattr(routing, "iterations", None), 0) if method == {large!r} else 0
    if times == 1.0 and not ballast:
        return run(children)
    start, held, begun = _time.thread_time(), [torch.empty(ballast, dtype=torch.uint8)], []

    def begin(slope):
        begun.append(_time.thread_time())

    def end(slope):
        _wait(begun[0] + times * (_time.thread_time() - begun[0]))
        held.clear()

    below = children.poses.view_as(children.poses)
    before = _time.thread_time()
    found = run(Capsules(below, children.activations))
    after = _time.thread_time()
    last = found[-1] if isinstance(found, list) else found
    if below.requires_grad:
        below.register_hook(end)
        for above in (last.poses, last.activations, last.logits):
            if above is not None and above.requires_grad:
                above.register_hook(begin)
    _wait(start + times * (after - before))
    return found


def _layer(self, children, _plain=CapsuleLayer.forward):
    return _planted(self.routing, lambda below: _plain(self, below), children)


def _together(layers, primary, _plain=concurrent):
    return _planted(layers[-1].routing, lambda below: _plain(layers, below), primary)


CapsuleLayer.forward = _layer
SCHEDULES["concurrent"] = _together
"""


def say(line):
    """Tells how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def copied(target):
    """The code as it is now, in a folder of its own."""
    for part in CODE:
        if not (target / part).exists():
            shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def plant(plain, target, slow, large, sizes):
    """A copy of the code in which layers of one method take longer, and those of another one more memory."""
    copied(target)
    text = PLANT.replace("{times}", repr(TIME)).replace("{sizes}", repr(sizes))
    file = Path("routebench") / "capsules" / "schedules.py"
    (target / file).write_text(
        (plain / file).read_text() + text.replace("{slow!r}", repr(slow)).replace("{large!r}", repr(large))
    )
    return target


def ballast(folder, method):
    """Bytes by number of iterations that a method's layers would take more."""
    found = {}
    for record in Store(folder).records():
        if record.identity.method == method:
            for metric in record.metrics:
                if metric["metric"] == "training_memory" and metric["where"]["part"] == "layers":
                    found[record.identity.iterations] = round((MEMORY - 1) * metric["value"])
    return found


def turn(code, results, number, options):
    """One more round of a copy, unless it is there."""
    if rounds_in(results, SUITE, PRESET) <= number:
        call = ["suite", SUITE, "--preset", PRESET, "--seeds", str(number + 1), "--results", str(results)]
        measure(code, [*call, *options])


def changed(comparison):
    """(is it a time, method) of every row that says that something got worse or better."""
    rows = comparison.with_verdict(Verdict.REGRESSION, Verdict.IMPROVEMENT)
    return {(row.group.unit in TIMED, row.method) for row in rows}


def show(title, comparison):
    """One line."""
    say(f"{title}: exit code {comparison.exit_code}. {verdict(comparison)}")


def judge_planted(folder, pairs):
    """How many plants were caught, and how many of these under no other name, with what else was said."""
    caught = named = 0
    for number in pairs:
        slow = METHODS[number]
        large = METHODS[(number + 1) % len(METHODS)]
        found = compare_folders(folder / f"plain{number}", folder / f"planted{number}", Wishes())
        show(f"{slow} slower, {large} larger", found)
        said = {(is_time, name.partition("[")[0]) for is_time, name in changed(found)}
        for is_time, method in ((True, slow), (False, large)):
            own = {name for kind, name in said if kind == is_time}
            caught += method in own
            named += own == {method}
            if own != {method}:
                say(f"  {'time' if is_time else 'memory'} of {method}: said of {', '.join(sorted(own)) or 'nobody'}")
    return caught, named


def judge_unchanged(folder, pairs):
    """In how many comparisons of the same code something was said to have changed."""
    false = 0
    for one, other in itertools.combinations(pairs, 2):
        found = compare_folders(folder / f"plain{one}", folder / f"plain{other}", Wishes())
        show(f"unchanged {one} and {other}", found)
        false += bool(changed(found))
    return false


def main():
    """Measures what is missing, compares, and ends with 1 if the gate does not do what it promises."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--pairs", type=int, nargs="+", default=range(len(METHODS)), help="which copies; all of them")
    given = parser.parse_args()
    folder, options, started = given.folder.resolve(), ["--threads", given.threads], time.monotonic()
    plain = copied(folder / "code")
    turn(plain, folder / f"plain{given.pairs[0]}", 0, options)  # of which the ballast is a share
    codes = []
    for number in given.pairs:
        slow, large = METHODS[number], METHODS[(number + 1) % len(METHODS)]
        code = plant(plain, folder / f"code{number}", slow, large, ballast(folder / f"plain{given.pairs[0]}", large))
        codes += [(f"plain{number}", plain), (f"planted{number}", code)]
    for number in range(given.rounds):
        for name, code in codes:
            turn(code, folder / name, number, options)
        say(f"round {number + 1} of {given.rounds}: {time.monotonic() - started:.0f} s")
    caught, named = judge_planted(folder, given.pairs)
    false = judge_unchanged(folder, given.pairs)
    plants = 2 * len(given.pairs)
    say(f"planted: {caught} of {plants} caught, {named} of {plants} rightly named; unchanged: {false} with a row")
    sys.exit(0 if 10 * named >= 9 * plants and not false else 1)


if __name__ == "__main__":
    main()
