"""A record once more: how it was made, what is different now, and its cell run again."""

import difflib
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from routebench.data import load
from routebench.engine.cell import run_cell
from routebench.engine.checksum import unsealed
from routebench.engine.plan import Cell
from routebench.engine.provenance import command_line, plugin_hash, provenance
from routebench.engine.reading import CHANGED, SCHEMA, other_schema, parsed
from routebench.engine.records import is_record
from routebench.engine.session import choose_backend, choose_device
from routebench.engine.setting import Setting, prepare_torch
from routebench.engine.source import fit_code, source_hash
from routebench.engine.store import Store
from routebench.errors import UserError
from routebench.registry import load_plugin, models, protocols, routing
from routebench.registry.plugins import plugin_files, plugins_of_environment

Record = dict[str, Any]
MANY = 10_000
"""Names that a suggestion is looked for among."""
REPLACED = {"--results": 1, "--cell": 1, "--device": 1, "--backend": 1, "--budget": 1, "--dry-run": 0}
"""Options of the recorded command that are given anew or left out, and how many values each has."""
MACHINE = ("processor", "cpu_capability", "gpu", "cuda", "cudnn", "driver", "os")
FLAGS = ("deterministic", "tf32", "matmul_precision", "environment")


def find_record(name: str, results: Path) -> Path:
    """The file of a record.

    Args:
        name: its path, or its cell's key or the beginning of it.
        results: the folder in which keys are looked up.

    Raises:
        UserError: there is none, or several begin like this.
    """
    if Path(name).is_file():
        return Path(name)
    if name.endswith(".json") or "/" in name:
        raise UserError(f"record {name!r}: no such file; give the path of a record, or its cell's key with --results")
    if not (results / "records").is_dir():
        raise UserError(f"expected a results folder, got {str(results)!r}; say with --results where the record lies")
    known = sorted(file.stem for file in (results / "records").glob("*.json"))
    found = [key for key in known if key.startswith(name)]
    if len(found) == 1:
        return results / "records" / f"{found[0]}.json"
    if found:
        some = ", ".join(found[:3])
        raise UserError(
            f"{len(found)} records begin with {name!r}: {some}{', ...' * (len(found) > 3)}; give more of it"
        )
    close = difflib.get_close_matches(name, known[:MANY], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "`routebench status` says what was run there"
    raise UserError(f"no record {name!r} among {len(known)} in {str(results)!r}; {hint}")


def read_record(file: Path) -> Record:
    """A record from its file, which stays where it is also if it is damaged.

    Raises:
        UserError: it holds no record, one of another schema version, or one that is not what was written.
    """
    try:
        text = file.read_bytes()
        content = parsed(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"record {str(file)!r}: expected a record's JSON, got a file that cannot be read") from error
    if isinstance(content, dict) and content.get("schema", SCHEMA) != SCHEMA:
        raise other_schema(file.parent.parent, content["schema"])
    if isinstance(content, dict) and not unsealed(text, content):
        raise UserError(f"record {str(file)!r} {CHANGED}; take it from where it was measured")
    if not isinstance(content, dict) or not is_record(content):
        raise UserError(f"record {str(file)!r}: expected a record's JSON, got JSON of another shape")
    return content


def commands(record: Record, now: Mapping[str, Any]) -> list[str]:
    """What to type to run the record's cell again, with comments where words are needed.

    Args:
        record: as `read_record` gives it.
        now: provenance of this call.
    """
    origin = record["provenance"]
    lines = []
    commit = origin.get("commit", "")
    if not commit:
        lines.append("# the record names no commit: its code was not in a repository")
    elif commit != now["commit"]:
        lines.append(f"git checkout {commit}")
    if origin.get("dirty"):
        lines.append(
            f"# the code differed from the commit (hash of the difference: {origin.get('dirty_hash', '')}): "
            "the commit alone may not give these numbers"
        )
    return [*lines, shlex.join([*_suite_words(record), *_fixed_words(record)])]


def _suite_words(record: Record) -> list[str]:
    """The recorded command without what is given anew; one made from the identity where it ran no suite."""
    words = shlex.split(record["provenance"].get("command", ""))
    if "suite" not in words:
        known = record["identity"]
        return [
            "python",
            "-m",
            "routebench",
            "suite",
            known["suite"],
            "--method",
            record["label"],
            "--data",
            known["data"],
        ]
    kept, skip = [], 0
    for word in words:
        option, equals, _ = word.partition("=")
        if skip:
            skip -= 1
        elif option in REPLACED:
            skip = 0 if equals else REPLACED[option]
        else:
            kept.append(word)
    return [record["identity"]["suite"] if word == "all" else word for word in kept]  # `suite all` ran it among others


def _fixed_words(record: Record) -> list[str]:
    origin = record["provenance"]
    words = ["--device", origin.get("device") or "cpu"]
    words += ["--backend", origin["backend"]] if "backend" in origin else []
    return [*words, "--cell", record["cell"], "--results", "reproduced"]


def load_plugins(record: Record) -> None:
    """Loads the plug-ins that the recorded command names.

    Raises:
        UserError: one is not there, or does not load.
    """
    words = shlex.split(record["provenance"].get("command", ""))
    specs = [value for word, value in pairwise(words) if word == "--plugin"]
    specs += [word.partition("=")[2] for word in words if word.startswith("--plugin=")]
    for spec in specs:
        try:
            plugin_files(spec)
        except UserError:
            raise UserError(
                f"the record's plug-in {spec!r} is not here; call from the folder where its command was given"
            ) from None
        load_plugin(spec)


def differences(record: Record, now: Mapping[str, Any]) -> list[str]:
    """One line for each thing that is not as it was, so that numbers need not agree to the last digit."""
    then = record["provenance"]
    return [
        *_code_differences(record),
        *_plugin_differences(then),
        *_machine_differences(then, now),
        *_version_differences(then, now),
    ]


def _code_differences(record: Record) -> Iterator[str]:
    known = record["identity"]
    method = routing[known["method"]] if known.get("routed", True) else None
    source = source_hash(protocols[known["protocol"]], *fit_code(models[known["model"]], method))
    if source != known.get("source"):
        yield f"code that the numbers come from: {known.get('source')} then, {source} now"
    fingerprint = load(known["data"]).fingerprint
    if fingerprint != known.get("data_fingerprint"):
        yield f"data set {known['data']}: fingerprint {known.get('data_fingerprint')} then, {fingerprint} now"


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
    """What stands in a record of this machine, as far as it can be known without the record's device."""
    device = record["provenance"].get("device") or "cpu"
    return provenance(device if torch.cuda.is_available() else "cpu", command_line())


def prepare(record: Record) -> dict[str, Any]:
    """Sets this process up as the record's was, and returns its provenance.

    Raises:
        UserError: the record's device or back end cannot be used here.
    """
    origin = record["provenance"]
    device = choose_device(origin.get("device") or "cpu")
    backend = choose_backend(origin.get("backend", "auto"), device)
    threads = int(origin.get("threads") or torch.get_num_threads())
    prepare_torch(Setting(device=device, jobs=1, threads=threads, backend=backend))
    return {**provenance(device, command_line()), "backend": backend, "threads": threads, "jobs": 1}


def run_again(record: Record, folder: Path, now: Mapping[str, Any]) -> Record:
    """Trains and measures the record's cell in a results folder of its own.

    Args:
        record: as `read_record` gives it.
        folder: empty; nothing is taken from the folder in which the record lies.
        now: of `prepare`.
    """
    store = Store(folder)
    store.prepare()
    return run_cell(Cell(record["identity"]), store, torch.device(now["device"]), now, lambda _: None)


def arrays_beside(file: Path, cell: str) -> dict[str, Any]:
    """The raw outputs of a record that lies in a results folder; empty if it has none."""
    return Store(file.resolve().parent.parent).arrays(cell) if file.resolve().parent.name == "records" else {}
