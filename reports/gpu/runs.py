"""Executes those runs of a suite whose names match: `python -m reports.gpu.runs PATTERN MOST SUITE OPTIONS...`.

A suite adds baselines, and the models that learn without labels, which a short time has no room for. MOST is how many
runs are executed at most; 0 stands for all that match.
"""

import re
import subprocess
import sys

LISTED = re.compile(
    r"^ (?: cached|failed| to do)  ([0-9a-f]{16})\s+(?:(?:\?|\d+ (?:s|min|h|days))  )?(.+)$", re.MULTILINE
)


def keys(pattern: str, listing: str) -> list[str]:
    """The keys of the runs whose names match, in the order of what `--dry-run` lists.

    Raises:
        SystemExit: there are no such runs.
    """
    listed = LISTED.findall(listing)
    found = [key for key, name in listed if re.match(pattern, name)]
    if not found:
        raise SystemExit(f"expected runs like {pattern!r}, got {[name for _, name in listed]}")
    return found


def planned(suite: list[str]) -> str:
    """What `--dry-run` says of a suite."""
    command = [sys.executable, "-m", "routebench", "suite", *suite, "--dry-run"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SystemExit(said.stderr.strip())
    return said.stdout


def chosen(pattern: str, most: int, suite: list[str]) -> list[str]:
    """The arguments of `python -m routebench` that execute the runs."""
    found = keys(pattern, planned(suite))
    return ["suite", *suite, *(part for key in found[: most or None] for part in ("--run", key))]


def main() -> None:
    """Executes them, with the exit code of the suite."""
    pattern, most, *suite = sys.argv[1:]
    command = [sys.executable, "-m", "routebench", *chosen(pattern, int(most), suite)]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
