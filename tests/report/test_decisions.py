"""Who leads, who cannot be told from the leader, and what routing gains over uniform routing: values, not sentences."""

from dataclasses import replace

import pytest

from routebench.analysis import Verdict
from routebench.analysis.comparison import comparison_of
from routebench.analysis.named import over_first
from routebench.report._decisions import Decisions
from tests.analysis.made_up_runs import METHODS, made_up_records, made_up_runs
from tests.report.accuracies import runs_with


@pytest.mark.parametrize(
    ("given", "lead", "routed", "peers"),
    [
        ({"dynamic": 97.5, "em": 92.0, "uniform": 90.0}, "dynamic", "dynamic", ()),
        ({"dynamic": 97.56, "em": 97.5, "uniform": 97.5}, "dynamic", "dynamic", ("uniform", "em")),
        ({"dynamic": 90.0, "em": 90.0, "cnn": 91.0, "uniform": 90.0, "seeds": 3}, "cnn", "em", ("em", "uniform")),
        ({"dynamic": 10.0, "cnn": 99.0, "uniform": 97.0}, "cnn", "dynamic", ()),
        ({"dynamic": 96.3, "uniform": 96.3, "seeds": 3, "spread": 0.0}, "dynamic", "dynamic", ("uniform",)),
        ({"cnn": 97.0, "uniform": 96.0}, "cnn", None, ()),
    ],
    ids=[
        "a winner",
        "within noise",
        "one lead on all seeds, by images",
        "a baseline",
        "a tie with a baseline",
        "no method",
    ],
)
def test_who_leads_and_with_whom(given, lead, routed, peers) -> None:
    found = Decisions.of(runs_with(**given)).leader
    told = (found.method.label, found.routed and found.routed.label, tuple(one.label for one in found.peers))
    assert told == (lead, routed, peers)
    assert found.is_shown == (not peers)
    assert found.complete


def test_one_lead_on_all_seeds_without_answers_is_no_test() -> None:
    given = {"dynamic": 90.0, "em": 90.0, "cnn": 91.0, "uniform": 90.0, "seeds": 3}
    found = Decisions.of(replace(runs_with(**given), correct=lambda cell: None))
    assert [one.label for one in found.leader.peers] == ["em"]
    assert [one.label for one in found.ties] == ["uniform"]


def test_peers_are_those_that_no_test_tells_apart_and_ranks_tell_no_more_apart() -> None:
    runs = made_up_runs(failures=False)
    found, peers = comparison_of(runs), Decisions.of(runs).leader.peers
    first, *others = found.table["method"]
    assert len(peers) > 5
    assert [*peers] == [one for one in others if found.pairs[first, one].p_holm >= 0.05]
    ranks = found.table.set_index("method")
    assert ranks["rank_high"][first] >= 1 + len(peers), "ranks correct p over all pairs"
    assert all(ranks["rank_low"][one] <= ranks["rank_high"][first] for one in peers), "their ranks overlap"


def test_the_gain_by_iterating_is_corrected_for_all_methods_and_iterations() -> None:
    """The data chose the pair: the routing method of the highest mean."""
    runs = made_up_runs(failures=False)
    found, every = Decisions.of(runs).iterating, over_first(runs)
    chosen = next(gain for method, gain in every.items() if method.exact == found.method.exact)
    assert len(every) == 6
    assert found.estimate.p_holm == chosen.p_holm > chosen.p


def test_without_raw_outputs_nobody_was_tested() -> None:
    runs = replace(made_up_runs(seeds=1, failures=False), correct=lambda cell: None)
    found = Decisions.of(runs)
    assert found.leader.peers == ()
    assert len(found.leader.untested) == len(comparison_of(runs).table) - 1
    assert {gain.verdict for gain in found.gains} == {Verdict.UNTESTABLE}


def test_a_method_without_a_result_leaves_the_comparison_incomplete() -> None:
    records = made_up_records(seeds=3, failures=False)
    for record in records:
        if record["label"] == "em":
            record |= {"status": "oom", "reason": "no memory", "metrics": []}
    assert not Decisions.of(made_up_runs(records)).leader.complete


def test_gains_are_of_routing_methods_and_carry_a_verdict() -> None:
    found = Decisions.of(runs_with(dynamic=97.5, em=90.0, none=80.0, cnn=99.0, uniform=90.0))
    assert [gain.method.label for gain in found.gains] == ["dynamic", "em", "none"]
    assert [gain.method.label for gain in found.with_verdict(Verdict.BETTER)] == ["dynamic"]
    assert [gain.method.label for gain in found.with_verdict(Verdict.WORSE)] == ["none"]


def test_iterating_is_compared_with_one_iteration_of_the_same_method() -> None:
    found = Decisions.of(made_up_runs(seeds=6, failures=False)).iterating
    assert (found.method.label, found.method.iterations, found.verdict) == ("inverted-attention", 2, Verdict.BETTER)
    assert 0.8 < found.estimate.mean < 1.5


def test_the_users_methods_count_with_their_most_iterations() -> None:
    runs = replace(made_up_runs(failures=False), yours=frozenset({"dynamic"}))
    (gain,) = Decisions.of(runs).yours
    assert (gain.method.label, gain.method.iterations) == ("dynamic", 3)


def test_a_smoke_run_decides_nothing() -> None:
    found = Decisions.of(made_up_runs(preset="smoke", failures=False))
    assert {gain.verdict for gain in found.gains} == {Verdict.UNTESTABLE}
    assert found.leader.peers == ()
    assert comparison_of(made_up_runs(preset="smoke", failures=False)).table["rank_low"].isna().all()


def test_the_same_function_has_one_row() -> None:
    records = made_up_records(failures=False)
    uniform = {record["identity"]["seed"]: record for record in records if record["label"] == "uniform"}
    for record in records:
        if record["label"] == "dynamic" and record["identity"]["iterations"] == 1:
            record["metrics"] = [
                metric | ({"test_iterations": 1} if metric.get("test_iterations") else {})
                for metric in uniform[record["identity"]["seed"]]["metrics"]
            ]
    found = Decisions.of(made_up_runs(records)).comparison
    names = [method.exact for method in found.table["method"]]
    assert len(names) == sum(len(grid) for grid, *_ in METHODS.values()) - 1
    assert "dynamic T=1" not in names
    (base,) = (method for method in found.table["method"] if method.label == "uniform")
    assert base.marked == "Uniform routing = Dynamic, T = 1 (baseline)"
    assert "dynamic T=1" in [method.exact for method in found.every["method"]]
