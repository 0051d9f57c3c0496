"""One p for every difference of accuracies of a suite: each belongs to one family, whose correction it has everywhere.

A difference belongs to the first of these families that asks for it:

1. the comparisons that the suite named beforehand;
2. each method against uniform routing;
3. each method against its own first iteration;
4. each variant of a method against its plain form;
5. every other pair.

Holm's correction is over all members of a family, also over those that an earlier one has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from routebench import statistics
from routebench.analysis._estimate import Estimate, base_of, corrected
from routebench.analysis._method import BASELINE, Method
from routebench.analysis._runs import Runs
from routebench.analysis._verdicts import MARGIN, Verdict
from routebench.analysis.contenders import Contender, contenders_of, difference_between, distinct, p_beyond_between
from routebench.catalogue import shown_as

Key = tuple[str, str, int | None]
"""Label, network and T."""
Pair = tuple[Contender, Contender]
Keys = tuple[Key, Key]


@dataclass(frozen=True)
class Differences:
    """The differences of a suite.

    Args:
        differences: ours minus theirs by their keys, with p corrected within their family.
        beyond: the p of a difference of the margin or more, either way, corrected in the same way.
        together: p corrected over all pairs, which ranks need; the first has the higher mean difference.
        shown: the key of what represents each method; equal functions share one.
        margin: the smallest difference that matters, in points.
    """

    differences: Mapping[Keys, Estimate]
    beyond: Mapping[Keys, float]
    together: Mapping[Keys, float]
    shown: Mapping[Key, Key]
    margin: float

    def difference(self, ours: Method, theirs: Method) -> Estimate:
        """`ours - theirs` in points; unknown where one has no result.

        Args:
            ours, theirs: methods of the suite.
        """
        pair = self._pair(ours, theirs)
        return self.differences[pair] if pair in self.differences else -self.differences.get(pair[::-1], Estimate())

    def p_beyond(self, ours: Method, theirs: Method) -> float:
        """The p of a difference of the margin or more, either way; NaN where there is no test.

        Args:
            ours, theirs: methods of the suite.
        """
        pair = self._pair(ours, theirs)
        return self.beyond.get(pair, self.beyond.get(pair[::-1], np.nan))

    def p_together(self, ours: Method, theirs: Method) -> float:
        """The p of their difference, corrected over all pairs.

        Args:
            ours, theirs: methods of the suite.
        """
        pair = self._pair(ours, theirs)
        return self.together.get(pair, self.together.get(pair[::-1], np.nan))

    def verdict(self, ours: Method, theirs: Method) -> Verdict:
        """The verdict on their difference.

        Args:
            ours, theirs: methods of the suite.
        """
        found = self.difference(ours, theirs)
        return Verdict.of(found.mean, found.p_holm, self.p_beyond(ours, theirs))

    def _pair(self, ours: Method, theirs: Method) -> Keys:
        one, other = (key_of(method) for method in (ours, theirs))
        return self.shown.get(one, one), self.shown.get(other, other)


_KNOWN: WeakKeyDictionary[Runs, Differences] = WeakKeyDictionary()


def settled(runs: Runs) -> Differences:
    """The differences between the methods of a suite, each with one interval, one p and one verdict.

    Args:
        runs: the runs of a suite.
    """
    if runs not in _KNOWN:
        _KNOWN[runs] = _settled(runs)
    return _KNOWN[runs]


def _settled(runs: Runs) -> Differences:
    every = contenders_of(runs)
    own = distinct(runs)
    by_key = {key_of(one.method): one for one in own}
    shown = {key_of(each): key_of(one.method) for one in own for each in (one.method, *one.method.same)}
    margin = float(runs.primary["margin"]) if runs.primary else MARGIN
    measured = [one for one in own if one.accuracies]
    named, pairs = named_of(runs, every), [*combinations(measured, 2)]
    families = [named, gains_in(runs, own), iterated_in(every), _variants_in(every, runs.model), pairs]

    def keys(pair: Pair) -> Keys:
        one, other = (shown[key_of(each.method)] for each in pair)
        return one, other

    raw: dict[Keys, Estimate] = {}
    p_beyond: dict[Keys, float] = {}

    def difference(pair: Keys) -> Estimate:
        if pair not in raw:
            other = raw.get(pair[::-1])
            raw[pair] = difference_between(runs, by_key[pair[0]], by_key[pair[1]]) if other is None else -other
        return raw[pair]

    def beyond(pair: Keys) -> float:
        if pair not in p_beyond:
            other = p_beyond.get(pair[::-1])
            p_beyond[pair] = (
                p_beyond_between(runs, by_key[pair[0]], by_key[pair[1]], margin) if other is None else other
            )
        return p_beyond[pair]

    found: dict[Keys, Estimate] = {}
    found_beyond: dict[Keys, float] = {}
    for family in families:
        members = [*map(keys, family)]
        _add(found, members, corrected(map(difference, members), len(named) if family is named else None))
        if family is named or family is pairs:
            p_holm = statistics.holm([beyond(pair) for pair in members], len(members))
            _add(found_beyond, members, map(float, p_holm))
    together = corrected(difference(keys(pair)) for pair in pairs)
    return Differences(
        found,
        found_beyond,
        {keys(pair): one.p_holm for pair, one in zip(pairs, together, strict=True)},
        shown,
        margin,
    )


def _add(known: dict[Keys, Any], members: Sequence[Keys], found: Iterable[Any]) -> None:
    """Adds what no earlier family has, in either direction."""
    earlier = {pair for one in known for pair in (one, one[::-1])}
    known.update((pair, value) for pair, value in zip(members, found, strict=True) if pair not in earlier)


def named_of(runs: Runs, contenders: Iterable[Contender]) -> list[Pair]:
    """The comparisons of a suite's plan, in its order, of which both sides were planned; none where it names none.

    Args:
        runs: the runs of a suite.
        contenders: all that were planned.
    """
    known = {key_of(one.method): one for one in contenders}
    found = [(known.get(ours), known.get(theirs)) for ours, theirs in pairs_in(runs.primary)]
    return [(ours, theirs) for ours, theirs in found if ours is not None and theirs is not None]


def pairs_in(primary: Mapping[str, Any]) -> list[Keys]:
    """The comparisons that a plan names, ours first.

    Args:
        primary: the plan's `primary`; empty where it names none.
    """
    return [(_entry(pair["ours"]), _entry(pair["theirs"])) for pair in primary.get("pairs", ())]


def gains_in(runs: Runs, contenders: Sequence[Contender]) -> list[Pair]:
    """Each method beside uniform routing: those of its own network, else those of the suite's.

    Args:
        runs: the runs of a suite.
        contenders: those that are paired, uniform routing among them.
    """
    bases = {one.method: one for one in contenders if one.method.name == BASELINE and one.accuracies}
    ordered = sorted(bases, key=lambda method: method.model != runs.model)
    own = [(one, base_of(one.method, BASELINE, ordered)) for one in contenders]
    return [(one, bases[theirs]) for one, theirs in own if theirs is not None and bases[theirs] is not one]


def iterated_in(contenders: Iterable[Contender]) -> list[Pair]:
    """Each method with more iterations beside itself with one, or beside its equal where that was not run."""
    known = {key_of(one.method): one for one in contenders if one.accuracies}
    pairs = [
        (one, known.get((label, model, 1)) or known.get((first_of(one.method), model, None)))
        for (label, model, steps), one in known.items()
        if (steps or 0) > 1
    ]
    return [(one, first) for one, first in pairs if first is not None]


def first_of(method: Method) -> str:
    """Label of the method that this is with one iteration, to the last bit, in the same variant; empty without one."""
    name = "" if method.params else shown_as(method.name).get("first_is", "")
    return f"{name} ({method.variant})" if name and method.variant else name


def _variants_in(contenders: Iterable[Contender], model: str) -> list[Pair]:
    """Each variant of a method beside its plain form, at the same T."""
    return [(one, base) for base, others in variants_of(contenders, model) for one in others]


def variants_of(contenders: Iterable[Contender], model: str) -> list[tuple[Contender, list[Contender]]]:
    """The plain form and the others, for every method and T with variants.

    The plain form has the suite's network, a result, and the fewest settings changed from the defaults; in a tie, the
    first by name.

    Args:
        contenders: those of a suite.
        model: the suite's network.
    """
    known: dict[tuple[str, int], list[Contender]] = {}
    for one in contenders:
        known.setdefault((one.method.name, one.method.iterations or 0), []).append(one)
    found = []
    for members in known.values():
        base, *others = sorted(
            members,
            key=lambda one: (not one.accuracies, one.method.model != model, _changed(one.method), one.method.label),
        )
        if others and base.accuracies:
            found.append((base, others))
    return found


def _changed(method: Method) -> int:
    """Number of settings that its label changes."""
    return (method.params.count(",") + 1 if method.params else 0) + bool(method.variant)


def key_of(method: Method) -> Key:
    """The key that tells a method from others in plans."""
    return method.label, method.model, method.iterations


def _entry(named: Mapping[str, Any]) -> Key:
    return str(named["label"]), str(named["model"]), named["iterations"]
