"""The code and the options behind rounds, kept in a file beside them, so that they are judged as nothing else.

The code counts, not its place: a worktree that was moved is the same side.
"""

import json
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from routebench import atomic
from routebench.analysis.wording import listed, plural
from routebench.engine.origin import commit_of, files_behind, files_hash
from routebench.engine.results import NOT_RUN, Store, digest
from routebench.errors import UserError, shown
from routebench.options import SuiteOptions, surroundings
from routebench.received import from_json, permitted, read_plain
from routebench.registry import layout_of, plugins_of_environment

KEPT = "rounds.json"
SIDES = "base", "head"
CODE = (".py", ".cpp", ".cu", ".toml", ".json")
SPOKEN = {"--json", "--quiet", "--verbose", "-q", "-v"}
"""Options that change what is printed alone."""


@dataclass(frozen=True)
class RoundSide:
    """The code that BASE or HEAD runs.

    Args:
        code: a hash of all its files.
        commit: its commit in git; empty without one.
        path: where it lay.
    """

    code: str
    commit: str = field(compare=False)
    path: str = field(compare=False)

    def __str__(self) -> str:
        return f"{f'commit {self.commit:.12} in ' if self.commit else ''}{shown(self.path)!r} (code {self.code})"


@dataclass(frozen=True)
class RoundsOrigin:
    """The code and the options that rounds are measured with.

    Args:
        suite, preset: what is measured.
        file: a hash of the suite's own file; empty for a suite of either side.
        options: those of `suite`, and the environment variables that stand for some.
        base, head: the code of either side.
    """

    suite: str
    preset: str
    file: str
    options: str
    base: RoundSide
    head: RoundSide

    def changes(self, now: "RoundsOrigin", sides: Collection[str] = SIDES) -> Iterator[str]:
        """Tells what differs now; of the sides, only of those that are named."""
        told = {"suite": "the suite", "preset": "the preset", "file": "the suite's file", "options": "the options"}
        for name, words in (told | {side: side.upper() for side in sides}).items():
            before, after = getattr(self, name), getattr(now, name)
            if before != after:
                yield f"{words}: the rounds there are of {before or 'none'}, got {after or 'none'}"


def origin_of_rounds(suite: str, preset: str, options: Sequence[str], base: RoundSide, head: RoundSide) -> RoundsOrigin:
    """The origin that rounds would have now.

    Args:
        suite: its name, or FILE.toml.
        preset: its name.
        options: those of `suite`, as typed.
        base, head: the results of `side_of`.
    """
    around = surroundings(SuiteOptions)
    words = [f"{name}={value}" for name, value in sorted(around.items()) if name != "ROUTEBENCH_RESULTS"]
    return RoundsOrigin(
        Path(suite).stem,
        preset,
        files_hash(_with_settings(Path(suite)), Path(suite).parent) if suite.endswith(".toml") else "",
        shlex.join([*words, *(word for word in _words(options) if word not in SPOKEN)]),
        base,
        head,
    )


def side_of(folder: Path, package: Path, plugins: Sequence[str], options: Sequence[str]) -> RoundSide:
    """The code of a side as it is now.

    Args:
        folder: where it is measured.
        package: the folder that has its `routebench`.
        plugins: those in the folder.
        options: those of `suite`, which may name plug-ins and other files.
    """
    words = _words(options)
    named = [word for option, word in pairwise(words) if option == "--plugin"]
    behind = [_files_of(str(folder / spec)) for spec in (*plugins, *plugins_of_environment(), *named)]
    asked = [folder / word for word in words if os.path.isfile(folder / word)]  # noqa: PTH113  # it may be too long
    shipped = [file for part in ("routebench", "suites") for file in (package / part).rglob("*") if file.suffix in CODE]
    parts = [files_hash(shipped, package), *(files_hash(files, files[0].parent) for files in behind if files)]
    parts += [files_hash(asked, folder)] if asked else []
    first = behind[0][0] if plugins and behind[0] else package / "routebench" / "__init__.py"
    return RoundSide(parts[0] if len(parts) == 1 else digest({"parts": parts}), commit_of(first), str(folder))


def _words(options: Sequence[str]) -> list[str]:
    """Options as typed, each value a word of its own."""
    return [part for word in options for part in (word.split("=", 1) if word.startswith("--") else [word])]


def _files_of(spec: str) -> list[Path]:
    """The files of a plug-in, and those that it imports; none where there is no such plug-in, as its suite tells."""
    try:
        found = layout_of(spec)
        behind = files_behind(file for file in found if file.suffix == ".py")
    except UserError:
        return []
    except (OSError, SyntaxError, ValueError):
        behind = set()
    beside = {one for file in found if file.suffix == ".toml" for one in _with_settings(file)}
    return [*found, *sorted(behind | beside)]


def _with_settings(suite: Path) -> list[Path]:
    """A suite's file, and the files of settings beside it that it names."""
    try:
        text = read_plain(suite, named=True)[0].decode(errors="replace")
    except OSError:
        return [suite]
    return [suite, *(file for file in sorted(suite.parent.glob("*.json")) if file.name in text)]


def keep_origin(results: Path, now: RoundsOrigin) -> None:
    """Keeps beside rounds what they are measured from, or checks that it is what they were measured from.

    Args:
        results: the folder of DIR/base and DIR/head.
        now: what they would be measured from.

    Raises:
        UserError: rounds that are there were measured from something else, or nothing says from what.
    """
    file = results / KEPT
    known = _kept(file)
    if known == now:
        return
    begun = _begun(results, known) if known else {}
    way = f"measure with what they were measured with, or name another folder than {shown(results)!r} with --results"
    if begun and known and (told := [*known.changes(now, [*begun])]):
        raise UserError(f"{shown(file)!r}: {told[0]}; {way}")
    if not begun and (begun := _begun(results, now)):
        runs = listed([f"{plural(count, 'run')} of {side}" for side, count in begun.items()])
        raise UserError(f"{shown(file)!r}: expected the code behind {runs}, got no such file; {way}")
    atomic.expect_place(results, "rounds", "--results", folder=True)
    with atomic.told_when_full(results), atomic.made_folder(results):
        atomic.write_text(file, json.dumps(asdict(now), indent=1) + "\n")


def _begun(results: Path, origin: RoundsOrigin) -> dict[str, int]:
    """The number of runs that each side has of a suite and preset; no side without any."""
    found = {}
    for side in SIDES:
        if (results / side).is_dir():
            table = Store(results / side).planned()
            own = (table["suite"] == origin.suite) & (table["preset"] == origin.preset)
            found[side] = int((own & (table["status"] != NOT_RUN)).sum())
    return {side: count for side, count in found.items() if count}


def _kept(file: Path) -> RoundsOrigin | None:
    """Reads the origin from a file; None without a file."""
    try:
        content = from_json(read_plain(permitted(file))[0])
        base, head = (RoundSide(**content.pop(side)) for side in SIDES)
        return RoundsOrigin(**content, base=base, head=head)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{shown(file)!r}: expected what `alternate` wrote of the rounds beside it, got something else; name "
            "another folder with --results"
        ) from error
