"""One function in a process of its own, so that nothing it calls can end or hang this one."""

import contextlib
import ctypes
import faulthandler
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from routebench import terminal
from routebench.engine.isolation._last_words import ask_where, one_line, signal_name, where
from routebench.errors import UserError

Step = tuple[str, str]
"""What a process is at: the kind of a thing, such as `plug-in`, and its name."""
SILENT = 10.0  # seconds after which a step that has not ended is told
ON_ITS_WAY = 2.0  # seconds that an answer may take from a process that has ended

_answers: list[Connection] = []
"""Where a process that `alone` has started answers; empty in any other."""


class Ended(Exception):
    """The process ended without an answer, or was stopped; the message says why, and where it was.

    Args:
        message: words that follow a name, such as `ran past 5 s and was stopped`.
        during: the step at which it was; None if it was at none.
    """

    def __init__(self, message: str, during: Step | None = None):
        super().__init__(message)
        self.during = during


@contextlib.contextmanager
def step(kind: str, name: str, *, timed: bool = True) -> Iterator[None]:
    """In a function that `alone` calls: what happens meanwhile is a step, and `Ended` says at which one it was.

    Args:
        kind, name: of what is asked for something, such as a plug-in.
        timed: whether the step has a limit of its own. Elsewhere than in `alone` there is none.
    """
    _tell(("step", ((kind, name), timed)))
    yield
    _tell(("step", (None, False)))


def _tell(what: tuple[str, Any]) -> None:
    for sender in _answers:
        sender.send(what)


def alone(
    function: Callable[..., Any],
    *arguments: Any,
    limit: float | None = None,
    each: float | None = None,
    preload: Sequence[str] = (),
) -> Any:
    """Calls a function in a new process, and returns what it returns.

    Args:
        function: of a module, so that the process can import it.
        arguments: as plain as what it returns: both travel between processes.
        limit: seconds that it may take; None for no limit.
        each: seconds that each timed step of it may take.
        preload: as for `clean_processes`.

    Raises:
        UserError: the function raised it.
        Ended: the process died, was ended by what it ran, or ran past a limit.
    """
    context = clean_processes(preload)
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="routebench-") as folder:
        stack = Path(folder) / "stack"
        process = context.Process(target=_answer, args=(sender, str(stack), function, arguments), daemon=True)
        process.start()
        sender.close()  # else its death would not be seen here
        try:
            kind, answer, during = _listen(process, receiver, stack, limit, each)
        finally:
            process.kill()
            process.join()
            signal_group(process.pid, signal.SIGKILL)
    if kind == "user error":
        raise UserError(answer)
    if kind == "ended":
        raise Ended(answer, during)
    return answer


def clean_processes(preload: Sequence[str] = ()) -> Any:
    """How processes are made: forked from a clean one that has imported torch, where the system can do that.

    Args:
        preload: modules that the clean one imports besides. It is made once: later calls cannot add any.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["routebench.engine.running._forkserver", *preload])
    return context


def begin_group() -> None:
    """Makes this process the first of a group, so that what it starts can be ended with it; it ends with its parent."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    if sys.platform == "linux":
        death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
        ctypes.CDLL(None).prctl(death_signal, signal.SIGKILL)


def signal_group(leader: int | None, number: int) -> None:
    """Sends a signal to a process that called `begin_group`, and to what it has started, unless that left the group."""
    if leader is not None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)


def _listen(
    process: Any, receiver: Connection, stack: Path, limit: float | None, each: float | None
) -> tuple[str, Any, Step | None]:
    """What the process says at last: `answer`, `user error` or `ended`, the content, and its step."""
    during: Step | None = None
    allowed: float | None = None  # the time in which it begins is not its own
    while True:
        ready = _wait([receiver, process.sentinel], allowed, during)
        if not ready:
            ask_where(process.pid)
            raise Ended(f"ran past {allowed:g} s and was stopped{_where(stack)}", during)
        # an answer may be on its way; where a process that it left behind holds the pipe, none may come
        if receiver not in ready and not receiver.poll(ON_ITS_WAY):
            raise Ended(_death(process, stack), during)
        try:
            kind, content = receiver.recv()
        except (EOFError, OSError):
            raise Ended(_death(process, stack), during) from None
        if kind != "step":
            return kind, content, during
        during, timed = content
        allowed = each if timed else limit


def _wait(ends: Sequence[Any], allowed: float | None, during: Step | None) -> list[Any]:
    """As `wait`; says what it waits for where a timed step takes long."""
    if during is None or allowed is None or allowed <= SILENT:
        return wait(ends, allowed)
    if not (ready := wait(ends, SILENT)):
        logging.getLogger("routebench").warning("waiting for %s, for at most %g s", " ".join(during), allowed)
        ready = wait(ends, allowed - SILENT)
    return ready


def _answer(sender: Connection, stack: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """In the new process."""
    _answers.append(sender)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what an interrupt means
    begin_group()
    terminal.prepare()
    _tell(("step", (None, False)))  # it has begun
    with open(stack, "w", encoding="utf-8") as file:  # noqa: PTH123  # faulthandler keeps its descriptor
        faulthandler.enable(file, all_threads=False)
        if hasattr(faulthandler, "register"):
            faulthandler.register(signal.SIGUSR1, file, all_threads=False)
        try:
            sender.send(("answer", function(*arguments)))
        except UserError as error:
            sender.send(("user error", str(error)))
        except SystemExit as error:
            sender.send(("ended", f"ended its process, as sys.exit({error.code!r}) does"))
        except KeyboardInterrupt:
            sender.send(("ended", "raised KeyboardInterrupt"))
        except BaseException as error:  # noqa: BLE001  # whatever it is, the first process is to know
            sender.send(("ended", f"raised {one_line(error)}"))


def _where(stack: Path) -> str:
    return where(stack.read_text(encoding="utf-8", errors="replace")) if stack.exists() else ""


def _death(process: Any, stack: Path) -> str:
    process.join()
    code = process.exitcode
    if code is not None and code < 0:
        return f"killed its process: {signal_name(-code)}{_where(stack)}"
    return f"ended its process with exit code {code}, as os._exit does"
