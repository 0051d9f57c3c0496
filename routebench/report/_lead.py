"""Who leads a comparison, and whether these runs can say so: over all rows, controls too."""

import math
from dataclasses import dataclass

from pandas import DataFrame

from routebench.analysis import wording
from routebench.analysis._table import Row

MOST = 5  # names in a sentence


@dataclass(frozen=True)
class Leader:
    """Who leads, and who cannot be told from the leader.

    Args:
        lead: the row of the highest mean; of equal ones, a routing method's before a control's.
        best: the routing method of the highest mean; None if only controls finished.
        peers: names of the leader's rank group, as the table has them, without the leader.
        untested: names that no test compares with the leader.
        routing: how many measured rows are no controls.
        complete: whether every planned row has a result.
    """

    lead: Row
    best: Row | None
    peers: tuple[str, ...]
    untested: tuple[str, ...]
    routing: int
    complete: bool

    @classmethod
    def of(cls, table: DataFrame) -> "Leader":
        """From the table of a comparison, the best mean first, of which at least one row has a result."""
        rows: list[Row] = [*table[table["n_ok"] > 0].to_dict("records")]
        routed = [row for row in rows if row["role"] != "control"]
        best = routed[0] if routed else None
        lead = best if best is not None and equal(best, rows[0]) else rows[0]
        others = [row for row in rows if row is not lead]
        group = lead["group"]
        peers = [row for row in others if wording.whole(row["group"]) == wording.whole(group) != wording.NOTHING]
        untested = [row for row in others if wording.NOTHING in (wording.whole(row["group"]), wording.whole(group))]
        return cls(lead, best, _names(peers), _names(untested), len(routed), len(rows) == len(table))


def equal(one: Row, other: Row) -> bool:
    """Whether two means are the same, but for rounding."""
    return math.isclose(one["mean"], other["mean"], rel_tol=1e-12)


def title_of(leader: Leader) -> str:
    """Which routing leads, in a clause. None is called the best unless all others, controls too, are behind it."""
    lead, best = leader.lead, leader.best
    if best is None or best is lead:
        if leader.peers:
            return f"{lead['name']} has the highest mean accuracy, but no lead that these runs can confirm"
        if leader.untested:
            return f"{lead['name']} has the highest mean accuracy, but not every other could be tested against it"
        return f"{lead['name']} is best {'here' if leader.complete else 'of those that finished'}"
    which = "the only routing method" if leader.routing == 1 else "the highest among routing methods"
    verdict = "is behind it"
    if best["name"] in leader.peers:
        verdict = "cannot be told apart from it"
    elif best["name"] in leader.untested:
        verdict = "could not be tested against it"
    return f"The control {lead['name']} has the highest mean accuracy; {best['name']}, {which}, {verdict}"


def told_apart(leader: Leader) -> tuple[str, ...]:
    """Sentences on who cannot be told from the leader, who was not tested, and what a leading control reaches."""
    lead, best, sentences = leader.lead, leader.best, []
    name = "It"
    if best is not None and best is not lead:
        name = f"The control {lead['name']}"
        ahead = best["mean"] - lead["mean"]
        sentences.append(f"{name} reaches {lead['mean']:.2f} %: {abs(ahead):.2f} points more.")
    if leader.peers:
        sentences.append(f"{name} cannot be told apart from {wording.listed([*leader.peers], MOST)}.")
    if leader.untested:
        sentences.append(f"No test compares {wording.listed([*leader.untested], MOST)} with {lead['name']}.")
    return tuple(sentences)


def _names(rows: list[Row]) -> tuple[str, ...]:
    return tuple(str(row["name"]) for row in rows)
