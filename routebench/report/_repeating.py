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
    """The command line that repeats the finished runs, and a sentence on what it names beyond them.

    It is the newest plan's, with the seeds of all plans; then those of methods that this plan lacks.

    Args:
        runs: the runs of the part.
        plan: its newest plan.
        records: those of its finished and failed runs.
    """
    newest, besides = _newest(runs, plan, records)
    commands = (_with_all_seeds(newest, runs, plan), *_of_other_methods(runs, str(plan.get("plan", "")), records))
    return " && ".join(dict.fromkeys(_as_readers_give_it(each, runs, records) for each in commands)), besides


def finished(record: Record) -> str:
    """The time at which a run ended; empty where it is unknown."""
    return str(record.provenance.get("finished") or "")


def _newest(runs: Runs, plan: Mapping[str, Any], records: Sequence[Record]) -> tuple[str, str]:
    """The plan's command; if that names a plug-in that failed to import, the newest finished run's.

    Without a recorded command it is the simplest equivalent.
    """
    ok = sorted((record for record in records if record.status == "ok"), key=finished, reverse=True)
    used = {str(spec) for record in ok for spec in record.provenance.get("plugins") or ()}
    told = [plan.get("command"), *(record.provenance.get("command") for record in (*ok, *records))]
    known = [entry if isinstance(entry, str) else shlex.join(map(str, entry)) for entry in told if entry]
    if not known:
        parts = ("python", "-m", "routebench", "suite", runs.suite, "--preset", runs.preset, "--data", runs.data)
        return shlex.join(parts), ""
    if not ok or any("plugins" not in record.provenance for record in ok):
        return known[0], ""  # nobody knows what they came with
    command = next((entry for entry in known if _plugins_of(entry) <= used), known[0])
    unused = sorted(_plugins_of(command) - used)
    if not unused:
        return command, ""
    return command, f"This was the last command given here. No finished run came with {wording.listed(unused)}."


def _with_all_seeds(command: str, runs: Runs, plan: Mapping[str, Any]) -> str:
    """The command with the seeds of all plans whose runs count, where another plan has seeds that this one lacks."""
    planned = sorted({int(seed) for seed in runs.planned["seed"]})
    seeds, own = range(planned[0], planned[-1] + 1), plan.get("settings", {}).get("seeds")
    if own is None or own == written(seeds) or len(planned) < len(seeds) or runs.planned["plan"].nunique() < 2:
        return command
    words = _words(command)
    if "suite" not in words or _has("--until", words):  # which adds them
        return command
    return shlex.join([*_without("--seeds", words), "--seeds", str(written(seeds))])


def _of_other_methods(runs: Runs, newest: str, records: Iterable[Record]) -> Iterator[str]:
    """The commands of methods that the newest plan lacks: plans that name one method each make up one part, too."""
    own = runs.planned.groupby("label")["plan"].agg(set)
    missing = {str(label) for label, plans in own.items() if newest not in plans} if newest else set()
    for record in sorted(records, key=finished, reverse=True):
        if record.label in missing and isinstance(told := record.provenance.get("command"), str):
            missing.remove(record.label)
            yield told


def _as_readers_give_it(command: str, runs: Runs, records: Iterable[Record]) -> str:
    """The command without how it was to talk, settings that its preset names anyway, and the folder of whoever gave it.

    With settings of one's own the folder stays: `tune` writes them into it.
    """
    words = _words(command)
    kept = [word for word in words if word not in TALK]
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
    words = _words(command)
    named = {after for word, after in pairwise(words) if word == "--plugin"}
    return named | {word.removeprefix("--plugin=") for word in words if word.startswith("--plugin=")}


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
