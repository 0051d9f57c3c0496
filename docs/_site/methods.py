"""What the pages of the routing methods take from the code: docstrings, hyperparameters, claims, and counted sweeps."""

import inspect
import re
from collections.abc import Iterable
from typing import Any

import torch
from annotated_types import Ge, Gt, Le, Lt
from sources import explained

from routebench import arguments
from routebench.capsules import Competition, Sizes, Votes
from routebench.catalogue import catalogue
from routebench.claims import Claim
from routebench.errors import UserError
from routebench.export import citations_of
from routebench.registry import routing
from routebench.routing import IterativeRouting, Routed, RoutingMethod, hyperparameters_of, make

CLASS_LAYER = Sizes(children=1152, parents=10, pose=16, pose_below=8)
"""Of CapsNet, where parameters are counted."""
SMALL = Sizes(children=6, parents=3, pose=4)
USES, GIVES = "Weights children by their activations", "Gives parents activations"
CONTROLS = ("uniform", "random", "static", "none", "max-pooling")
PART = re.compile(r"^(Source|Departures): ", re.MULTILINE)


def parts_of(name: str) -> dict[str, str]:
    """A method's docstring up to its arguments: the `first` sentence, its `notes`, `Source` and `Departures`."""
    written = (inspect.getdoc(routing[name]) or "").split("\nArgs:\n")[0]
    first, _, rest = written.partition("\n\n")
    found = {"first": first, "Source": "", "Departures": ""}
    found["notes"], *others = PART.split(rest)
    found |= dict(zip(others[::2], others[1::2], strict=True))
    return {part: text.strip() for part, text in found.items()}


def facts(name: str) -> list[tuple[str, str]]:
    """What can be said of a method in a word each."""
    method = make(name, CLASS_LAYER)
    told = {part: " ".join(text.split()) for part, text in parts_of(name).items()}  # a row of a table is one line
    return [
        ("In a sentence", as_markdown(told["first"])),
        ("Source", as_markdown(told["Source"])),
        ("Kind", "baseline" if name in CONTROLS else "routing method"),
        ("Iterative", "yes" if isinstance(method, IterativeRouting) else "no"),
        (USES, _yes(name, "uses_activations")),
        (GIVES, _yes(name, "gives_activations")),
        ("Learned numbers of its own", f"{_parameters(method):,} in the class layer of CapsNet"),
        ("Code", f"`{type(method).__module__.replace('.', '/')}.py`, class `{type(method).__name__}`"),
    ]


def overview() -> list[list[str]]:
    """A row per method, baselines first: name, rule, iterative, activations used and given, parameters, work."""
    rows = []
    for name in [*CONTROLS, *sorted(one["name"] for one in catalogue()["methods"] if one["name"] not in CONTROLS)]:
        known = dict(facts(name))
        used, given = (re.sub(r" \(.*\)", r" \\*", known[what]) for what in (USES, GIVES))
        own = known["Learned numbers of its own"].split()[0]
        rows.append(
            [f"[`{name}`]({name}.md)", known["In a sentence"], known["Iterative"], used, given, own, work(name)[-1]]
        )
    return rows


def hyperparameters(name: str) -> list[list[str]]:
    """A row per hyperparameter: name, default, legal values, and what the docstring says of it."""
    told = explained(inspect.getdoc(routing[name]) or "")
    rows = []
    for key, default in hyperparameters_of(name).items():
        if key not in told:
            raise LookupError(f"{name} does not explain {key}")
        rows.append([f"`{key}`", f"`{_word(default)}`", legal_values(name, key), told[key]])
    return rows


def legal_values(name: str, key: str) -> str:
    """Which values a hyperparameter takes, as its annotation says; of words, those that go with the other defaults."""
    legal = arguments.legal_values(routing[name].__init__)[key]
    if legal.kind is bool:
        return "`true`, `false`"
    if legal.choices:
        return ", ".join(f"`{word}`" for word in legal.choices if not _refusal(name, key, word))
    signs = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
    limits = (f"{signs[type(bound)]} {getattr(bound, type(bound).__name__.lower()):g}" for bound in legal.bounds)
    return f"{'whole numbers' if legal.kind is int else 'numbers'} {' and '.join(limits)}".strip()


