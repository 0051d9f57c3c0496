"""Bad input for every command, every key of a suite's file and every field of a record, made from their declarations.

By hand, all of it: `python -m tests.stress.bad_input`, or every fourth call with `--every 4`. It says how many calls
were tried and how many held: one line, exit code 2, nothing written; or, where a value happens to be good, no error.
"""

import argparse
import contextlib
import inspect
import io
import itertools
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, get_type_hints

import click
import torch

from routebench import cli, kernels
from routebench.commands.options import FAULT
from routebench.engine.results import checksum, files_of
from routebench.engine.suites._primary import Primary
from routebench.engine.suites._suite import Entry, Preset, Suite
from routebench.engine.suites._toml import _key
from routebench.engine.suites._tuning import FairTuning
from routebench.errors import UserError
from routebench.recipe import LEGAL
from routebench.registry import models, protocols, routing
from routebench.routing import hyperparameters_of

PACK = Path(__file__).parents[2] / "reports" / "grouping-quick"
LONGEST = 3_000
"""Characters of a line that somebody may still read."""
VALUES = (
    "true", "-1", "0", "1" + 309 * "0", "0x" + 5_000 * "f", 5_000 * "9", "1e400", "nan", "-inf", '""', '"\\u001b[2J"',
    '"a\\u0000b"', "[]", "[[1], {}]", "[nan, 1]", "{}", "{ a = 1 }", "{ low = 1, high = 0x" + 300 * "f" + " }",
    "2020-01-01", '"' + 9_000 * "a" + '"', 40 * "[" + 40 * "]", "9223372036854775808", "9223372036854775807",
    '["a", "a"]', '"../../etc/passwd"', "{ low = nan, high = 1 }", "[1e309, true]",
    '"take:' + 5_000 * "9" + ':mnist5k"',
)  # fmt: skip
"""Of a key of a suite's file, as TOML."""
WORDS = (
    "", " ", "-1", "0", "nan", "inf", "1e400", "9223372036854775807", 400 * "9", 5_000 * "9", "\x1b[2J",
    "a\nb", 300 * "a", "[", "a[b=1]", "dynamic[sizes=1]", "dynamic[self=1]",
    f"dynamic[iterations=1{309 * '0'}]", f"dynamic[iterations={5_000 * '9'}]",
    f"dynamic[iterations=0x{5_000 * 'f'}]", "dynamic[iterations=10000000000]", "em[final_lambda=nan]",
    "em[final_lambda=[[1], 2]]", f"take:{5_000 * '9'}:mnist5k", f"take:1:take:{5_000 * '9'}:x",
    f"fold:{5_000 * '9'}/{5_000 * '9'}:mnist5k", f"folder:.?size={5_000 * '9'}", "folder:~nobody-is-called-so/x",
    f"{5_000 * '9'}s", f"{400 * '9'}GB", f"cuda:{5_000 * '9'}", "../x", "\u202ex", "\udcff",
)  # fmt: skip
"""Of an argument or an option of a command."""
SUITE = {
    "question": '"Q?"', "version": "1", "protocol": '"accuracy"', "training": {"epochs": "1"},
    "methods": [{"name": '"dynamic"'}], "baselines": [{"name": '"cnn"', "models": {"capsnet-small": '"cnn-small"'}}],
    "presets": {"smoke": {"data": '"mnist5k"', "model": '"capsnet-small"', "iterations": "[1, 2]", "seeds": "1"}},
}  # fmt: skip
"""A good one: tables and lists of TOML values."""
NO_CELL = ("--preset", "smoke", "--dry-run", "--results", "none", "--run", "z")
"""A suite is planned, and then refused: no cell has such a key."""
CALLS = {
    "suite": ("suite", "accuracy", *NO_CELL), "tune": ("tune", "accuracy", "--preset", "smok", "--dry-run"),
    "check": ("check", "dynamc"), "compare": ("compare", "absent", "absent"), "alternate": ("alternate", "a", "a"),
    "features": ("features", "lenet", "mnist6k", "-o", "out.safetensors"),
    "cite": ("cite", "dynamc"), "export": ("export", "absent"), "forget": ("forget", "dynamc", "absent"),
    "migrate": ("migrate", "absent", "-o", "out"),
    "new-method": ("new-method", "a.b"), "publish": ("publish", "absent"), "report": ("report", "absent"),
    "reproduce": ("reproduce", "absent"), "status": ("status", "absent"), "list": ("list", "method"),
    "doctor": ("doctor",), "merge": ("merge", "absent", "absent", "-o", "out"), "rank": ("rank", "dynamc"),
    "submit": ("submit", "absent.py", "-o", "out"), "verify": ("verify", "absent"), "board": ("board", "absent"),
}  # fmt: skip
"""A quick call of every command, nearly all of them wrong."""


