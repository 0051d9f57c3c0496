"""`routebench alternate`: two checkouts, or versions of a plug-in, measured in turn, round by round, and compared."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from annotated_types import Ge

import routebench
from routebench.atomic import expect_place
from routebench.commands.options import NOTHING_MEASURED, SOME_FAILED, known, warn, whole
from routebench.errors import UserError
from routebench.registry import plugin_files
from routebench.terminal import answer, note, tell

if TYPE_CHECKING:
    from routebench.comparing import RoundSide

SIDES = "base", "head"
BEFORE, PARTLY = "name it before --", "with it no round is whole"
REFUSED = {
    "--seeds": "--rounds says how many there are",
    **dict.fromkeys(("--preset", "--results", "--suite"), BEFORE),
    **dict.fromkeys(("--dry-run", "--help", "-h", "--run", "--cell", "--until"), PARTLY),
    "--beside": "BASE and HEAD are compared with each other alone",
}
"""Options of `suite` that no round can have, and why."""
TAIL = 2_000
"""Characters of what a suite says that fails."""

EPILOG = """BASE and HEAD are folders with the code of routebench, such as two git worktrees. Each runs with the Python
of its own .venv, where it has one. Or they hold two versions of a plug-in, which --plugin names by its path in both; or
they are its two files. This routebench and its Python then measure both.

What follows -- goes to the suite, such as -- --threads 1 --method dynamic.

The same command with more rounds adds the missing ones; DIR/rounds.json keeps what they were measured from, and other
code or options are refused. With --gate the exit code is that of `compare --gate`."""


@click.command(epilog=EPILOG)
@click.argument("base", type=click.Path(exists=True, resolve_path=True, path_type=Path))
@click.argument("head", type=click.Path(exists=True, resolve_path=True, path_type=Path))
@click.argument("options", nargs=-1, metavar="[-- OPTIONS OF SUITE]")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py[:Name]|FOLDER",
    help="Plug-in of which BASE and HEAD hold a version each, by its path in both folders (repeatable).",
)
@click.option(
    "--suite",
    default="cost",
    show_default=True,
    shell_complete=known("suites"),
    help="What is measured: a suite's name or FILE.toml.",
)
@click.option("--preset", default="smoke", show_default=True, shell_complete=known("presets"), help="Size of a turn.")
@click.option("--rounds", type=whole(Ge(2)), default=8, show_default=True, help="Rounds in total.")
@click.option(
    "--results",
    type=click.Path(resolve_path=True, path_type=Path),
    default=Path("rounds"),
    show_default=True,
    metavar="DIR",
    help="Folder for DIR/base and DIR/head.",
)
@click.option("--gate", is_flag=True, help="Say by the exit code whether HEAD is worse.")
def command(  # noqa: PLR0917  # click passes them by name
    base: Path,
    head: Path,
    options: tuple[str, ...],
    plugins: tuple[str, ...],
    suite: str,
    preset: str,
    rounds: int,
    results: Path,
    gate: bool,
) -> None:
    """Compare two checkouts, or two versions of a plug-in, in speed and memory.

    They are measured in turn, so drift of the machine does not count. Each round is a process of BASE and
    one of HEAD, which measure the suite with one more seed.
    """
    from routebench.comparing import as_plain, as_text, keep_origin, origin_of_rounds
    from routebench.interface import compare

    sides = [_side(given, plugins) for given in (base, head)]
    if suite.endswith(".toml"):
        suite = os.path.realpath(suite)  # each side runs in its own folder
    _expect_of_a_round(options)
    expect_place(results, "the rounds", "--results", folder=True)

    def check() -> None:
        keep_origin(results, origin_of_rounds(suite, preset, options, *(_now(*side, options) for side in sides)))

    check()
    known = min(rounds_in(results / side, Path(suite).stem, preset) for side in SIDES)
    for number in range(known, rounds):
        for side, (code, own) in zip(SIDES, sides, strict=True):
            note(f"round {number + 1} of {rounds}: {side}", err=True)
            call = ["suite", suite, "--preset", preset, "--seeds", str(number + 1), "--results", str(results / side)]
            measure(code, [*call, *(f"--plugin={plugin}" for plugin in own), *options])
            check()  # the code may be edited meanwhile
    found = compare(results / SIDES[0], results / SIDES[1])
    tell(as_text(found).removesuffix("\n"))
    answer(lambda: as_plain(found))
    if gate:
        sys.exit(found.exit_code)


def _side(given: Path, plugins: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
    """The folder that BASE or HEAD is measured in, and the plug-ins in it.

    Raises:
        UserError: it holds neither the code of routebench nor a plug-in that is named, or one lies elsewhere.
    """
    code, own = (given.parent, (given.name, *plugins)) if given.is_file() else (given, plugins)
    if not own and not is_checkout(code):
        raise UserError(
            f"expected a folder with the code of routebench, got {str(code)!r}, which has no routebench/; a plug-in in "
            "it is named with --plugin FILE.py"
        )
    for plugin in own:
        if Path(plugin).is_absolute():
            raise UserError(f"--plugin: expected a path in BASE and in HEAD, such as my_idea.py, got {plugin!r}")
        plugin_files(str(code / plugin))
    return code, own


def _expect_of_a_round(options: Sequence[str]) -> None:
    """Checks the options behind --.

    Raises:
        UserError: no round can have one.
    """
    for name in (word.partition("=")[0] for word in options):
        if name in REFUSED:
            raise UserError(f"{name} behind --: {REFUSED[name]}; leave it out there")


def _now(code: Path, own: Sequence[str], options: Sequence[str]) -> "RoundSide":
    """The code of a side as it is now."""
    from routebench.comparing import side_of

    return side_of(code, code if is_checkout(code) else Path(routebench.__file__).resolve().parents[1], own, options)


def is_checkout(folder: Path) -> bool:
    """Tells whether a folder holds the code of routebench."""
    return (folder / "routebench" / "__main__.py").is_file()


def rounds_in(folder: Path, suite: str, preset: str) -> int:
    """The number of seeds that a suite finished in a results folder."""
    from routebench.engine.results import NOT_RUN, Store

    if not folder.is_dir():
        return 0
    store = Store(folder)
    table = store.planned()
    warn(store)
    own = table[(table["suite"] == suite) & (table["preset"] == preset)]
    if own.empty:
        return 0
    missing = own.loc[own["status"] == NOT_RUN, "seed"]
    return int(missing.min() if len(missing) else own["seed"].max() + 1)


def measure(code: Path, call: list[str]) -> None:
    """Runs a command of a checkout to its end, or one of this routebench in a folder with a plug-in.

    The comparison tells of runs that fail. If this process is killed, so is the command: it would measure on beside the
    next call.

    Raises:
        UserError: it could not be run.
    """
    from routebench.engine.isolation import die_with_starter

    python, path = sys.executable, str(Path(routebench.__file__).resolve().parents[1])
    if is_checkout(code):
        own, path = code / ".venv" / "bin" / "python", str(code)
        python = str(own) if own.exists() else python
    elif path == sysconfig.get_path("purelib"):
        path = ""  # it is installed, and on the path
    paths = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [python, "-m", "routebench", *call],
        cwd=code,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=die_with_starter,  # this command has one thread
    )
    if done.returncode not in (0, SOME_FAILED, NOTHING_MEASURED):
        raise UserError(
            f"{str(code)!r}: `python -m routebench {' '.join(call)}` ended with exit code {done.returncode}: "
            f"{(done.stderr or done.stdout)[-TAIL:]}"
        )
