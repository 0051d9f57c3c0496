"""How long the command line takes to answer."""

import subprocess
import sys


class Start:
    """Wall time in seconds of a whole process, from the shell's point of view."""

    def time_help(self) -> None:
        self.call("--help")

    def time_list_methods(self) -> None:
        self.call("list", "methods")

    def call(self, *arguments: str) -> None:
        """`-P` keeps the current folder off the path, so that the installed package answers."""
        subprocess.run([sys.executable, "-P", "-m", "routebench", *arguments], check=True, capture_output=True)
