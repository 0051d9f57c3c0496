"""The command that repeats the numbers of a part of a report."""

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from routebench.analysis import wording
from routebench.analysis._runs import Runs
from routebench.engine.results import Record
from routebench.quantities import written
from routebench.received import from_json, read_plain
from routebench.registry import suite_files

TALK = {"-q", "--quiet", "-v", "--verbose", "--json"}
"""Options that change nothing but what a command prints."""


def command_of(runs: Runs, plan: Mapping[str, Any], records: Sequence[Record]) -> tuple[str, str]:
    """The command lines that repeat the finished runs, and a sentence on what the last names beyond them.

    They are those of all plans of which a run counts, the oldest first: of two settings the newer plan's count. A plan
    whose configurations have more seeds by older plans has these seeds as well.

    Args:
        runs: the runs of the part.
        plan: its newest plan; in `others` the older ones.
        records: those of its finished and failed runs.
    """
    newest, besides = _given(plan, records)
    if not newest:
        parts = ("python", "-m", "routebench", "suite", runs.suite, "--preset", runs.preset, "--data", runs.data)
        newest = shlex.join(parts)
    commands = [*_of_all_plans(newest, runs, plan, records)][::-1]
    return " && ".join(dict.fromkeys(_as_readers_give_it(each, runs, records) for each in commands)), besides


def finished(record: Record) -> str:
    """The time at which a run ended; empty where it is unknown."""
    return str(record.provenance.get("finished") or "")


def _given(plan: Mapping[str, Any], records: Sequence[Record]) -> tuple[str, str]:
    """The plan's command; if that names a plug-in that failed to import, the newest finished run's; empty without one.

    Also a sentence on plug-ins that it names, and no finished run came with.
    """
    ok = sorted((record for record in records if record.status == "ok"), key=finished, reverse=True)
    used = {str(spec) for record in ok for spec in record.provenance.get("plugins") or ()}
    told = [plan.get("command"), *(record.provenance.get("command") for record in (*ok, *records))]
    known = [entry if isinstance(entry, str) else shlex.join(map(str, entry)) for entry in told if entry]
    if not known:
        return "", ""
    if not ok or any("plugins" not in record.provenance for record in ok):
        return known[0], ""  # nobody knows what they came with
    command = next((entry for entry in known if _plugins_of(entry) <= used), known[0])
    unused = sorted(_plugins_of(command) - used)
    if not unused:
        return command, ""
    return command, f"This was the last command given here. No finished run came with {wording.listed(unused)}."


def _of_all_plans(newest: str, runs: Runs, plan: Mapping[str, Any], records: Sequence[Record]) -> Iterator[str]:
    """The newest plan's command, then those of older plans that hold what no command before them repeats."""
    if "plan" not in plan:
        yield newest
        return
    alike = runs.planned.groupby(["label", "method_params", "role", "model", "iterations"], dropna=False, sort=False)
    left = runs.planned.assign(entry=alike.ngroup())
    others = {str(one["plan"]): one for one in plan.get("others", ())}
    heads = [plan, *others.values(), *({"plan": name} for name in {*left["plan"]} - others.keys() - {plan["plan"]})]
    for head in heads:
        own = left[left["plan"] == head["plan"]]
        cells = {*own["cell"]}
        command = newest if head is plan else _given(head, [one for one in records if one.cell in cells])[0]
        entries = left[left["entry"].isin(own["entry"])]
        longer = _with_seeds(command, head, [sorted(seeds) for _, seeds in entries.groupby("entry")["seed"]])
        left = left.drop(index=(entries if longer else own).index)
        if head is plan or (cells and command):
            yield longer or command


def _with_seeds(command: str, plan: Mapping[str, Any], seeds: Sequence[Sequence[int]]) -> str:
    """The command with other seeds than its own, of every configuration; empty where it cannot have them.

    Args:
        command: a plan's command.
        plan: the plan.
        seeds: those of each of its configurations.
    """
    own, words = plan.get("settings", {}).get("seeds"), _words(command)
    whole = range(seeds[0][0], seeds[0][-1] + 1) if seeds else range(0)
    if own is None or any([*whole] != [*one] for one in seeds) or "suite" not in words:
        return ""
    if own == written(whole):
        return command
    if _has("--until", words):  # which adds them
        return ""
    return shlex.join([*_without("--seeds", words), "--seeds", str(written(whole))])


def _as_readers_give_it(command: str, runs: Runs, records: Iterable[Record]) -> str:
    """The command without how it was to talk, settings that its preset names anyway, and the folder of whoever gave it.

    With settings of one's own the folder stays: `tune` writes them into it. What left runs of the plan out for a later
    call, which made them, is not told either.
    """
    words = _words(command)
    kept = _without("--budget", [word for word in words if word not in TALK])
    chosen_runs = [word for option in ("--run", "--cell") for word in _values(option, words)]
    if not all(record.cell.startswith(tuple(chosen_runs)) for record in records):
        kept = _without("--run", _without("--cell", kept))
    shipped = _trials_of_preset(runs.suite, runs.preset.removesuffix("-trials"))
    tuned = (record.identity.tuning or {} for record in records)
    chosen = {str(tuning["trials"]) for tuning in tuned if "trials" in tuning}  # a trial itself has none
    if chosen and chosen <= shipped:
        kept = _without("--settings", kept)
    if not _has("--settings", kept) and (shipped or "tune" not in kept):
        kept = _without("--results", kept)
    return command if kept == words else shlex.join(kept)


def _trials_of_preset(suite: str, preset: str) -> set[str]:
    """The digests of the trials that the settings of a suite's preset were chosen from; empty where it names none.

    It reads the files as they are: the classes that know them import torch.
    """
    files = suite_files()
    try:
        named = tomllib.loads(read_plain(files[suite], named=True)[0].decode())["presets"][preset]["settings"]
        owners = (files[suite], files.get(named.partition(".")[0], files[suite]))
        file = next(file for owner in owners if (file := owner.parent / named).exists())
        content = from_json(read_plain(file, named=True)[0])
        return {str(choice.get("trials") or content["digest"]) for choice in content["choices"]}
    except (LookupError, OSError, ValueError, StopIteration):
        return set()


def _plugins_of(command: str) -> set[str]:
    """The plug-ins that a command line names."""
    return {*_values("--plugin", _words(command))}


def _values(option: str, words: Sequence[str]) -> list[str]:
    """The values of an option of a command line."""
    named = [after for word, after in pairwise(words) if word == option]
    return named + [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]


def _words(command: str) -> list[str]:
    """The words of a command line; none where nobody closed a quotation."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _has(option: str, words: Iterable[str]) -> bool:
    return any(word.partition("=")[0] == option for word in words)


def _without(option: str, words: Sequence[str]) -> list[str]:
    """The words of a command line without an option and its value."""
    pairs = pairwise(["", *words])
    return [word for before, word in pairs if option not in (before, word) and not word.startswith(f"{option}=")]
