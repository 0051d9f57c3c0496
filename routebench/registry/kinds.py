"""What is wrong with an object that is to be registered, in words that end a message; empty if nothing is.

Classes are known by the names of their bases, so that nothing heavy is imported here.
"""

import inspect
from typing import Any

ROUTING_METHOD = "routebench.routing.base.RoutingMethod"
PROTOCOL = "routebench.protocols.base.Protocol"


def fault_of_method(entry: Any) -> str:
    """A routing method is a whole class of its kind, each of its hyperparameters with a default."""
    if fault := _fault_of_class(entry, ROUTING_METHOD, "routing.RoutingMethod"):
        return fault
    for argument in inspect.signature(entry.__init__).parameters.values():
        if argument.kind is argument.KEYWORD_ONLY and argument.default is argument.empty:
            return f"expected a default for every hyperparameter, got none for {argument.name!r}; give it one"
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
    return ""


def fault_of_function(entry: Any) -> str:
    """A data set and an analysis are functions."""
    if inspect.isclass(entry) or not callable(entry):
        return f"expected a function, got {_named(entry)}; register the function"
    return ""


def is_a(entry: Any, base: str) -> bool:
    """Whether an object is a class with this base, which is given as `module.Name`."""
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
