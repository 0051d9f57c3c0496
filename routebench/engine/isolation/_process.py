"""Starts a function in its own process, receives its messages, and stops it."""

import contextlib
import ctypes
import faulthandler
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from routebench import terminal
from routebench.engine.isolation import _litter
from routebench.engine.isolation._messages import Inbox, Unreadable, line_of, taken
from routebench.engine.isolation._stacks import ask_where, where
from routebench.errors import UserError, one_line, printable

READ_OUTPUT = 40_000  # characters of what a process wrote that are read
ENDING = 2.0  # seconds that a process may take to end which has closed its connection or answered
SAID_WHAT = "sent what cannot be read"
Step = tuple[str, str]
"""The step that a process is in: a kind, such as `plug-in`, and a name."""

_main: list[Connection] = []
"""The connection of an isolated process to its starter; empty in any other process."""


class Isolated:
    """One call of a function in a new process, which may crash, hang or be killed.

    The process gets its arguments pickled. What it says is JSON, and its answer of the type that the function's
    annotation names: it may run code of others, and nothing that it sends is run here.

    Args:
        function: a function of a module, so that the process can import it.
        arguments: picklable.
        output: a file, to which the process writes its stack when it dies or is asked; the function may print there.
        preload: as for `clean_processes`.
        kinds: types of further messages, by kind; of the `answer`, in place of the function's annotation.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        output: Path,
        preload: Sequence[str] = (),
        kinds: Mapping[str, Any] | None = None,
    ):
        context = clean_processes(preload)
        self._kinds = {"step": tuple[Step | None, bool], "user error": str, "ended": str, **(kinds or {})}
        if "answer" not in self._kinds:
            self._kinds["answer"] = get_type_hints(function).get("return", Any)
        self.output = output
        # Opened once: whatever the process puts in place of this file later is not opened.
        self._output = os.open(output, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._receiver, sender = context.Pipe(duplex=False)
        self._inbox = Inbox(self._receiver.fileno())
        self._process = context.Process(target=_answer, args=(sender, str(output), function, arguments), daemon=True)
        with _without_main():
            _start_clean_process(context)
            self._process.start()
        sender.close()  # else its death would not be seen here
        self._has_answered = False
        self.number: int = self._process.pid
        """Process id."""

    def said(self) -> tuple[str, Any] | None:
        """The next message of the process, or None; never waits.

        Returns:
            `step`, with the step and whether it is timed; the first, of no step, says that the process has started.
            Kinds that were given, with their content. The last message is `answer`, `user error` with its text, `ended`
                with the reason, or `died` with an exit code (negative for a signal).
        """
        is_alive = self._process.is_alive()  # before the look: what was said before death is heard
        try:
            if (said := self._inbox.next()) is not None:
                return self._understood(*said)
        except Unreadable:
            return "ended", SAID_WHAT
        except (EOFError, OSError):
            self._process.join(ENDING)
            is_alive = False
        return None if is_alive else ("died", self._process.exitcode)

    def _understood(self, kind: str, content: Any) -> tuple[str, Any]:
        """The message with its content of the type that its kind has.

        Raises:
            Unreadable: it has another, or there is no such kind.
        """
        if kind not in self._kinds:
            raise Unreadable
        found = taken(self._kinds[kind], content)
        self._has_answered |= kind == "answer"
        return kind, printable(found) if isinstance(found, str) and kind != "answer" else found

    def where(self) -> str:
        """Asks the process where it is: ` at FILE:LINE (FUNCTION)`, or empty."""
        ask_where(self.number)
        return where(self.written())

    def written(self) -> str:
        """The end of the output, without faulthandler's list of imported modules."""
        try:
            start = max(0, os.fstat(self._output).st_size - 4 * READ_OUTPUT)
            text = os.pread(self._output, 4 * READ_OUTPUT, start).decode("utf-8", errors="replace")[-READ_OUTPUT:]
        except OSError:
            return ""
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("Extension modules:"))

    def shorten_output(self, most: int) -> None:
        """Drops the output if it is larger than so many bytes."""
        with contextlib.suppress(OSError):
            if os.fstat(self._output).st_size > most:
                os.ftruncate(self._output, 0)

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children, except those that left its group."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.number, number)

    def close(self) -> None:
        """Ends the process and those that it started, and removes its temporary files.

        One that has answered may first remove its semaphores.
        """
        if self._has_answered:
            self._process.join(ENDING)
        self._process.kill()
        self._process.join()
        if hasattr(signal, "SIGKILL"):
            self.signal(signal.SIGKILL)
        _litter.clear(self.output)
        self._receiver.close()
        os.close(self._output)


