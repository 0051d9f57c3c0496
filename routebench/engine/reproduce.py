"""Reproduces a record: prints its command and what differs now, and executes its run again."""

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from routebench.data import load, loader_of
from routebench.data_names import items_of
from routebench.engine.isolation import Ended, alone, import_plugin
from routebench.engine.origin import command_line, plugin_hash, provenance
from routebench.engine.results import (
    CHANGED,
    RECORD,
    SCHEMA,
    Identity,
    Record,
    Store,
    expect_key,
    files_of,
    other_schema,
    parsed,
    unsealed,
)
from routebench.engine.running import (
    Listener,
    Queue,
    RunConfig,
    choose_backend,
    choose_device,
    prepare_torch,
    run_cells,
)
from routebench.engine.suites import Cell, NamedParts, cell_of, code_behind, expect_name, parts_of
from routebench.errors import UserError
from routebench.options import MOST_THREADS
from routebench.received import from_json, permitted, read_plain
from routebench.registry import (
    Registry,
    datasets,
    plugin_files,
    plugins_of_environment,
    suite_files,
)

PROGRAM = ("python", "-m", "routebench")
MANY = 10_000
"""Largest number of names searched for a suggestion."""
REPLACED = {
    "--results": 1, "--run": 1, "--cell": 1, "--device": 1, "--backend": 1, "--budget": 1, "--dry-run": 0,
    "--beside": 1, "--write": 1, "--output": 1, "-o": 1,
}  # fmt: skip
"""Options of the recorded command that are replaced or left out, with their number of values."""
SETTINGS, PLUGIN = "--settings", "--plugin"
"""Options whose values are files."""
UNTIL = "--until"
"""The option that adds seeds, which no call for one run does."""
MACHINE = ("processor", "cpu_capability", "gpu", "cuda", "cudnn", "driver", "os")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
FLAGS = ("deterministic", "tf32", "matmul_precision", "environment")


