"""The objects of one kind by name, and what an object must be to be registered."""

import functools
import inspect
import re
import unicodedata
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from routebench.errors import UserError, nearest, one_line, unknown
from routebench.registry._loaded import keep_source
from routebench.registry._origin import SHIPPED, Registration, origin_of, same_definition

Registered = TypeVar("Registered", bound=Callable[..., Any])

ROUTING_METHOD = "routebench.routing.base.RoutingMethod"
PROTOCOL = "routebench.protocols.base.Protocol"
RETURNED = {"data": re.compile(r"\bDataset\b"), "analyses": re.compile(r"\bAnalysis\b")}
"""Patterns of the annotated result of a function that tell its kind."""
OF_TRAINING = {
    "losses": ("loss", ("output", "labels", "moment")),
    "optimizers": ("optimizer", ("groups", "recipe")),
    "schedules": ("schedule", ("recipe", "moment")),
    "augmentations": ("augmentation", ("images", "generator")),
}
"""Functions that training is made of, by registry: the kind, and the arguments that training gives. All others are
hyperparameters, which are keyword-only."""

PATH = ":PATH"
"""The end of the name of a loader that gets what follows the colon of a name."""
_OF_MAKE = ("name", "sizes")
"""Arguments of `routing.make` besides hyperparameters."""
_NAME = re.compile(r"\w[\w.:+-]*", re.ASCII)
"""Names that `--method NAME[k=v]`, a file name and a TOML key can all hold, and no two of which look alike."""


class Registry:
    """The objects of one kind by name. The first look-up loads what there is, so that importing a registry is cheap.

    Args:
        kind: the kind of its entries, in words, for error messages.
        package: the package of the shipped entries; also the entry point group of installed packages.
        fault: says what is wrong with an object that is to be registered; empty if nothing is.
        load: imports whatever registers entries here.
    """

    def __init__(
        self, kind: str, package: str, fault: Callable[[Any], str], load: Callable[["Registry"], None]
    ) -> None:
        self.kind = kind
        self.package = package
        self.entries: dict[str, Callable[..., Any]] = {}
        """Entries by name, as far as registered: a look-up in the registry itself loads the rest first."""
        self.is_loaded = False
        self._fault = fault
        self._load = load
        self._origins: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._places: dict[str, Registration] = {}
        self._loading = False
        self._clash: tuple[str, UserError] | None = None

    def register(self, name: str, *, version: int | None = None) -> Callable[[Registered], Registered]:
        """A decorator that enters a class or function under `name`.

        Args:
            name: the name that users type.
            version: version of its numbers, from 1: whoever changes what it computes raises it, and earlier results are
                of an earlier version. For what ships, None is 1. What comes from elsewhere has none unless it says one:
                a hash of its files distinguishes its results.

        Raises:
            UserError: the name is taken or cannot be typed, or the object is not of this kind.
        """
        if version is not None and (type(version) is not int or version < 1):
            raise UserError(f"{self.kind} {name!r}: expected a version from 1, got {version!r:.80}")
        if not _NAME.fullmatch(str(name)):  # a class, where the parentheses were forgotten
            raise UserError(
                f"{self.kind}: expected a name without spaces as in @register('my-name'), "
                f"got {name!r:.80}{beyond_ascii(str(name))}"
            )

        def enter(entry: Registered) -> Registered:
            if fault := self._fault(entry):
                raise UserError(f"{self.kind} {name!r} of {origin_of(entry)}: {fault}")
            self._enter(name, entry)
            if self.entries[name] is entry:  # and not taken by another
                self._versions.pop(name, None)
                self._versions |= {} if version is None else {name: version}
            return entry

        return enter

    def _enter(self, name: str, entry: Callable[..., Any]) -> None:
        origin, taken, place = origin_of(entry), self.entries.get(name), Registration.now()
        if taken is not None and taken is not entry and place.is_again(self._places[name]):
            self._refuse(name, origin, str(place), str(self._places[name]))
            return
        if taken is not None and not same_definition(taken, entry):
            first, second = self.origin(name), origin
            if second == SHIPPED:  # which was looked at late
                first, second = second, first
                self.entries[name], self._origins[name] = entry, SHIPPED
            self._refuse(name, second, second, first)
            return
        self.entries[name], self._origins[name], self._places[name] = entry, origin, place
        if origin != SHIPPED:
            keep_source(entry.__module__)

    def _refuse(self, name: str, origin: str, second: str, first: str) -> None:
        """Raises UserError for the second of two entries of a name, or keeps it while everything is loaded."""
        clash = UserError(f"{self.kind} {name!r} of {second} is taken by {first}; choose another name")
        if not self._loading:
            raise clash
        self._clash = self._clash or (origin, clash)  # all that is loaded meanwhile has to be whole

    def drop(self, origin: str) -> None:
        """Takes out what one origin has registered."""
        for name in self.of(origin):
            del self.entries[name]
            self._versions.pop(name, None)
        if self._clash and self._clash[0] == origin:
            self._clash = None

    def origin(self, name: str) -> str:
        """The origin of an entry: `SHIPPED`, or words that name a package, a plug-in or a module."""
        return self._origins.get(name, SHIPPED)

    def version(self, name: str) -> int | None:
        """The version of an entry's numbers; None where a hash of its files stands for it."""
        self.load()
        return self._versions.get(name, 1 if self.origin(name) == SHIPPED else None)

    def of(self, origin: str) -> list[str]:
        """The names that one origin has registered so far."""
        return sorted(name for name in self.entries if self.origin(name) == origin)

    @property
    def is_shipped(self) -> bool:
        """Tells whether everything registered so far is routebench's own."""
        return {*self._origins.values()} <= {SHIPPED}

    def names_of(self, entry: object) -> list[str]:
        """The names that an object is registered under so far."""
        return sorted(name for name, object_ in self.entries.items() if object_ is entry)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        self.load()
        if name not in self:
            raise unknown(self.kind, str(name), self.entries, shipped=self.is_shipped)
        entry = self.entries[name]
        return _checked(name, entry) if name.endswith(PATH) and self.origin(name) == SHIPPED else entry

    def __contains__(self, name: object) -> bool:
        self.load()
        return isinstance(name, str) and name in self.entries

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self.entries))

    def __len__(self) -> int:
        self.load()
        return len(self.entries)

    def load(self) -> None:
        """Loads what there is, once.

        Raises:
            UserError: two entries have the same name.
        """
        if not self.is_loaded and not self._loading:  # the modules imported below may look things up here
            self._loading = True
            try:
                self._load(self)
                self.is_loaded = True
            finally:
                self._loading = False
        if self._clash and not self._loading:
            raise self._clash[1]


