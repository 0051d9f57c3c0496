"""Undoes a run's changes to its process: replaced functions and classes, and modes of torch."""

import contextlib
import inspect
import operator
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from routebench.errors import PluginError
from routebench.quantities import few

Places = dict[str, tuple[Any, dict[str, Any]]]
"""Owners (modules or classes) by name, each with its members by name."""

TORCH = str(Path(torch.__file__).parent)
WATCHED: tuple[ModuleType, ...] = (
    torch, torch.random, torch.autograd, torch.nn, torch.nn.functional, torch.nn.init, torch.optim,
    torch.optim.lr_scheduler, torch.utils.data, np, np.random, random,
)  # fmt: skip
"""Modules to watch besides routebench's: their functions and classes, and the members of these."""
MODES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default type": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's determinism": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "torch's precision of matrix products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "torch's threads": (torch.get_num_threads, torch.set_num_threads),
}  # fmt: skip


@contextlib.contextmanager
def expect_no_patches() -> Iterator[None]:
    """Restores everything that was replaced in the block.

    Raises:
        PluginError: something was replaced; the message names it.
    """
    places, modes = _places(), {name: get() for name, (get, _) in MODES.items()}
    try:
        yield
    finally:
        changed = [*_put_back(places), *_set_back(modes)]
    if changed:
        raise PluginError(
            f"it changed {few(changed, 3)} for all that runs in its process; it was put back: run it in a process of "
            "its own, without --no-isolate"
        )


def _places() -> Places:
    found: Places = {}
    own = [module for name, module in sys.modules.items() if name.partition(".")[0] == "routebench"]
    for module in (*WATCHED, torch.Tensor, *own):
        _add(found, module)
    return found


def _add(found: Places, owner: Any) -> None:
    """Collects what a module and its classes have, or a class."""
    known = dict(vars(owner))
    found[_name(owner)] = owner, known
    for value in known.values() if inspect.ismodule(owner) else ():
        if isinstance(value, type) and _root(value) in {"torch", "routebench"} and _name(value) not in found:
            _add(found, value)


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, property | staticmethod | classmethod)


def _put_back(places: Places) -> list[str]:
    """Restores replaced members, and removes new ones that hide inherited ones. New names in modules hide nothing."""
    changed = []
    for owner_name, (owner, known) in places.items():
        now = vars(owner)
        if len(now) == len(known) and all(map(operator.is_, now.values(), known.values())):
            continue  # of thousands, nearly all
        for name, before in known.items():
            if now.get(name) is before or not _is_code(before) or _is_wrapped_by_torch(now.get(name), before):
                continue
            with contextlib.suppress(TypeError, AttributeError):  # a class of C keeps what it has
                setattr(owner, name, before)
                changed.append(f"{owner_name}.{name}")
        new = [name for name in now if name not in known] if inspect.isclass(owner) else []
        for name in new:
            if _is_code(now[name]) and hasattr(super(owner, owner), name):
                delattr(owner, name)
                changed.append(f"{owner_name}.{name}")
    return changed


def _is_wrapped_by_torch(now: Any, before: Any) -> bool:
    """Tells if torch itself wrapped it: an optimizer's `step` with its first instance, seeding when it compiles."""
    code = getattr(now, "__code__", None)
    return code is not None and code.co_filename.startswith(TORCH) and getattr(now, "__wrapped__", None) is before


def _set_back(modes: dict[str, Any]) -> list[str]:
    changed = [name for name, (get, _) in MODES.items() if get() != modes[name]]
    for name in changed:
        MODES[name][1](modes[name])
    return changed


def _name(owner: Any) -> str:
    return owner.__name__ if inspect.ismodule(owner) else f"{owner.__module__}.{owner.__qualname__}"


def _root(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]
