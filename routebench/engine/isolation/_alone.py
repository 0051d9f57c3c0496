"""Calls a function in its own process, so that it cannot end or hang this one."""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from routebench.engine.isolation._process import Isolated, send, uninterrupted, wait_for
from routebench.engine.isolation._stacks import signal_name, where
from routebench.errors import UserError
from routebench.registry import leave_out_environment

Step = tuple[str, str]
"""What a process is doing: a kind, such as `plug-in`, and a name."""
SILENT = 10.0  # seconds after which a step that has not ended is told


class Ended(Exception):
    """The process died without an answer, or was stopped; the message says why, and where it was.

    Args:
        message: words that follow a name, such as `ran past 5 s and was stopped`.
        during: the step that was running; None if there was none.
    """

    def __init__(self, message: str, during: Step | None = None):
        super().__init__(message)
        self.during = during


@contextlib.contextmanager
def step(kind: str, name: str, *, timed: bool = True) -> Iterator[None]:
    """Marks a step of a function that `alone` calls; `Ended` names the step that was running.

    Args:
        kind, name: of the thing that runs, such as a plug-in.
        timed: whether the step has its own time limit. Outside `alone` there is none.
    """
    send("step", ((kind, name), timed))
    yield
    send("step", (None, False))


def alone(
    function: Callable[..., Any],
    *arguments: Any,
    limit: float | None = None,
    each: float | None = None,
    preload: Sequence[str] = (),
) -> Any:
    """Calls a function in a new process, and returns its result.

    Args:
        function: of a module, so that the process can import it.
        arguments: picklable, as the result: both travel between processes.
        limit: seconds that it may take; None for no limit.
        each: seconds that each timed step of it may take.
        preload: as for `clean_processes`.

    Raises:
        UserError: the function raised it.
        Ended: the process died, the function ended it, or it ran past a limit.
    """
    with contextlib.ExitStack() as stack:
        output = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="routebench-"))) / "output"
        with uninterrupted():
            process = Isolated(function, *arguments, output=output, preload=preload)
            stack.callback(process.close)
        return _listen(process, limit, each)


def with_plugins(plugins: Sequence[str], function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function; if it loads plug-ins, in its own process, because they may end it.

    Raises:
        UserError: the function raised it, or that process ended.
    """
    if not plugins:
        return function(*arguments)
    leave_out_environment()  # its plug-ins are among those given
    try:
        return alone(function, *arguments)
    except Ended as end:
        raise UserError(f"plug-in {' or '.join(plugins)}: expected it to be imported and used, but it {end}") from end


def _listen(process: Isolated, limit: float | None, each: float | None) -> Any:
    """Waits for the answer of a process."""
    during: Step | None = None
    allowed: float | None = None  # the time in which it starts is not its own
    while True:
        if not _wait(process, allowed, during):
            raise Ended(f"ran past {allowed:g} s and was stopped{process.where()}", during)
        match process.said():
            case "step", (during, timed):
                allowed = each if timed else limit
            case "answer", answer:
                return answer
            case "user error", told:
                raise UserError(told)
            case "ended", told:
                raise Ended(told, during)
            case "died", code:
                raise Ended(_death(code, process), during)


def _wait(process: Isolated, allowed: float | None, during: Step | None) -> bool:
    """As `wait_for`; prints what it waits for if a timed step takes long."""
    if during is None or allowed is None or allowed <= SILENT:
        return wait_for([process], allowed)
    if wait_for([process], SILENT):
        return True
    logging.getLogger("routebench").warning("waiting for %s, for at most %g s", " ".join(during), allowed)
    return wait_for([process], allowed - SILENT)


def _death(code: int | None, process: Isolated) -> str:
    if code is not None and code < 0:
        return f"killed its process: {signal_name(-code)}{where(process.written())}"
    return f"ended its process with exit code {code}, as os._exit does"
