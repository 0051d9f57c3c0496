"""Calls a function in its own process, so that it cannot end or hang this one."""

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from routebench.engine.isolation._litter import Scratch
from routebench.engine.isolation._process import SAID_WHAT, Isolated, Step, send, uninterrupted, wait_for
from routebench.engine.isolation._stacks import signal_name, where
from routebench.errors import UserError
from routebench.registry import leave_out_environment, load_plugin

STEP_LIMIT = 300.0  # seconds that a plug-in may take to import, and a method to be made, if the user says nothing
LONG_STEPS = 100  # that may take all of their time, of those that a process says it takes
MOST_STEPS = 500_000  # that a process may say it begins or ends: a plan has at most 200,000 runs
SILENT = 10.0  # seconds after which a step that has not ended is told


class Ended(Exception):
    """The process died without an answer, or was stopped; the message says why, and where it was.

    Args:
        message: words that follow a name, such as `ran past 5 s and was stopped`.
        during: the step that was active; None if there was none.
    """

    def __init__(self, message: str, during: Step | None = None):
        super().__init__(message)
        self.during = during


@contextlib.contextmanager
def step(kind: str, name: str, *, timed: bool = True) -> Iterator[None]:
    """Marks a step of a function that `alone` calls; `Ended` names the step that was active.

    Args:
        kind, name: kind and name of the thing that is executed, such as a plug-in.
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
    gives: Any = None,
) -> Any:
    """Calls a function in a new process, and returns its result.

    Args:
        function: a function of a module, so that the process can import it. Its annotation says what it returns:
            dataclasses, tables, lists and what JSON holds.
        arguments: picklable.
        limit: seconds that it may take, its start apart; None for no limit.
        each: seconds that each timed step of it may take; None for `STEP_LIMIT`.
        preload: as for `clean_processes`.
        gives: the type of the result, in place of the function's annotation.

    Raises:
        UserError: the function raised it.
        Ended: the process died, the function ended it, it ran past a limit, or sent something else than its result.
    """
    with contextlib.ExitStack() as stack:
        output = Path(stack.enter_context(Scratch())) / "output"
        with uninterrupted():
            kinds = {} if gives is None else {"answer": gives}
            process = Isolated(function, *arguments, output=output, preload=preload, kinds=kinds)
            stack.callback(process.close)
        return _listen(process, limit, STEP_LIMIT if each is None else each)


def import_plugin(spec: str) -> Mapping[str, list[str]]:
    """Imports a plug-in as a timed step of a function that `alone` calls; returns what it added, as `load_plugin`."""
    with step("plug-in", spec):
        return load_plugin(spec)


def with_plugins(plugins: Sequence[str], function: Callable[..., Any], *arguments: Any, gives: Any = None) -> Any:
    """Calls a function; if it loads plug-ins, in its own process, because they may end it. `gives` as for `alone`.

    Args:
        plugins: files or modules; empty for none.
        function, arguments: the function, and what it is called with.
        gives: as for `alone`.

    Raises:
        UserError: the function raised it, or that process ended.
    """
    if not plugins:
        return function(*arguments)
    leave_out_environment()  # its plug-ins are among those given
    try:
        return alone(function, *arguments, gives=gives)
    except Ended as end:
        raise UserError(f"plug-in {' or '.join(plugins)}: expected it to be imported and used, but it {end}") from end


def _listen(process: Isolated, limit: float | None, each: float | None) -> Any:
    """Waits for the answer of a process."""
    clock = _Clock(limit, each)
    while True:
        said = process.said()
        if (said is None or said[0] == "step") and clock.is_over:
            raise Ended(f"ran past {clock.allowed:g} s and was stopped{process.where()}", clock.during)
        match said:
            case None:
                clock.wait(process)
            case "step", _ if clock.steps == MOST_STEPS:  # without an end, none of them would be the one too long
                raise Ended(SAID_WHAT, clock.last)
            case "step", (during, is_timed):
                clock.begin(during, is_timed=is_timed)
            case "answer", _ if clock.during is not None:  # code of that step spoke for the function
                raise Ended(SAID_WHAT, clock.during)
            case "answer", answer:
                return answer
            case "user error", told:
                raise UserError(told)
            case "ended", told:
                raise Ended(told, clock.during)
            case "died", code:
                raise Ended(_death(code, process), clock.during)


class _Clock:
    """The time that a process has for all, and for each of its steps, however often it says that one begins.

    Args:
        limit, each: as for `alone`.
    """

    def __init__(self, limit: float | None, each: float | None):
        self.during: Step | None = None
        self.last: Step | None = None
        """The last step that was more than the time between two."""
        self.steps = 0
        self.allowed: float | None = None
        """Seconds; None without a limit, such as before the process has started: that time is not its own."""
        self._limits = {False: limit, True: each}
        self._is_timed, self._began, self._is_told = False, time.monotonic(), False
        self._spent = {False: 0.0, True: 0.0}

    @property
    def is_over(self) -> bool:
        """Tells whether no time is left for what the process does."""
        return self.allowed is not None and self._left() <= 0

    def begin(self, during: Step | None, *, is_timed: bool) -> None:
        """Begins a step, or the time between two."""
        now = time.monotonic()
        self.steps, self.last = self.steps + 1, during or self.last
        if self.allowed is not None:
            self._spent[self._is_timed] += now - self._began
        self.during, self._is_timed, self._began, self._is_told = during, is_timed, now, False
        self.allowed = self._limits[is_timed]

    def wait(self, process: Isolated) -> None:
        """Waits for more of a message, until the time is over. Tells once what it waits for, if that takes long."""
        if self.allowed is None:
            wait_for([process], None)
            return
        may_be_told = self.during is not None and self.allowed > SILENT and not self._is_told
        heard = wait_for([process], max(0.0, min(self._left(), SILENT if may_be_told else math.inf)))
        if may_be_told and not heard:
            self._is_told = True
            told = "waiting for %s, for at most %g s"
            logging.getLogger("routebench").warning(told, " ".join(self.during or ()), self.allowed)

    def _left(self) -> float:
        allowed, now = self.allowed or 0.0, time.monotonic() - self._began
        of_all = allowed * (LONG_STEPS if self._is_timed else 1) - self._spent[self._is_timed]
        return min(allowed, of_all) - now


def _death(code: int | None, process: Isolated) -> str:
    if code is not None and code < 0:
        return f"killed its process: {signal_name(-code)}{where(process.written())}"
    return f"ended its process with exit code {code}, as os._exit does"
