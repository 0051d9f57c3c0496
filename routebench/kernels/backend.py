"""Choice of the back end for a sweep: the wish of the run, what can be done here, and what was used.

`auto` takes the fastest that can do the sweep: `triton` on a GPU, `fused` on a processor, `reference` for the rest. A
back end that is asked for by name is used or refused, never replaced. Equal sums of a dense layer are one matrix
product, and belong to none; what torch.func transforms is done with stored votes, whatever the wish.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import torch

from routebench.errors import UserError, unknown
from routebench.kernels import fused, reference, triton_sweep
from routebench.kernels.sweep import Sums, Sweep
from routebench.kernels.trust import is_trusted
from routebench.ops import Competition

KERNELS: dict[str, ModuleType] = {"fused": fused, "triton": triton_sweep}
"""Back ends that are faster than the reference. Each has `obstacle(given)`, which is empty if it can do a sweep or says
why not, and `sweep(given)`."""
BACKENDS = ("auto", "reference", *KERNELS)


class _State:
    wish = "auto"
    lock = threading.Lock()
    used: set[str] = set()  # noqa: RUF012  # of the process, as the wish is


def sweep(given: Sweep) -> Sums:
    """One sweep, by the back end that is wished for.

    Args:
        given: all that the sweep takes.

    Raises:
        UserError: the back end that was asked for cannot do this sweep.
    """
    if given.is_uniform and given.moments == 1 and given.competition.windows is None:
        return reference.sweep(given)  # one matrix product, which no kernel of ours beats
    if reference.is_transformed():
        return reference.dense(given)
    name = choose(given)
    with _State.lock:
        _State.used.add(name)
    done: Sums = reference.sweep(given) if name == "reference" else KERNELS[name].sweep(given)
    return done


def choose(given: Sweep) -> str:
    """The back end that does this sweep.

    Raises:
        UserError: one was asked for by name, and cannot do it.
    """
    if _State.wish == "reference":
        return "reference"
    if _State.wish != "auto":
        if obstacle := KERNELS[_State.wish].obstacle(given):
            raise UserError(f"back end {_State.wish!r} cannot do this sweep: {obstacle}; use 'auto' or 'reference'")
        return _State.wish
    for name, kernel in KERNELS.items():
        if not kernel.obstacle(given) and is_trusted(name, kernel.sweep, given):
            return name
    return "reference"


def use(name: str) -> None:
    """Sets the wish of this process.

    Args:
        name: a back end of `BACKENDS`.

    Raises:
        UserError: there is no such back end.
    """
    if name not in BACKENDS:
        raise unknown("back end", name, BACKENDS)
    _State.wish = name


def unavailable(name: str, device: torch.device) -> str:
    """Reason why a back end can do no sweep at all on a device; empty if it can do some.

    Args:
        name: a back end of `BACKENDS`; `auto` and `reference` can do something everywhere.
        device: the device that it would run on.
    """
    if name not in KERNELS:
        return ""
    children, weight = torch.zeros(1, 1, 8, device=device), torch.zeros(1, 1, 8, 16, device=device)
    query = torch.zeros(1, 1, 16, device=device)
    reason: str = KERNELS[name].obstacle(Sweep(children, weight, Competition(), query=query))
    return reason


def wished() -> str:
    """The wish of this process."""
    return _State.wish


@contextmanager
def using(name: str) -> Iterator[None]:
    """Sets the wish for a while.

    Args:
        name: a back end of `BACKENDS`.

    Raises:
        UserError: there is no such back end.
    """
    before = _State.wish
    use(name)
    try:
        yield
    finally:
        _State.wish = before


@contextmanager
def noting() -> Iterator[set[str]]:
    """Gives the set of back ends that do sweeps from here to the end of the block; filled at the end."""
    found: set[str] = set()
    before, _State.used = _State.used, set()
    try:
        yield found
    finally:
        found |= _State.used
        _State.used = before | _State.used
