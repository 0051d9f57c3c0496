"""Checks that a run executes what was planned: code and images, as the process has loaded them that measures it."""

import contextlib

from routebench.data import declared_where_missing, load
from routebench.engine.origin import package_stamp
from routebench.engine.suites import Cell, NamedParts, code_behind
from routebench.registry import protocols

ANEW = "run the suite again, which plans with it as it is now"


class Changed(Exception):
    """A run would not measure what was planned; the message says what to do."""


def expect_as_planned(cell: Cell, package: str) -> None:
    """Compares code and images with those of the plan, before a run is measured and again afterwards.

    Seen is what this process has loaded, see `routebench.registry.loaded_source`. An edit that is taken back before
    the second look is not seen, and none of routebench's own files between the start of the program and the plan.

    Args:
        cell: a run of a plan; if it was not planned with any code, nothing is compared.
        package: the `package_stamp` of the plan; where it is the same, routebench's own files are not read.

    Raises:
        Changed: there is a difference.
        UserError: the images cannot be read any more.
    """
    if cell.code is None:
        return
    known, now = cell.identity, code_behind(cell.identity, shipped=package_stamp() != package)
    if now.yours != cell.code.yours:
        what = f"the code of {' or '.join(cell.plugins) or 'a part of your own'}"
        raise Changed(f"{what} was edited after the run was planned; {ANEW}")
    if now.shipped and now.shipped != cell.code.shipped:
        raise Changed(f"files of routebench itself were edited after the run was planned; {ANEW}")
    versions = NamedParts.of(known).versions() or None
    if versions != known.versions:
        raise Changed(f"versions of its parts are {versions} now, and {known.versions} in the plan; {ANEW}")
    trains = getattr(protocols[known.protocol], "trains", True)
    with contextlib.nullcontext() if trains else declared_where_missing():  # as it was planned
        found = load(known.data).fingerprint
    if found != known.data_fingerprint:
        told = f"fingerprint {known.data_fingerprint} then, {found} now; they have to be the same each time"
        raise Changed(f"the items of {known.data} are others than when the run was planned ({told}); {ANEW}")
