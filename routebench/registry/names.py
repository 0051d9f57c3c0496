"""What knows the objects of one kind by name."""

import importlib
import pkgutil
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from routebench.errors import UserError, unknown
from routebench.registry.files import import_file
from routebench.registry.origin import SHIPPED, loading, origin_of, same_definition, shipped

Registered = TypeVar("Registered", bound=Callable[..., Any])

_NAME = re.compile(r"\w[\w.:+-]*", re.ASCII)
"""What `--method NAME[k=v]`, a file name and a TOML key can all hold, and no two of which look alike."""


class Registry:
    """The known objects of one kind.

    Those of routebench are the modules of `package`. They are imported on the first look-up, so that importing a
    registry is cheap; then those of installed packages, whose entry point group is `package`, and those of the plug-ins
    in the environment.

    Args:
        kind: what an entry is, in words, for error messages.
        package: the package whose modules register the shipped entries; also the entry point group.
        fault: says what is wrong with an object that is to be registered; empty if nothing is.
        shipped_as_files: the modules lie in a top-level folder of the repository (`analyses/`), not in a package.
        also: further packages whose modules register shipped entries of this kind.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        *,
        fault: Callable[[Any], str] = lambda _: "",
        shipped_as_files: bool = False,
        also: Sequence[str] = (),
    ):
        self.kind = kind
        self.package = package
        self.fault = fault
        self.shipped_as_files = shipped_as_files
        self.also = also
        self._entries: dict[str, Callable[..., Any]] = {}
        self._origins: dict[str, str] = {}
        self._loading = self._loaded = False
        self._clash: tuple[str, UserError] | None = None

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """A decorator that enters a class or function under `name`.

        Raises:
            UserError: the name is taken or cannot be typed, or the object is not of this kind.
        """
        if not _NAME.fullmatch(str(name)):  # a class, where the parentheses were forgotten
            raise UserError(
                f"{self.kind}: expected a name without spaces as in @register('my-name'), "
                f"got {name!r:.80}{beyond_ascii(str(name))}"
            )

        def enter(entry: Registered) -> Registered:
            if fault := self.fault(entry):
                raise UserError(f"{self.kind} {name!r} of {origin_of(entry)}: {fault}")
            self._enter(name, entry)
            return entry

        return enter

    def _enter(self, name: str, entry: Callable[..., Any]) -> None:
        origin, taken = origin_of(entry), self._entries.get(name)
        if taken is not None and not same_definition(taken, entry):
            first, second = self.origin(name), origin
            if second == SHIPPED:  # which was looked at late
                first, second = second, first
                self._entries[name], self._origins[name] = entry, SHIPPED
            clash = UserError(f"{self.kind} {name!r} of {second} is taken by {first}; choose another name")
            if not self._loading:
                raise clash
            self._clash = self._clash or (second, clash)  # all that is loaded meanwhile has to be whole
            return
        self._entries[name], self._origins[name] = entry, origin

    def drop(self, origin: str) -> None:
        """Takes out what one origin has registered."""
        for name in self.of(origin):
            del self._entries[name]
        if self._clash and self._clash[0] == origin:
            self._clash = None

    def origin(self, name: str) -> str:
        """Where an entry comes from: `SHIPPED`, or words that name a package, a plug-in or a module."""
        return self._origins.get(name, SHIPPED)

    def of(self, origin: str) -> list[str]:
        """The names that one origin has registered so far."""
        return sorted(name for name in self._entries if self.origin(name) == origin)

    def names_of(self, entry: object) -> list[str]:
        """The names that an object is registered under so far."""
        return sorted(name for name, known in self._entries.items() if known is entry)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        self.load()
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        self.load()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self.load()
        return len(self._entries)

    @property
    def is_loaded(self) -> bool:
        """Whether somebody has looked into it, so that its modules are imported."""
        return self._loaded

    def load(self) -> None:
        """Imports what routebench and installed packages bring, and the plug-ins of the environment, once.

        Raises:
            UserError: two of them have the same name.
        """
        if not self._loaded and not self._loading:  # the modules imported below may look things up here
            self._loading = True
            try:
                self._load_everything()
                self._loaded = True
            finally:
                self._loading = False
        if self._clash and not self._loading:
            raise self._clash[1]

    def _load_everything(self) -> None:
        from routebench.registry.installed import load_installed
        from routebench.registry.plugins import load_environment

        with loading(SHIPPED):
            if self.shipped_as_files:
                for file in sorted(shipped(self.package.rpartition(".")[2]).glob("*.py")):
                    import_file(file)
            else:
                for package in (self.package, *self.also):
                    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
                        importlib.import_module(f"{package}.{module.name}")
        load_installed(self)
        load_environment()


def beyond_ascii(name: str) -> str:
    """Says which letter of a name is not ASCII, and may look like one that is; empty if all are."""
    found = next((letter for letter in name if not letter.isascii()), "")
    known = unicodedata.name(found, "without a name") if found else ""
    return f"; write it in ASCII: its letter {found!a}, {known}, may look like another" if found else ""