def wait_for(processes: Sequence[Isolated], seconds: float | None) -> bool:
    """Waits until one of several processes sends a message or ends; False if none did in time.

    Args:
        processes: the processes.
        seconds: the longest wait; None for no end.
    """
    ends = [end for process in processes for end in (process._receiver, process._process.sentinel)]
    return bool(wait(ends, seconds))


def send(kind: str, content: Any) -> None:
    """Sends a message from an isolated process to its starter; does nothing in any other.

    A process whose starter was killed ends here, without a word: nobody listens.

    Args:
        kind: the kind of message.
        content: what `plain` takes.

    Raises:
        TypeError: the content has a part that no message holds.
    """
    for sender in _main:
        message = memoryview(line_of(kind, content))
        try:
            while message:
                message = message[os.write(sender.fileno(), message) :]
        except BrokenPipeError:
            os._exit(1)


def clean_processes(preload: Sequence[str] = ()) -> Any:
    """Forks processes from a clean one that has imported torch, if the system can fork.

    Args:
        preload: further modules for the clean process to import. It starts once: later calls cannot add any.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["routebench.engine.running._forkserver", *preload])
    return context


def start_early() -> None:
    """Starts the process that others are forked from, so that it imports torch while this one does."""
    context = clean_processes()
    with _without_main():
        _start_clean_process(context)


def _start_clean_process(context: Any) -> None:
    """Starts the process that others are forked from; shields it from Ctrl-C while it imports."""
    if context.get_start_method() == "forkserver":
        resource_tracker.ensure_running()  # first, for its own start lets interrupts through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            multiprocessing.forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays interrupts, so that a process that is just starting is not lost.

    Ignored signals stay ignored, such as SIGINT in a shell's background command.
    """
    held: list[tuple[int, Any]] = []
    handlers: dict[int, Callable[..., Any]] = {}
    if threading.current_thread() is threading.main_thread():  # no other can set handlers
        known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        handlers = {number: handler for number, handler in known.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda *interrupt: held.append(interrupt))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in held[:1]:
            handlers[number](number, frame)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keeps a starting process from running the user's script again, as multiprocessing otherwise does."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _answer(sender: Connection, output: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Runs the function in the new process, and sends its answer."""
    _main.append(sender)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides what an interrupt means
    _begin_group()
    terminal.prepare()
    _litter.into_own_folder(Path(output))
    send("step", (None, False))
    with open(output, "a", encoding="utf-8") as file:  # noqa: PTH123  # faulthandler keeps its descriptor
        faulthandler.enable(file, all_threads=False)
        if hasattr(faulthandler, "register"):
            faulthandler.register(signal.SIGUSR1, file, all_threads=False)
        try:
            answer = function(*arguments)
            send("step", (None, False))  # of those that raised, some have not ended
            send("answer", answer)
        except UserError as error:
            send("user error", str(error))
        except SystemExit as error:
            send("ended", f"ended its process, as sys.exit({error.code!r}) does")
        except KeyboardInterrupt:
            send("ended", "raised KeyboardInterrupt")
        except BaseException as error:  # noqa: BLE001  # whatever it is, the first process is to know
            send("ended", f"raised {one_line(error)}")


def _begin_group() -> None:
    """Makes this process the leader of a group that can be killed together; it dies with its starter.

    If memory runs out, Linux kills it and not the starter.
    """
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    die_with_starter()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def die_with_starter() -> None:
    """Has Linux kill this process when the one that started it ends, however it ends; does nothing on other systems."""
    if sys.platform == "linux":
        death_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
        ctypes.CDLL(None).prctl(death_signal, signal.SIGKILL)


def _end_with_parent() -> None:
    """Linux signals the death of the process that forked this one: the fork server, which outlives the first process.

    The server lives as long as any process that it forked.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
