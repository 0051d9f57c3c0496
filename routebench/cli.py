"""The command line. Nothing heavy is imported before it is needed: help and listings answer at once."""

import importlib
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from routebench import commands, terminal
from routebench.commands.options import FAULT, INTERRUPTED, SPEECH, TERMINATED
from routebench.errors import UserError, nearest, printable, refusal, show_calls

LONGEST = 1_200
"""Characters of an error that are printed, from both ends: a file or a call may hold any number of them."""


class Terminated(KeyboardInterrupt):
    """The system, or another program, asked this process to end."""


FORMER = {"--cell": "--run", "--gpus-per-cell": "--gpus-per-run"}
"""Options by their former names."""
RENAMED_IN = "suite"
"""The command that has them."""


class Commands(click.Group):
    """The files of `routebench/commands`; a mistyped name is answered with the nearest one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in alphabetical order."""
        modules = (module.name for module in pkgutil.iter_modules(commands.__path__))
        return sorted(name.replace("_", "-") for name in modules if name != "options")

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of a file, which is imported now."""
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"{commands.__name__}.{name.replace('-', '_')}").command
        command.name = name
        command.params += [option for option in SPEECH if option not in command.params]
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that was typed, as click finds it; the error has a suggestion."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise click.UsageError(f"no such command {args[0]!r}{nearest(args[0], known)}", ctx)
        end = args.index("--") if "--" in args else len(args)
        words = [_as_now(word) for word in args[:end]] if args[:1] == [RENAMED_IN] else args[:end]
        name, command, rest = super().resolve_command(ctx, words + args[end:])
        if command is not None and not ctx.resilient_parsing:  # a shell completes what is typed so far
            _expect_once(click.Context(command, ctx, name), rest)
        return name, command, rest


def _expect_once(ctx: click.Context, words: Sequence[str]) -> None:
    """Raises UsageError for an option that is typed twice and takes one value: click would take the last in silence."""
    given = ctx.command.make_parser(ctx).parse_args([*words])[2]
    for option in (one for one in given if isinstance(one, click.Option) and given.count(one) > 1):
        if not option.multiple and (not option.is_flag or option.secondary_opts):
            names = " or ".join([option.opts[-1], *option.secondary_opts])
            raise click.UsageError(f"expected {names} once, got it {given.count(option)} times; keep one", ctx)


def _as_now(word: str) -> str:
    """A word of the command line, with an option's name of today in place of its former one, which is told."""
    option, equals, value = word.partition("=")
    if option not in FORMER:
        return word
    click.echo(f"warning: {option} is {FORMER[option]} now; the old name is taken until the next release", err=True)
    return f"{FORMER[option]}{equals}{value}"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="routebench")
def cli() -> None:
    """Compare capsule-network routing methods on the same networks, data and splits, beside baselines.

    Start with `routebench suite accuracy`.

    Exit codes: 0 done; 1 the gate found a regression, or the check a fault; 2 the call was wrong; 3 some runs have
    no result, the others are kept; 4 nothing was measured; 70 routebench itself failed, please report it; 130
    interrupted, 143 terminated: the same command goes on.
    """


cli.params += SPEECH


def main() -> NoReturn:
    """Runs the command line; every error of the user's is one line and an exit code other than 0."""
    terminal.prepare()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # as batch systems send it before they kill
        signal.signal(signal.SIGTERM, _end)
    try:
        _expect_folder()
        cli.main(standalone_mode=False, prog_name=_called_as())
    except UserError as error:
        show_calls(error)
        _fail(str(error), error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)  # the help, in its lines
        sys.exit(UserError.exit_code)
    except click.NoSuchOption as error:
        _fail(_way_to(error) or error.format_message())
    except click.UsageError as error:
        _fail(error.format_message())
    except click.ClickException as error:
        _fail(error.format_message())
    except OSError as error:  # of a path, a disk or a device that nothing nearer expected
        _drop_output()
        _fail(refusal(error))
    except (click.Abort, KeyboardInterrupt) as error:
        terminated = isinstance(error, Terminated) or isinstance(error.__cause__, Terminated)
        told = "terminated" if terminated else "interrupted"
        click.echo(f"{told}; run the same command again: what is finished is kept", err=True)
        sys.exit(TERMINATED if terminated else INTERRUPTED)
    except Exception:  # noqa: BLE001  # else Python ends with 1, which says that something got worse
        traceback.print_exc()
        click.echo("routebench itself failed; please report it, with the output of `routebench doctor`", err=True)
        sys.exit(FAULT)
    sys.exit(0)


def _expect_folder() -> None:
    """Raises UserError in a folder that was removed: no relative path leads anywhere, and libraries end the process."""
    try:
        os.getcwd()  # noqa: PTH109  # of the process, before anything is imported
    except OSError as error:
        raise UserError("the folder that you are in is not there any more; change to another one") from error


def _called_as() -> str:
    """The program's name as the user typed it, for help and errors."""
    return "routebench" if Path(sys.argv[0]).name == "routebench" else "python -m routebench"


def _way_to(error: click.NoSuchOption) -> str:
    """Says what replaces an option that no command has, but methods or recipes; empty for any other."""
    from routebench.catalogue import catalogue

    name = error.option_name.lstrip("-").replace("-", "_")
    takes_methods = error.ctx is not None and any("--method" in option.opts for option in error.ctx.command.params)
    try:
        known = catalogue(kinds=("methods", "recipes"))
    except UserError:  # of a plug-in, say; the option is what the user asked for
        return ""
    if any(name in method["hyperparameters"] for method in known["methods"]):
        way = f"give it with its method: {'--method ' * takes_methods}'NAME[{name}=VALUE]'"
    elif any(name in recipe["settings"] for recipe in known["recipes"]):
        way = "a suite file sets it, in its table [training]"
    else:
        return ""
    return f"no such option {error.option_name!r}; {way}"


def _drop_output() -> None:
    """Lets the interpreter end without another try to print what standard output did not take."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(*_: object) -> NoReturn:
    raise Terminated


def _fail(message: str, exit_code: int = UserError.exit_code) -> NoReturn:
    line = " ".join(printable(message).split())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"
    click.echo(f"Error: {line}", err=True)
    sys.exit(exit_code)