def find_record(name: str, results: Path) -> Path:
    """Finds the file of a record.

    Args:
        name: its path, or its run's key or a prefix of it.
        results: the folder to look keys up in.

    Raises:
        UserError: there is none, or several have this prefix.
    """
    if permitted(Path(name)).is_file():
        return Path(name)
    if name.endswith(".json") or "/" in name:
        raise UserError(f"record {name!r}: no such file; give the path of a record, or its run's key with --results")
    records = files_of(results) / "records"
    if not records.is_dir():
        raise UserError(f"expected a results folder, got {str(results)!r}; say with --results where the record lies")
    known = sorted(file.stem for file in records.glob("*.json"))
    found = [key for key in known if key.startswith(name)]
    if len(found) == 1:
        return records / f"{found[0]}.json"
    if found:
        some = ", ".join(found[:3])
        raise UserError(
            f"{len(found)} records begin with {name!r}: {some}{', ...' * (len(found) > 3)}; give more of it"
        )
    close = difflib.get_close_matches(name, known[:MANY], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "`routebench status` says what was run there"
    raise UserError(f"no record {name!r} among {len(known)} in {str(results)!r}; {hint}")


def read_record(file: Path) -> Record:
    """Reads a record from its file; a damaged file stays in place.

    Raises:
        UserError: it holds no record, one of another schema version, or one that changed since it was written.
    """
    try:
        text, _ = read_plain(permitted(file), named=True)
        content = parsed(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"record {str(file)!r}: expected a record's JSON, got a file that cannot be read") from error
    if isinstance(content, dict) and content.get("schema", SCHEMA) != SCHEMA:
        raise other_schema(file.parent.parent, content["schema"])
    if isinstance(content, dict) and not unsealed(text, content):
        raise UserError(f"record {str(file)!r} {CHANGED}; take it from where it was measured")
    if not RECORD(content):
        raise UserError(f"record {str(file)!r}: expected a record's JSON, got JSON of another shape")
    return Record.read(content)


def commands(record: Record, now: Mapping[str, Any], folders: Iterable[Path] = ()) -> list[str]:
    """Lines to type that execute the record's run again, with comments, which also say what cannot run as it stands.

    Args:
        record: as `read_record` gives it.
        now: provenance of this call.
        folders: where settings may lie: records hold the last part of their path, or all below the folder of the call.

    Raises:
        UserError: the recorded command has control characters.
    """
    origin = record.provenance
    lines = []
    commit = str(origin.get("commit", ""))
    if not commit:
        lines.append("# the record names no commit: its code was not in a repository")
    elif not _COMMIT.fullmatch(commit):  # `git checkout .` would throw away what is not committed
        lines.append(
            comment(f"expected a commit of hexadecimal digits in the record, got {commit!r:.80}: check out none")
        )
    elif commit != now["commit"]:
        lines.append(shlex.join(["git", "checkout", commit]))
    if origin.get("dirty"):
        lines.append(
            comment(
                f"the code differed from the commit (hash of the difference: {origin.get('dirty_hash', '')}): "
                "the commit alone may not give these numbers"
            )
        )
    own = _placed(_suite_words(record), folders)
    lines += map(comment, _to_replace(record, own))
    words = [*own, *_fixed_words(record, record.cell if commit == now["commit"] else _key_then(record))]
    if not all(map(str.isprintable, words)):
        raise UserError(f"record {record.cell}: expected a command that can be typed, got control characters in it")
    return [*lines, shlex.join(words)]


def comment(text: str) -> str:
    """A shell comment, escaped whatever the record holds."""
    return "# " + "".join(letter if letter.isprintable() else " " for letter in text)


def _suite_words(record: Record) -> list[str]:
    """The recorded command without replaced options; built from the identity if it called no suite."""
    known, words = record.identity, _recorded_words(record)
    few = known.seed < MANY  # code of earlier commits knows no other form
    own = ["--seeds", str(known.seed + 1) if few else f"{known.seed}..{known.seed}"]
    plugins = [word for spec in _unwritten_plugins(record) for word in (PLUGIN, spec)]
    verb = _verb(record)
    if verb not in words:
        seeds = [] if known.is_trial else own
        return [*PROGRAM, verb, known.suite, "--method", record.label, "--data", known.data, *seeds, *plugins]
    replaced, kept, skip = REPLACED, list[str](), 0
    if any(word.partition("=")[0] == UNTIL for word in words):  # the seed may be a further one
        replaced = {**REPLACED, UNTIL: 1, "--seeds": 1}
    for word in words[words.index(verb) :]:
        option, equals, _ = word.partition("=")
        if skip:
            skip -= 1
        elif option in replaced:
            skip = 0 if equals else replaced[option]
        else:
            kept.append(word)
    kept = [known.suite if word == "all" else word for word in kept]  # it may be one of `all`
    return [*PROGRAM, *kept, *(own if replaced is not REPLACED else ()), *plugins]


def _verb(record: Record) -> str:
    return "tune" if record.identity.is_trial else "suite"


def _recorded_words(record: Record) -> list[str]:
    """The command that made a record, if it can be parsed; values of `--plugin` and `--settings` are words."""
    try:
        words = shlex.split(str(record.provenance.get("command", "")))
    except ValueError:  # a quotation without an end
        return []
    parts = (word.partition("=") for word in words)
    apart = ((option, value) if option in (SETTINGS, PLUGIN) and equals else (option + equals + value,)
             for option, equals, value in parts)  # fmt: skip
    return [one for words in apart for one in words]


def _placed(words: Sequence[str], folders: Iterable[Path]) -> list[str]:
    """A command with its settings where they lie."""
    found = [*words]
    for place, (option, value) in enumerate(pairwise(words), start=1):
        if option == SETTINGS and not Path(value).is_file():
            here = (folder / Path(value).name for folder in folders)
            found[place] = next((str(file) for file in here if file.is_file()), value)
    return found


def _to_replace(record: Record, words: Sequence[str]) -> Iterator[str]:
    """A line for each thing that keeps a command from running here, or from running this one alone."""
    named = [*pairwise(words)]
    if _verb(record) not in _recorded_words(record):
        yield "the record's own command is of another kind: add the preset and the settings that it had"
    suites = [word for option, word in named if word.endswith(".toml") and option != PLUGIN]
    brought = any(Path(value).is_dir() for option, value in named if option == PLUGIN)  # which may bring suites
    if not suites and not brought and record.identity.suite not in suite_files():
        yield f"suite {record.identity.suite!r} does not ship: write its file in place of its name, or add --plugin"
    files = [value for option, value in named if option == SETTINGS]
    absent = [file for file in (*suites, *files) if not Path(file).is_file()]
    absent += [value for option, value in named if option == PLUGIN and not _is_here(value)]
    for file in absent:
        yield f"no {file!r} is here: write its path, or call from the folder where the record's command was given"
    if record.identity.is_trial:
        yield f"makes all trials; `python -m routebench reproduce {record.cell} --run`, with --results, this one alone"


def _is_here(spec: str) -> bool:
    try:
        return bool(plugin_files(spec)) or Path(spec).is_dir()
    except UserError:
        return False


def _written_plugins(record: Record) -> list[str]:
    return [value for word, value in pairwise(_recorded_words(record)) if word == PLUGIN]


def _unwritten_plugins(record: Record) -> list[str]:
    """The plug-ins of ROUTEBENCH_PLUGINS, which a record names by their files alone, if it needs others than it says.

    What this variable names now has its path.
    """
    known, written = record.identity, _written_plugins(record)
    if all(name in names for _, names, name in _looked_up(known)) and (
        known.suite in suite_files() or any(word.endswith(".toml") for word in _recorded_words(record))
    ):
        return []
    here = {Path(spec).name: spec for spec in plugins_of_environment()}
    names = [name for name in record.provenance.get("plugins", {}) if name.isprintable()]
    return [here.get(name, name) for name in names if name not in written]


def _looked_up(known: Identity) -> list[tuple[str, Registry, str]]:
    return [*parts_of(known), ("data", datasets, loader_of(items_of(known.data)[0])[0])]


def _key_then(record: Record) -> str:
    """The run's key for the code that made the record, which may be of an earlier schema."""
    try:
        before = from_json(str(record.others.get("earlier", "")))["cell"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return record.cell
    return expect_key(before)


def _fixed_words(record: Record, key: str) -> list[str]:
    origin = record.provenance
    words = ["--device", str(origin.get("device") or "cpu")]
    if record.identity.is_trial:
        return [*words, "--results", "reproduced"]
    words += ["--backend", str(origin["backend"])] if "backend" in origin else []
    return [*words, "--run", key, "--results", "reproduced"]


def named_plugins(record: Record) -> tuple[str, ...]:
    """The plug-ins that the environment and the recorded command name, without importing them.

    Raises:
        UserError: one is not there.
    """
    specs = [*_written_plugins(record), *_unwritten_plugins(record)]
    for spec in specs:
        try:
            plugin_files(spec)
        except UserError:
            raise UserError(
                f"the record's plug-in {spec!r} is not here; call from the folder where its command was given, or name "
                "its path in ROUTEBENCH_PLUGINS"
            ) from None
    return tuple(dict.fromkeys([*plugins_of_environment(), *specs]))


def with_plugins(record: Record, now: Mapping[str, Any]) -> tuple[list[str], Cell]:
    """Finds what differs now, and the run to execute; another process imports the plug-ins.

    Args:
        record: as `read_record` gives it.
        now: the provenance that `prepare` gives.

    Raises:
        UserError: one is not there, does not import, or ended that process.
    """
    plugins = named_plugins(record)
    if not plugins:
        return _look_with(record, now, ())
    try:
        told, cell = alone(_look_with, record, now, plugins)
    except Ended as end:
        raise UserError(f"{' '.join(end.during or ('the record',))}: expected it to import, but it {end}") from end
    return told, replace(cell, identity=record.identity)  # which no plug-in changes


def _look_with(record: Record, now: Mapping[str, Any], plugins: Sequence[str]) -> tuple[list[str], Cell]:
    for plugin in plugins:
        import_plugin(plugin)
    return differences(record, now), cell_of(record.identity)


def differences(record: Record, now: Mapping[str, Any]) -> list[str]:
    """One line for each difference that may change numbers.

    Args:
        record: as `read_record` gives it.
        now: the provenance that `look` or `prepare` gives.
    """
    then = record.provenance
    return [
        *_code_differences(record),
        *_plugin_differences(then),
        *_machine_differences(then, now),
        *_version_differences(then, now),
    ]


def _code_differences(record: Record) -> Iterator[str]:
    known = record.identity
    absent = [f"{part} {name!r}" for part, names, name in _looked_up(known) if name not in names]
    if absent:
        yield f"not compared, because no plug-in is imported without --run: {', '.join(absent)}"
        return
    here = NamedParts.of(known)
    yield from _changes("version of the", known.versions or {}, here.versions(), otherwise=1)
    yield from _changes("hash of the", {"plug-in's code": known.source}, {"plug-in's code": here.source()})
    if record.provenance.get("code"):
        yield from _changes(
            "hash of",
            {"routebench's code": record.provenance["code"]},
            {"routebench's code": code_behind(known).shipped},
        )
    expect_name(known.data)
    fingerprint = load(known.data).fingerprint
    if fingerprint != known.data_fingerprint:
        yield f"data set {known.data}: fingerprint {known.data_fingerprint} then, {fingerprint} now"


def _changes(what: str, then: Mapping[str, Any], now: Mapping[str, Any], otherwise: Any = None) -> Iterator[str]:
    for name in {**then, **now}:
        before, after = (one.get(name) or otherwise or "none" for one in (then, now))
        if before != after:
            yield f"{what} {name}: {before} then, {after} now"


def _plugin_differences(then: Mapping[str, Any]) -> Iterator[str]:
    here = {Path(spec).name: spec for spec in plugins_of_environment()}
    for named, hashed in then.get("plugins", {}).items():
        try:
            found = plugin_hash(here.get(named, named))
        except UserError:
            found = "none"
        if found != hashed:
            yield f"plug-in {named}: {hashed or 'unknown'} then, {found} now"


def _machine_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in (*MACHINE, *FLAGS):
        if key in then and then[key] != now.get(key):
            yield f"{key}: {then[key] or 'none'} then, {now.get(key) or 'none'} now"


def _version_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, version in then.get("versions", {}).items():
        found = now["versions"].get(name, "none")
        if found != version:
            yield f"{name}: {version} then, {found} now"


def look(record: Record) -> dict[str, Any]:
    """Provenance of this machine, without the record's device."""
    device = record.provenance.get("device") or "cpu"
    return provenance(device if torch.cuda.is_available() else "cpu", command_line())


def prepare(record: Record) -> dict[str, Any]:
    """Configures this process as the record's, and returns its provenance.

    Raises:
        UserError: the record's device, back end or number of threads cannot be used here.
    """
    origin = record.provenance
    device = choose_device(origin.get("device") or "cpu")
    backend = choose_backend(origin.get("backend", "auto"), device)
    threads = origin.get("threads") or torch.get_num_threads()
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise UserError(f"record {record.cell}: expected threads from 1 to {MOST_THREADS}, got {threads!r:.80}")
    prepare_torch(RunConfig(device=device, jobs=1, threads=threads, backend=backend))
    return {**provenance(device, command_line()), "backend": backend, "threads": threads, "jobs": 1}


def run_again(cell: Cell, folder: Path, now: Mapping[str, Any]) -> Record:
    """Trains and measures a record's run in an empty results folder; with plug-ins, in its own process.

    Args:
        cell: as `with_plugins` gives it.
        folder: an empty folder, so that nothing of the record's folder is reused.
        now: the provenance that `prepare` gives.
    """
    store = Store(folder)
    store.prepare()
    config = RunConfig(now["device"], 1, now["threads"], origin=now, backend=now["backend"], isolate=bool(cell.plugins))
    (made,) = run_cells(Queue([cell]), store, config, Listener())
    return made


def arrays_beside(file: Path, cell: str) -> dict[str, Any]:
    """The raw outputs of a record in a results folder; empty if it has none. Damage is logged as a warning.

    Args:
        file: the record's file.
        cell: the key of its run.
    """
    if file.resolve().parent.name != "records":
        return {}
    store = Store(file.resolve().parent.parent)
    found = store.arrays(cell)
    store.tell()
    return found
