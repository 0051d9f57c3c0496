"""What the command line needs to answer."""

import os
import subprocess
import sys


def processor_time() -> float:
    """Seconds of CPU time of this process and of all that it has waited for; other programs do not change it."""
    return sum(os.times()[:4])


class Start:
    """CPU time in seconds of a whole process, the interpreter's start included."""

    timer = staticmethod(processor_time)

    def time_help(self) -> None:
        self.call("--help")

    def time_list_methods(self) -> None:
        self.call("list", "methods")

    def time_dry_run(self) -> None:
        """The plan of a suite whose folder is empty."""
        self.call("suite", "accuracy", "--preset", "smoke", "--dry-run", "--results", "empty")

    def call(self, *arguments: str) -> None:
        """`-P` keeps the current folder off the path, so that the installed package answers."""
        subprocess.run([sys.executable, "-P", "-m", "routebench", *arguments], check=True, capture_output=True)
