"""Who leads, who cannot be told from the leader, and the clause that says so."""

from dataclasses import replace

import pytest

from routebench.analysis.comparison import compare
from routebench.report._lead import Leader, title_of
from tests.analysis.made_up_runs import made_up_records, made_up_runs
from tests.report.accuracies import runs_with


def leader_in(runs) -> Leader:
    return Leader.of(compare(runs).table)


@pytest.mark.parametrize(
    ("given", "lead", "best", "peers"),
    [
        ({"dynamic": 97.5, "em": 92.0, "uniform": 90.0}, "dynamic", "dynamic", ()),
        ({"dynamic": 97.56, "em": 97.5, "uniform": 97.5}, "dynamic", "dynamic", ("uniform", "em")),
        ({"dynamic": 90.0, "em": 90.0, "cnn": 91.0, "uniform": 90.0, "seeds": 3}, "cnn", "em", ("em",)),
        ({"dynamic": 10.0, "cnn": 99.0, "uniform": 97.0}, "cnn", "dynamic", ()),
        ({"dynamic": 96.3, "uniform": 96.3, "seeds": 3, "spread": 0.0}, "dynamic", "dynamic", ("uniform",)),
        ({"cnn": 97.0, "uniform": 96.0}, "cnn", None, ()),
    ],
    ids=["a winner", "within noise", "a control that splits nobody", "a control", "a tie with a control", "no method"],
)
def test_who_leads_and_with_whom(given, lead, best, peers) -> None:
    found = leader_in(runs_with(**given))
    assert (found.lead["name"], found.best and found.best["name"], found.peers) == (lead, best, peers)
    assert found.routing == len({"dynamic", "em"} & set(given))
    assert found.complete


def test_peers_are_the_rank_group_of_the_table() -> None:
    runs = made_up_runs(failures=False)
    table = compare(runs).table
    group = table.loc[table["group"] == table["group"].iloc[0], "name"]
    assert len(group) > 5
    assert leader_in(runs).peers == tuple(group[1:])


def test_without_raw_outputs_nobody_was_tested() -> None:
    runs = replace(made_up_runs(seeds=1, failures=False), correct=lambda cell: None)
    found = leader_in(runs)
    assert (found.peers, len(found.untested)) == ((), len(compare(runs).table) - 1)


def test_a_method_without_a_result_leaves_the_comparison_incomplete() -> None:
    records = made_up_records(seeds=3, failures=False)
    for record in records:
        if record["label"] == "em":
            record |= {"status": "oom", "reason": "no memory", "metrics": []}
    assert not leader_in(made_up_runs(records)).complete


CONTROL, METHOD = {"name": "cnn", "mean": 99.0}, {"name": "em", "mean": 97.0}
LEADS = Leader(METHOD, METHOD, peers=(), untested=(), routing=2, complete=True)
BEHIND = replace(LEADS, lead=CONTROL)
AHEAD = "The control cnn has the highest mean accuracy"


@pytest.mark.parametrize(
    ("leader", "clause"),
    [
        (LEADS, "em is best here"),
        (replace(LEADS, complete=False), "em is best of those that finished"),
        (replace(LEADS, peers=("a",)), "em has the highest mean accuracy, but no lead that these runs can confirm"),
        (
            replace(LEADS, untested=("a",)),
            "em has the highest mean accuracy, but not every other could be tested against it",
        ),
        (BEHIND, f"{AHEAD}; em, the highest among routing methods, is behind it"),
        (replace(BEHIND, routing=1), f"{AHEAD}; em, the only routing method, is behind it"),
        (
            replace(BEHIND, peers=("em",), routing=1),
            f"{AHEAD}; em, the only routing method, cannot be told apart from it",
        ),
        (
            replace(BEHIND, untested=("em",), routing=1),
            f"{AHEAD}; em, the only routing method, could not be tested against it",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_leader_has_its_clause(leader, clause) -> None:
    assert title_of(leader) == clause