class Try(NamedTuple):
    """A call with bad input.

    Args:
        name: what is bad in it.
        words: of the command line.
        file: the name of a file that is there, and its content.
    """

    name: str
    words: tuple[str, ...]
    file: tuple[str, str] = ("my.toml", "")


def toml(value: object) -> str:
    """A table in one line, as inline tables are."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else str(value)


def with_value(content: object, path: tuple[object, ...], value: str) -> object:
    """The content with a value in another place."""
    if not path:
        return value
    first, *rest = path
    if isinstance(content, list):
        return [with_value(one, tuple(rest), value) if at == first else one for at, one in enumerate(content)]
    known = content if isinstance(content, dict) else {}
    return {**known, first: with_value(known.get(first, {}), tuple(rest), value)}


def keys_of(kind: type, *given: str) -> list[str]:
    """The keys of a table of a suite's file."""
    hints = get_type_hints(kind, include_extras=True)
    return [_key(one.name, hints[one.name])[0] for one in fields(kind) if one.name not in given]


def places() -> Iterator[tuple[tuple[object, ...], str]]:
    """Every place of a suite's file, with the protocol under which it is read."""
    tables = {
        (): [*keys_of(Suite, "name", "file", "folder"), "nothing"], ("methods", 0): keys_of(Entry),
        ("baselines", 0): keys_of(Entry), ("presets", "smoke"): keys_of(Preset, "name", "options"),
        ("primary",): keys_of(Primary), ("tuning",): keys_of(FairTuning), ("training",): ["recipe", *LEGAL],
        ("tuning", "training"): [*LEGAL], ("tuning", "model"): ["weight_std"],
        ("presets", "smoke", "model_params"): ["weight_std", "routing", "shape", "classes", "primary_capsules"],
        ("presets", "smoke", "training_of"): ["capsnet-small"], ("methods", 0, "training_of"): ["capsnet-small"],
        ("methods", 0, "models"): ["capsnet-small"], ("tuning", "methods", "dynamic"): ["iterations", "detach"],
    }  # fmt: skip
    for table, keys in tables.items():
        yield from (((*table, key), "accuracy") for key in keys)
    for protocol in protocols:
        options = getattr(protocols[protocol], "options", {})
        yield from ((("presets", "smoke", option), protocol) for option in options)


def suites() -> Iterator[Try]:
    """A suite's file with each bad value at each place."""
    for (path, protocol), value in itertools.product(places(), VALUES):
        told = toml_file(with_value(with_value(SUITE, ("protocol",), f'"{protocol}"'), path, value))
        command = ("tune", "my.toml", *NO_CELL[:-2]) if path[0] == "tuning" else ("suite", "my.toml", *NO_CELL)
        yield Try(f"{protocol} {'.'.join(map(str, path))} = {value:.30}", command, ("my.toml", told))


def toml_file(content: object) -> str:
    """The text of a suite's file."""
    return "".join(f"{key} = {toml(value)}\n" for key, value in content.items()) if isinstance(content, dict) else ""


def hyperparameters() -> Iterator[Try]:
    """Each method and network with each bad value of each argument, those of its constructor's own among them."""
    for method in routing:
        for name in (*hyperparameters_of(method), "sizes", "self"):
            for value in VALUES:
                words = ("suite", "accuracy", *NO_CELL, "--method", f"{method}[{name}={value}]")
                yield Try(f"{method}[{name}={value:.30}]", words)
    for model in models:
        for name in (*inspect.signature(models[model]).parameters, "self"):
            for value in VALUES:
                table = {"data": '"mnist5k"', "model": f'"{model}"', "iterations": "[1]", "seeds": "1"}
                table["model_params"] = {name: value}
                file = toml_file({**SUITE, "presets": {"smoke": table}, "baselines": []})
                yield Try(f"{model}({name}={value:.30})", ("suite", "my.toml", *NO_CELL), ("my.toml", file))


