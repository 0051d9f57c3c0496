"""One function in a process of its own: it answers, or how it ended is said."""

import os
import signal
import sys
import time

import pytest

from routebench.engine.alone import Ended, alone
from routebench.errors import UserError


def _refuse():
    raise UserError("expected more")


def _leave():
    os._exit(0)


def _crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise():
    raise RuntimeError("torn apart")


def _sleep():
    time.sleep(1000)


def test_it_answers():
    assert alone(divmod, 7, 2) == (3, 1)


def test_errors_of_the_user_are_passed_on():
    with pytest.raises(UserError, match="expected more"):
        alone(_refuse)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_leave, r"ended its process with exit code 0, as os\._exit does"),
        (_crash, r"killed its process: .*\(SIGSEGV\) at test_alone\.py:\d+ \(_crash\)"),
        (_raise, r"raised RuntimeError: torn apart \(test_alone\.py:\d+\)"),
        (_sleep, r"ran past 1\.5 s and was stopped"),
        (sys.exit, r"ended its process, as sys\.exit\(None\) does"),
    ],
)
def test_whatever_ends_or_hangs_is_told(function, told):
    with pytest.raises(Ended, match=told):
        alone(function, limit=1.5 if function is _sleep else 60)