def _checked(name: str, load: Callable[..., Any]) -> Callable[..., Any]:
    """A loader that gets a part of a name: one that makes no sense, such as more folds than images, is the user's."""

    @functools.wraps(load)
    def checked(path: str) -> Any:
        try:
            return load(path)
        except ValueError as error:
            what = f"{name.removesuffix(PATH)}:{path}"
            raise UserError(
                f"data set {what!r:.80} cannot be had: {one_line(error)}; correct its name, or its loader"
            ) from error

    return checked


SHOWN = ("title", "colour", "first_is", "note")
"""Facts that a method, or a network, may state of how it is shown."""
HUES = ("blue", "red", "green", "purple", "sand", "teal", "brown", "indigo", "crimson", "olive")
"""Names of the colours of figures, in the order of `routebench.analysis.palette`; `muted` is its grey."""


def fault_of_shown(of: Any) -> str:
    """Titles and the like are text, and a colour is one of those of figures."""
    wrong = [key for key in SHOWN if not isinstance(getattr(of, key, ""), str)]
    if wrong:
        return f"expected text for {wrong[0]!r}, got {getattr(of, wrong[0])!r:.80}; write a text"
    colour, known = getattr(of, "colour", ""), (*HUES, "muted")
    if colour and colour not in known:
        return f"unknown colour {colour!r:.40}{nearest(colour, known)}"
    return ""


def fault_of_method(entry: Any) -> str:
    """A routing method is a whole class of its kind, each of its hyperparameters with a default."""
    if fault := _fault_of_class(entry, ROUTING_METHOD, "routing.RoutingMethod") or fault_of_shown(entry):
        return fault
    for argument in inspect.signature(entry.__init__).parameters.values():
        if argument.kind is argument.KEYWORD_ONLY and argument.default is argument.empty:
            return f"expected a default for every hyperparameter, got none for {argument.name!r}; give it one"
        if argument.kind is argument.KEYWORD_ONLY and argument.name in _OF_MAKE:
            return f"expected no hyperparameter called {argument.name!r}, as `routing.make` takes; rename it"
    return ""


