"""Limits of a suite's answer, a sentence each."""

from dataclasses import replace

from routebench.analysis import Method, Runs, wording
from routebench.analysis.answering import one_class_in_words
from routebench.analysis.comparison import Comparison

NAMED = 4  # methods in a sentence


def finished(runs: Runs) -> str:
    """Number of runs with a result."""
    done, planned = int((runs.planned["status"] == "ok").sum()), len(runs.planned)
    return f"{done} of {wording.plural(planned, 'planned run')} finished." if planned else "No run is planned."


def caveats_of(runs: Runs, found: Comparison) -> tuple[str, ...]:
    """Limits of the answer: the preset, few seeds or images, what did not finish, one class for all images."""
    caveats = [runs.strength.caveat] if runs.strength.caveat else []
    if int(found.measured["n_ok"].max()) < 3:
        caveats.append("Fewer than three seeds: how much another seed would change is hardly known.")
    elif found.seeds < 3:
        caveats.append("Some comparisons rest on fewer than three seeds.")
    if found.test_samples and found.test_samples < 5000:
        image = f"{found.test_samples:,} test images: one image is {100 / found.test_samples:.2g} points"
        caveats.append(f"{image}. Intervals over seeds say nothing of other test images.")
    if (runs.planned["status"] != "ok").any():
        caveats.append(finished(runs))
    if collapsed := one_class_in_words(runs):
        caveats.append(collapsed)
    if absent := _absent(runs):
        caveats.append(f"{absent} What they would reach there is unknown; they stand behind methods with more seeds.")
    return tuple(caveats)


def _absent(runs: Runs) -> str:
    """`No result: EM, T = 3 with 2 of 4 seeds (diverged).` for each method that has some, or is the user's."""
    rows = runs.planned[runs.planned["status"] != "ok"]
    ends: dict[Method, set[str]] = {}
    for cell, status in zip(rows["cell"], rows["status"], strict=True):
        ends.setdefault(runs.methods[cell], set()).add(str(status))
    told = [
        f"{replace(method, finished=method.planned)} with {len(method.planned) - len(method.finished)} of "
        f"{wording.plural(len(method.planned), 'seed')} ({wording.listed(sorted(of))})"
        for method, of in sorted(ends.items())
        if method.finished or method.yours
    ]
    return f"No result: {wording.listed(told, NAMED)}." if told else ""
