"""One function in a process of its own, so that nothing it calls can end or hang this one."""

import faulthandler
import multiprocessing
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from routebench.engine.last_words import ask_where, one_line, signal_name, where
from routebench.errors import UserError


class Ended(Exception):
    """The process ended without an answer, or was stopped; the message says why, and where it was."""


def alone(function: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Any:
    """Calls a function in a new process, and returns what it returns.

    Args:
        function: of a module, so that the process can import it.
        arguments: as plain as what it returns: both travel between processes.
        limit: seconds that it may take; None for no limit.

    Raises:
        UserError: the function raised it.
        Ended: the process died, was ended by what it ran, or ran past the limit.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="routebench-") as folder:
        stack = Path(folder) / "stack"
        process = context.Process(target=_answer, args=(sender, str(stack), function, arguments), daemon=True)
        process.start()
        sender.close()  # else its death would not be seen here
        try:
            if not receiver.poll(limit):
                assert process.pid is not None  # it was started
                ask_where(process.pid)
                raise Ended(f"ran past {limit:g} s and was stopped{_where(stack)}")
            kind, answer = receiver.recv()
        except EOFError:
            process.join()
            raise Ended(_death(process.exitcode, stack)) from None
        finally:
            process.kill()
            process.join()
    if kind == "user error":
        raise UserError(answer)
    if kind == "ended":
        raise Ended(answer)
    return answer


def _answer(sender: Connection, stack: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """In the new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what an interrupt means
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


def _death(code: int | None, stack: Path) -> str:
    if code is not None and code < 0:
        return f"killed its process: {signal_name(-code)}{_where(stack)}"
    return f"ended its process with exit code {code}, as os._exit does"