def claims(name: str) -> list[str]:
    """What the method claims with its default hyperparameters."""
    held = make(name, SMALL).claims
    return [claim.value for claim in Claim if claim in held]


def work(name: str) -> list[str]:
    """What is asked of the votes, counted by running the method: in the first iteration, and in each further one.

    Of a method that does not iterate there is one entry.
    """
    if not issubclass(routing[name], IterativeRouting):
        return [_said(_asked(make(name, SMALL)))]
    once, twice = (_asked(make(name, SMALL, iterations=iterations)) for iterations in (1, 2))
    return [_said(once), _said(twice[len(once) :])]


def citation(name: str) -> str:
    """The publication as BibTeX."""
    return f"```bibtex\n{citations_of([name]).rstrip()}\n```"


class _Counting(Votes):
    """Votes that note what is asked of them."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.asked: list[str] = []

    def sweep(self, query: Any = None, **given: Any) -> Any:
        equal = query is None and given.get("curvature") is None and given.get("bias") is None
        second = " with second moments" if given.get("moments") == 2 else ""
        self.asked.append(f"{'sweep without logits' if equal else 'sweep'}{second}")
        return super().sweep(query, **given)

    def aggregate(self, coupling: Any, **given: Any) -> Any:
        self.asked.append("weighted sum (`aggregate`)")
        return super().aggregate(coupling, **given)

    def agreement(self, poses: Any) -> Any:
        self.asked.append("dot product with every vote (`agreement`)")
        return super().agreement(poses)

    def dense(self) -> Any:
        self.asked.append("every vote stored (`dense`)")
        return super().dense()


def _asked(method: RoutingMethod) -> list[str]:
    generator = torch.Generator().manual_seed(0)
    children, parents, pose = SMALL.children, SMALL.parents, SMALL.pose
    below = torch.randn(2, children, pose, generator=generator)
    weight = torch.randn(children, parents, pose, pose, generator=generator)
    votes = _Counting(below, weight, Competition(method.competition, orphan=method.orphan))
    with torch.no_grad():
        routed = method.eval()(votes, torch.ones(2, children))
    assert isinstance(routed, Routed)
    return votes.asked


def _said(asked: Iterable[str]) -> str:
    counted: dict[str, int] = {}
    for one in asked:
        counted[one] = counted.get(one, 0) + 1
    return ", ".join(f"{number} × {one}" if number > 1 else f"1 {one}" for one, number in counted.items()) or "nothing"


def _yes(name: str, attribute: str) -> str:
    """Whether a method has a property by default, and with which hyperparameter it is otherwise."""
    value = getattr(make(name, SMALL), attribute)
    others = [f"`{key}={_word(other)}`" for key, other in _alternatives(name) if _differs(name, attribute, key, other)]
    return ("yes" if value else "no") + (
        f" ({'yes' if not value else 'no'} with {', '.join(others)})" if others else ""
    )


def _differs(name: str, attribute: str, key: str, other: Any) -> bool:
    return bool(getattr(make(name, SMALL, **{key: other}), attribute) != getattr(make(name, SMALL), attribute))


def _alternatives(name: str) -> Iterable[tuple[str, Any]]:
    """Each hyperparameter that is a word or a switch, with each of its other values."""
    for key, default in hyperparameters_of(name).items():
        if isinstance(default, bool):
            yield key, not default
        elif isinstance(default, str) and key not in ("schedule", "competition"):
            yield from ((key, word) for word in legal_values(name, key).strip("`").split("`, `") if word != default)


def _refusal(name: str, key: str, value: Any) -> str:
    """What a method says to a value; empty if it takes it."""
    try:
        make(name, SMALL, **{key: value})
    except UserError as error:
        return str(error)
    return ""


def _parameters(method: RoutingMethod) -> int:
    return sum(parameter.numel() for parameter in method.parameters())


def _word(value: Any) -> str:
    """A value as the command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_markdown(text: str) -> str:
    """Text of a docstring; a formula's underscores, stars and angles are no mark-up."""
    kept = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece[:1] == "`" else re.sub(r"([*_<])", r"\\\1", piece) for piece in kept)
