"""The command line in this process, which it leaves as it was: threads, back end, signals, folder."""

import signal
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from routebench import cli, kernels
from routebench.engine.isolation._process import clean_processes

NEEDED = ("torch._dynamo", "routebench.analysis")
"""What processes of any suite need, imported once for all of them: what the first of the tests needs may not be all."""


def import_once() -> None:
    """Starts the process that others are forked from, unless it runs."""
    clean_processes(NEEDED)
    forkserver.ensure_running()


class Done(NamedTuple):
    """Exit code, and what was printed."""

    code: int
    out: str
    error: str


class Command:
    """`python -m routebench` in a folder, without the seconds that a process of its own spends on imports.

    Args:
        folder: to work in.
        capfd: of the test. What child processes print is captured, too.
    """

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]):
        self.folder, self.capfd = folder, capfd

    def __call__(self, *arguments: object, **environment: str) -> Done:
        """Runs it with more variables in its environment."""
        if "--plugin" in arguments:
            import_once()
        threads, on_termination = torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
        with pytest.MonkeyPatch.context() as patch, kernels.using(kernels.wished()):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["routebench", *map(str, arguments)])
            for name, value in environment.items():
                patch.setenv(name, value)
            self.capfd.readouterr()
            try:
                with pytest.raises(SystemExit) as ended:
                    cli.main()
            finally:
                torch.set_num_threads(threads)
                signal.signal(signal.SIGTERM, on_termination)
        return Done(ended.value.code or 0, *self.capfd.readouterr())