def fault_of_protocol(entry: Any) -> str:
    """A protocol is a whole class of its kind."""
    return _fault_of_class(entry, PROTOCOL, "protocols.Protocol")


def fault_of_model(entry: Any) -> str:
    """A model is a function or class with facts."""
    if not callable(entry):
        return f"expected a function that builds a network, got {entry!r:.80}; register the function"
    if not hasattr(entry, "facts"):
        return "expected to know where the network is from, got nothing; put @models.facts(...) under @models.register"
    return fault_of_shown(entry.facts)


def fault_of_function(entry: Any) -> str:
    """A data set and an analysis are functions."""
    if inspect.isclass(entry) or not callable(entry):
        return f"expected a function, got {_named(entry)}; register the function"
    return ""


def fault_of_training(arguments: tuple[str, ...], entry: Any) -> str:
    """A part of training takes what training gives, and each of its hyperparameters has a default."""
    if fault := fault_of_function(entry):
        return fault
    found = inspect.signature(entry).parameters.values()
    given = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    bare = [one.name for one in found if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if len(given) != len(arguments) or len(given) + len(hyperparameters_of_function(entry)) < len(found):
        expected = ", ".join(arguments)
        return (
            f"expected a function of {expected}, its hyperparameters after a *, got {inspect.signature(entry)}; "
            "correct its arguments"
        )
    return f"expected a default for every hyperparameter, got none for {bare[0]!r}; give it one" if bare else ""


def hyperparameters_of_function(entry: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments of a function, with their defaults."""
    found = inspect.signature(entry).parameters.values()
    return {argument.name: argument.default for argument in found if argument.kind is argument.KEYWORD_ONLY}


def is_a(entry: Any, base: str) -> bool:
    """Tells whether an object is a class with this base, which is given as `module.Name`."""
    return inspect.isclass(entry) and base in {f"{kind.__module__}.{kind.__qualname__}" for kind in entry.__mro__}


def _fault_of_class(entry: Any, base: str, public: str) -> str:
    if not is_a(entry, base):
        return f"expected a subclass of {public}, got {_named(entry)}; derive it from {public}"
    missing = sorted(getattr(entry, "__abstractmethods__", ()))
    return f"expected it to define {' and '.join(missing)}, got nothing; define it" if missing else ""


def _named(entry: Any) -> str:
    if inspect.isclass(entry):
        return f"class {entry.__name__}"
    return f"function {entry.__name__}" if inspect.isroutine(entry) else f"{entry!r:.80}"


def candidates(module: ModuleType) -> list[str]:
    """The definitions of a module that can be registered without a decorator."""
    own = {name: entry for name, entry in vars(module).items() if getattr(entry, "__module__", "") == module.__name__}
    return [name for name, entry in own.items() if not name.startswith("_") and kind_of(entry)]


def kind_of(entry: Any) -> str:
    """The name of the registry that suits it, such as `methods` or `losses`; empty where that cannot be told."""
    if is_a(entry, ROUTING_METHOD):
        return "methods"
    if is_a(entry, PROTOCOL):
        return "protocols"
    if callable(entry) and type(getattr(entry, "facts", None)).__name__ == "Facts":
        return "models"
    if not inspect.isfunction(entry):
        return ""
    given = tuple(inspect.signature(entry).parameters)
    for kind, (_, arguments) in OF_TRAINING.items():
        if given[: len(arguments)] == arguments:
            return kind
    returned = str(inspect.get_annotations(entry).get("return", ""))
    return next((kind for kind, sign in RETURNED.items() if sign.search(returned)), "")


def kebab(name: str) -> str:
    """`cosine-routing` for `CosineRouting` and for `cosine_routing`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name)
    return words.replace("_", "-").strip("-").lower()


def beyond_ascii(name: str) -> str:
    """Says which letter of a name is not ASCII, and may look like one that is; empty if all are."""
    odd = next((letter for letter in name if not letter.isascii()), "")
    called = unicodedata.name(odd, "without a name") if odd else ""
    return f"; write it in ASCII: its letter {odd!a}, {called}, may look like another" if odd else ""
