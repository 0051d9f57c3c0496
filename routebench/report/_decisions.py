"""Decisions of the runs of one suite, as values: who leads, and what routing gains over uniform routing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from routebench.analysis import Estimate, Method, Runs, Verdict, among, standing
from routebench.analysis.comparison import Comparison, comparison_of, settled
from routebench.analysis.contenders import is_tied
from routebench.analysis.named import over_first

TIED = (Verdict.OPEN, Verdict.EQUAL)


@dataclass(frozen=True)
class Leader:
    """The method of the highest mean, and whether its lead is significant; over all rows, baselines too.

    Args:
        method: the method of the highest mean; in a tie, a routing method before a baseline.
        mean: its accuracy, %.
        among: the methods of which it is the first, in words; empty for all.
        routed: the routing method of the highest mean; None if only baselines finished.
        over: the verdict of the leader against each other method, over all pairs.
        complete: whether every planned method has a result.
        level: other methods with the same mean.
    """

    method: Method
    mean: Estimate
    among: str
    routed: Method | None
    over: Mapping[Method, Verdict]
    complete: bool
    level: tuple[Method, ...] = ()

    @classmethod
    def of(cls, found: Comparison) -> "Leader":
        """The leader of a comparison in which at least one method has a result."""
        rows = found.measured.to_dict("records")
        routed = [row for row in rows if not row["method"].is_control]
        level = [row for row in routed[:1] if standing(row, "mean") <= standing(rows[0], "mean")]
        lead = next(iter(level), rows[0])
        over = {row["method"]: found.verdict(lead["method"], row["method"]) for row in rows if row is not lead}
        best = routed[0]["method"] if routed else None
        return cls(
            lead["method"], lead["mean"], among(found.measured["method"]), best, over,
            len(rows) == len(found.table), _level(rows, lead),
        )  # fmt: skip

    @property
    def peers(self) -> tuple[Method, ...]:
        """Methods that do not differ significantly from the leader."""
        return tuple(method for method, verdict in self.over.items() if verdict in TIED)

    @property
    def beaten_by(self) -> tuple[Method, ...]:
        """Methods that are significantly better on the seeds that both finished: the leader's others were luckier."""
        return tuple(method for method, verdict in self.over.items() if verdict is Verdict.WORSE)

    @property
    def untested(self) -> tuple[Method, ...]:
        """Methods that no test compares with the leader."""
        return tuple(method for method, verdict in self.over.items() if verdict is Verdict.UNTESTABLE)

    @property
    def is_shown(self) -> bool:
        """Tells whether the leader is significantly ahead of all others."""
        return bool(self.over) and set(self.over.values()) == {Verdict.BETTER}


@dataclass(frozen=True)
class Gain:
    """A planned comparison: one method against uniform routing, in points."""

    method: Method
    estimate: Estimate

    def place(self) -> tuple[bool, float, float]:
        """Sort key: the largest gain first, behind those of methods with more of their seeds."""
        return standing({"method": self.method, "gain": self.estimate}, "gain")

    @property
    def verdict(self) -> Verdict:
        """Verdict at 5 %, after Holm's correction over all methods."""
        return self.estimate.verdict


@dataclass(frozen=True)
class Decisions:
    """The decisions of a suite of accuracies.

    Args:
        leader: None where nothing was measured.
        measured: number of methods with a result; those that are the same function count once.
        baseline: whether uniform routing has a result.
        gains: gain of each routing method over uniform routing on the same network, the largest first.
        ties: the leader's lead over each method that it beats by the same margin on every seed, where a t-test is
            undefined.
        iterating: the leading routing method minus the same with one iteration, its p corrected over all methods and T;
            None without such a pair, and where one iteration is uniform routing, over which it gains already.
        comparison: the comparison behind the decisions.
    """

    leader: Leader | None
    measured: int
    baseline: bool
    gains: tuple[Gain, ...]
    ties: Mapping[Method, Estimate]
    iterating: Gain | None
    comparison: Comparison

    @classmethod
    def of(cls, runs: Runs) -> "Decisions":
        """Decides from all that was measured."""
        found = comparison_of(runs)
        leader = Leader.of(found) if len(found.measured) else None
        homes = {method.model for method in found.contenders if method.is_base}
        gains = tuple(
            Gain(row["method"], row["gain"])
            for row in found.measured.to_dict("records")
            if row["gain"].known and not row["method"].is_control and row["method"].model in homes
        )
        ranked = tuple(sorted(gains, key=Gain.place))
        iterating = _iterating(runs, found, leader.routed) if leader and leader.routed else None
        ties = _ties(runs, leader) if leader else {}
        return cls(leader, len(found.measured), found.baseline is not None, ranked, ties, iterating, found)

    def with_verdict(self, verdict: Verdict) -> tuple[Gain, ...]:
        """The routing methods that are significantly better, or worse, than uniform routing."""
        return tuple(gain for gain in self.gains if gain.verdict is verdict)

    @property
    def plans_baseline(self) -> bool:
        """Tells whether uniform routing was to run at all."""
        return any(method.is_base for method in self.comparison.contenders)

    @property
    def over_control(self) -> tuple[Gain, Method] | None:
        """The best routing method against the best baseline on its network; None without either."""
        best = self.leader.routed if self.leader else None
        rows = [
            one for one in self.comparison.measured["method"] if one.is_control and best and one.model == best.model
        ]
        if best is None or not rows:
            return None
        control = rows[0]
        pairs = self.comparison.pairs
        found = pairs[best, control] if (best, control) in pairs else -pairs.get((control, best), Estimate())
        return Gain(best, found), control

    @property
    def absent(self) -> tuple[Method, ...]:
        """The methods that the user named, where no run of any of them finished."""
        own = [method for method in self.comparison.contenders if method.yours]
        done = any(method.yours for method in self.comparison.every["method"])
        return () if done else tuple(own)

    @property
    def gain_of_leader(self) -> Gain | None:
        """The leader's gain over uniform routing; None where it is a baseline."""
        return next((gain for gain in self.gains if self.leader and gain.method == self.leader.method), None)

    @property
    def yours(self) -> tuple[Gain, ...]:
        """The methods that the user named, each with its largest T, among them the same function as another."""
        longest: dict[Method, Gain] = {}
        rows = self.comparison.every.to_dict("records") if self.baseline else []
        gains = [Gain(row["method"], row["gain"]) for row in rows if row["gain"].known and not row["method"].is_control]
        for gain in sorted(gains, key=Gain.place):
            known = longest.get(gain.method.family)
            if gain.method.yours and (known is None or (gain.method.iterations or 0) > (known.method.iterations or 0)):
                longest[gain.method.family] = gain
        return tuple(longest.values())


def _ties(runs: Runs, leader: Leader) -> dict[Method, Estimate]:
    leads = {one: settled(runs).difference(leader.method, one) for one in leader.untested}
    return {one: lead for one, lead in leads.items() if is_tied(lead)}


def _level(rows: Sequence[Mapping[Any, Any]], lead: Mapping[Any, Any]) -> tuple[Method, ...]:
    place = standing(lead, "mean")
    return tuple(row["method"] for row in rows if row is not lead and standing(row, "mean") == place)


def _iterating(runs: Runs, compared: Comparison, best: Method) -> Gain | None:
    """The method against its own first iteration. The data chose it, so p is corrected for all such pairs."""
    if any(other.label == best.label for method in compared.contenders if method.is_base for other in method.same):
        return None
    found = {(one.label, one.model, one.iterations): gain for one, gain in over_first(runs).items()}
    gain = found.get((best.label, best.model, best.iterations))
    return None if gain is None else Gain(best, gain)