def commands() -> Iterator[Try]:
    """Every command with each bad word for each of its options and arguments."""
    context = click.Context(cli.cli)
    for name in cli.cli.list_commands(context):
        command = cli.cli.get_command(context, name)
        base = CALLS[name]
        for parameter, word in itertools.product(command.params, WORDS):
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield Try(f"{name} {parameter.opts[-1]} {word!r:.40}", (*base, f"{parameter.opts[-1]}={word}"))
        for place, word in itertools.product([at for at in (1, 2) if base[at:][:1] != ("--preset",)], WORDS):
            if len(base) > place and not base[place].startswith("-") and not word.startswith("-"):
                yield Try(f"{name} argument {word!r:.40}", (*base[:place], word, *base[place + 1 :]))


def records() -> Iterator[Try]:
    """A record with each bad value of each field that says where and how it was made; `reproduce` reads it."""
    file = min((files_of(PACK) / "records").glob("*.json"))
    good = json.loads(file.read_text(encoding="utf-8"))
    values = [True, -1, 0, 10**9, 10**30, 1.5, "", "x", ".", "-f", "$(id)\n", [1], {}, {"a": [1]}, None, "a" * 9_000]
    checked = {"threads", "device", "backend"}  # before a run; without a value, it would begin
    for part, value in itertools.product(("provenance", "identity"), values):
        for name in {**good[part], "threads": 1, "backend": "", "jobs": 1}:
            made = {**good, part: {**good[part], name: value}}
            for how in ((), ("--run",)) if part == "provenance" and name in checked and value else ((),):
                text = checksum.sealed(made)
                told = f"record {part}.{name} = {value!r:.30} {' '.join(how)}"
                yield Try(told, ("reproduce", "record.json", *how), ("record.json", text))


KINDS = (suites, hyperparameters, commands, records)


class Ended(NamedTuple):
    """How a call ended: its exit code, what it printed and said, and what it left in its folder."""

    code: object
    printed: str
    told: str
    left: list[str]


def ended(tried: Try, folder: Path) -> Ended:
    """Makes the call in this process, which it leaves as it was."""
    before = {path.name for path in folder.iterdir()}  # what earlier calls wrote whose value happened to be good
    file = folder / tried.file[0]
    file.write_text(tried.file[1], encoding="utf-8", errors="surrogatepass")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    here, words = Path.cwd(), sys.argv
    threads, on_termination = torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
    code: object = "none"
    sys.argv = ["routebench", *tried.words]
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), kernels.using(kernels.wished()):
            cli.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:  # noqa: BLE001  # a call that ends so says nothing of the others
        code = f"{type(error).__name__}: {error}"
    finally:
        os.chdir(here)
        sys.argv = words
        torch.set_num_threads(threads)
        signal.signal(signal.SIGTERM, on_termination)
    file.unlink()
    printed, told = (one.buffer.getvalue().decode(errors="replace") for one in (out, err))
    return Ended(code, printed, told, sorted({path.name for path in folder.iterdir()} - before))


def fault(end: Ended) -> str:
    """What is wrong with how a call ended; empty if nothing is."""
    code, printed, told, left = end
    if code == FAULT or code not in {0, 1, 2, 3, 4} or "Traceback" in printed + told:
        return f"exit code {code}: {told[-600:]}"
    if code != UserError.exit_code:
        return ""
    errors = [one for one in told.splitlines() if not one.startswith("warning: ")]
    if printed or len(errors) != 1 or not errors[0].startswith("Error: "):
        return f"more than one line: {printed[:300]!r} {told[:300]!r}"
    if len(errors[0]) > LONGEST or not errors[0].isprintable():
        return f"a line that nobody can read: {len(errors[0])} characters, {errors[0][:200]!r}"
    return f"left {left}" if left else ""


def sample(every: int, seed: int = 0) -> list[Try]:
    """A share of all calls, those of each kind in equal parts; 1 for all."""
    found = [list(kind()) for kind in KINDS]
    rng = random.Random(seed)
    return [one for calls in found for one in sorted(rng.sample(calls, -(-len(calls) // every)))]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of the names of calls")
    chosen = parser.parse_args()
    held = tries = 0
    for tried in sample(chosen.every, chosen.seed):
        if chosen.only not in tried.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong = fault(ended(tried, Path(folder)))
        tries, held = tries + 1, held + (not wrong)
        if wrong:
            sys.__stdout__.write(f"{tried.name}: {wrong}\n")
    sys.stdout.write(f"{tries} calls tried, {held} held\n")


if __name__ == "__main__":
    main()
