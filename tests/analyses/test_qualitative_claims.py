"""Claims of the papers on runs in which they were planted, or the opposite."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from routebench import statistics
from routebench.analysis import Verdict
from routebench.analysis.judging import PaperClaim, every_claim
from routebench.engine.suites import load_suite
from routebench.registry import analyses, models
from tests.analyses.planted import EVERY, beside
from tests.analysis.made_up_runs import made_up_records, made_up_runs

find = analyses["qualitative-claims"]
LOWER_LOSS, NO_GAIN, SLOWER, SPARSE, MIDDLE, FALLS, EM, RISES, VOTES, FIVE, NEAR = (
    next(claim for claim in EVERY if claim.startswith(words))
    for words in (
        "Training ends", "Routing gains", "Without routing", "Class capsules are", "Capsules of a layer",
        "Accuracy of dynamic", "EM routing is", "Accuracy of inverted", "Votes gather", "Five", "Votes near",
    )
)  # fmt: skip
AS_CLAIMED = {
    "dynamic": ([1, 2, 3], "method", "capsnet-small", [97.5, 96.5, 95.5]),
    "em": ([1, 2, 3], "method", "capsnet-small", [93.0, 97.0, 95.0]),
    "inverted-attention": ([1, 2, 3], "method", "capsnet-small", [94.0, 95.0, 96.0]),
    "none": ([None], "control", "capsnet-small", [96.5]),
}
OTHERWISE = {
    "dynamic": ([1, 2, 3], "method", "capsnet-small", [94.0, 95.0, 97.5]),
    "em": ([1, 2, 3], "method", "capsnet-small", [93.0, 94.0, 97.0]),
    "inverted-attention": ([1, 2, 3], "method", "capsnet-small", [97.0, 96.0, 95.0]),
    "none": ([None], "control", "capsnet-small", [95.0]),
}


def accuracy_runs(methods, loss=0.0, **options):
    """`loss` is added to every training loss of `none`, with a little noise of its own per seed."""
    records = made_up_records(**{"seeds": 4, "spread": 0.15, "failures": False, "methods": methods, **options})
    for record in records:
        if record["label"] == "none":
            for metric in record["metrics"]:
                if metric["metric"] == "train_loss":
                    metric["value"] += loss * (1 + 0.05 * record["identity"]["seed"])
    return made_up_runs(records)


def sparsity_runs(classes=0.8, middle=0.2, nearer=0.5):
    """Hoyer's sparsity in two layers, and histograms of vote distances whose mean moves by one bin of 0.5 or none."""
    planned, results, arrays = [], [], {}
    for seed in range(3):
        for label, steps in (("none", None), ("dynamic", 3), ("em", 3)):
            cell = f"{label}{seed}"
            known = {"cell": cell, "label": label, "method": label, "iterations": steps, "seed": seed}
            planned.append({**known, "model": "capsnet-small", "status": "ok", "role": "method"})
            for layer, value in (("classes", classes), ("middle", middle)):
                where = {"layer": layer, "of": "length", "value": value + 0.01 * seed}
                results.append({**known, "model": "capsnet-small", "metric": "hoyer", **where})
            for number in (1, 2, 3):
                gathered = {"metric": "gathered", "layer": "classes", "value": number * nearer + 0.01 * seed * number}
                results.append({**known, "model": "capsnet-small", "test_iterations": number, **gathered})
            counts = np.zeros((2, 1, 2, 3))  # iterations, images, classes, bins
            counts[0, 0, 1, 1] = 10 + seed
            counts[1, 0, 1, 1 if nearer == 0 else 0] = 10 + seed
            counts[1, 0, 1, 2] = 0.1 * seed
            edges = np.array([0.0, 0.5, 1.0, 1.5])
            arrays[cell] = {"vote_distances": counts, "vote_distances_edges": edges, "vote_labels": np.array([1])}
    numbers = {"iterations": "Int64"}
    runs = made_up_runs(seeds=1)
    names = {"suite": "sparsity", "protocol": "sparsity"}
    return replace(
        runs, **names, results=pd.DataFrame(results).astype(numbers), planned=pd.DataFrame(planned).astype(numbers),
        arrays=lambda cell: arrays.get(cell, {}),
    )  # fmt: skip


def verdicts(*parts):
    return find(parts).numbers.set_index("claim")["verdict"]


def test_what_is_planted_as_claimed_holds():
    found = verdicts(accuracy_runs(AS_CLAIMED, loss=0.05), sparsity_runs())
    for claim in (LOWER_LOSS, NO_GAIN, SLOWER, SPARSE, MIDDLE, FALLS, EM, RISES, VOTES):
        assert found[claim] == Verdict.HOLDS, claim


def test_what_is_planted_otherwise_does_not_hold():
    found = verdicts(accuracy_runs(OTHERWISE, loss=-0.05), sparsity_runs(classes=0.2, middle=0.8))
    for claim in (LOWER_LOSS, NO_GAIN, SLOWER, SPARSE, MIDDLE, FALLS, EM, RISES):
        assert found[claim] == Verdict.FAILS, claim


def test_what_noise_covers_is_undecided():
    alike = {label: (steps, role, model, [96.0] * len(steps)) for label, (steps, role, model, _) in AS_CLAIMED.items()}
    found = verdicts(accuracy_runs(alike, spread=1.5))
    for claim in (NO_GAIN, FALLS, EM, RISES):
        assert found[claim] == Verdict.UNDECIDED, claim


@pytest.mark.parametrize(("rise", "is_tested"), [(4.0, True), (6.0, False)])
def test_networks_that_still_learn_fast_have_no_verdict(rise, is_tested):
    runs = accuracy_runs(AS_CLAIMED, loss=0.05)
    last = runs.results[(runs.results["label"] == "dynamic") & (runs.results["metric"] == "train_loss")]
    curves = [
        last.assign(metric="train_accuracy", epoch=epoch, value=value) for epoch, value in ((1, 60), (2, 60 + rise))
    ]
    found = find((replace(runs, results=pd.concat([runs.results, *curves])),)).numbers.set_index("claim")
    assert (found.loc[FALLS, "verdict"] == Verdict.HOLDS) is is_tested
    assert (found.loc[FALLS, "verdict"] == Verdict.NOT_TESTED) is (not is_tested)
    assert found.loc[FALLS, "why"] == ("" if is_tested else "2 epochs")
    assert found.loc[EM, "verdict"] == Verdict.HOLDS, "only the networks that are compared have to have learned"
    assert found.loc[SLOWER, "verdict"] == Verdict.HOLDS, "it is about the first epoch"


@pytest.mark.parametrize(("normalised", "verdict"), [(True, Verdict.HOLDS), (False, Verdict.NOT_TESTED)])
def test_a_tuned_ablation_says_nothing_of_the_method(normalised, verdict):
    """Inverted attention without layer normalisation is ablation A of the paper, from which no gain is claimed."""
    runs = accuracy_runs(AS_CLAIMED, loss=0.05)
    labels = runs.planned.set_index("cell")["label"]
    own = {"inverted-attention": {"layer_norm": normalised}}
    found = find((replace(runs, hyperparameters=lambda cell: own.get(labels[cell], {})),)).numbers.set_index("claim")
    assert found.loc[RISES, "verdict"] == verdict
    assert found.loc[RISES, "why"] == ("" if normalised else "tuned to layer norm = false")
    assert found.loc[FALLS, "verdict"] == Verdict.HOLDS, "it is about dynamic routing"


@pytest.mark.parametrize("methods", [AS_CLAIMED, OTHERWISE])
@pytest.mark.parametrize(
    ("where", "undecided"),
    [
        ("label == 'dynamic'", {NO_GAIN, FALLS, LOWER_LOSS, SLOWER}),
        ("label == 'dynamic' and iterations == 3 and seed == 1", {NO_GAIN, FALLS, LOWER_LOSS, SLOWER}),
        ("label == 'none'", {NO_GAIN, LOWER_LOSS, SLOWER}),
        ("label == 'em' and iterations == 2", {EM}),
        ("label in ('em', 'dynamic', 'none', 'inverted-attention')", {NO_GAIN, FALLS, LOWER_LOSS, SLOWER, EM, RISES}),
        ("label == 'random'", set()),
    ],
)
def test_runs_made_otherwise_than_the_suite_says_decide_no_claim(methods, where, undecided):
    """Settings of `--set`, or of an edited copy of the suite, may be chosen by what the claim says."""
    runs = accuracy_runs(methods, loss=0.05 if methods is AS_CLAIMED else -0.05)
    before = find((runs,)).numbers.set_index("claim")
    altered = frozenset(runs.planned.query(where)["cell"])
    after = find((replace(runs, altered=altered),)).numbers.set_index("claim")
    tested = {NO_GAIN, FALLS, EM, RISES, LOWER_LOSS, SLOWER}
    assert {*before["verdict"][[*tested]]} <= {Verdict.HOLDS, Verdict.FAILS}
    assert {claim for claim in tested if after["verdict"][claim] != before["verdict"][claim]} == undecided
    for claim in undecided:
        assert after["verdict"][claim] == Verdict.UNDECIDED
        assert after["why"][claim] == "runs other than in the suite's file"


def test_losses_of_different_kinds_are_not_compared():
    runs = accuracy_runs(AS_CLAIMED, loss=0.05)
    labels = runs.planned.set_index("cell")["label"]
    kinds = {"none": "margin", "dynamic": "spread"}
    for kind, verdict in ((dict.fromkeys(kinds, "margin"), Verdict.HOLDS), (kinds, Verdict.NOT_RUN)):
        found = verdicts(replace(runs, training=lambda cell, kind=kind: {"loss": kind[labels[cell]]}))
        assert {found[LOWER_LOSS], found[SLOWER]} == {verdict}


def test_votes_that_stay_where_they_are_do_not_gather():
    found = verdicts(sparsity_runs(nearer=0))
    assert found[VOTES] != Verdict.HOLDS
    assert found[NEAR] != Verdict.HOLDS


def test_votes_near_the_mean_are_those_of_the_right_class():
    row = find((sparsity_runs(),)).numbers.set_index("claim").loc[NEAR]
    assert row["verdict"] == Verdict.HOLDS
    assert row["mean"] == pytest.approx(2 * (0.5 + 0.01))  # from the first to the third, mean of three seeds
    assert verdicts(sparsity_runs(nearer=-0.5))[NEAR] == Verdict.FAILS


@pytest.mark.parametrize(("five", "verdict"), [(92.0, Verdict.HOLDS), (96.0, Verdict.FAILS)])
def test_three_iterations_against_five(five, verdict):
    lines = {"em": ([1, 3, 5], "method", "matrix-capsules", [90.0, 94.0, five])}
    found = verdicts(accuracy_runs(lines))
    assert found[FIVE] == verdict
    assert verdicts(accuracy_runs(AS_CLAIMED))[FIVE] == Verdict.NOT_RUN


def test_a_statistic_is_its_mean_over_seeds_with_the_t_interval():
    runs = accuracy_runs(AS_CLAIMED)
    row = find((runs,)).numbers.set_index("claim").loc[FALLS]
    tested = runs.results.query("metric == 'accuracy' and label == 'dynamic' and iterations == test_iterations")
    lines = tested.pivot_table(index="seed", columns="iterations", values="value")
    slopes = -(lines[3] - lines[1]) / 2  # of a straight line through three equidistant points
    expected = statistics.mean_interval(slopes.to_numpy(dtype=float))
    assert [row["mean"], row["low"], row["high"]] == pytest.approx([expected.mean, expected.low, expected.high])
    assert row["n"] == 4


def test_the_difference_shown_is_the_one_that_decides():
    ahead = {**AS_CLAIMED, "em": ([1, 2, 3], "method", "capsnet-small", [80.0, 95.0, 97.0])}
    row = find((accuracy_runs(ahead),)).numbers.set_index("claim").loc[EM]
    assert row["verdict"] == Verdict.FAILS
    assert row["high"] < 0
    assert row["mean"] == pytest.approx(-2, abs=0.4)
    close = {**AS_CLAIMED, "em": ([1, 2, 3], "method", "capsnet-small", [80.0, 95.0, 95.4])}  # seeds differ by more
    row = find((accuracy_runs(close, spread=0.5),)).numbers.set_index("claim").loc[EM]
    assert row["verdict"] == Verdict.UNDECIDED
    assert row["low"] < 0 < row["high"]


def test_every_verdict_but_not_run_has_a_statistic_and_holding_has_an_interval():
    table = find((accuracy_runs(AS_CLAIMED, loss=0.05), sparsity_runs())).numbers
    tested = table[table["verdict"] != Verdict.NOT_RUN]
    assert tested["mean"].notna().all()
    assert tested.loc[tested["verdict"].isin([Verdict.HOLDS, Verdict.FAILS]), "low"].notna().all()
    assert (table.loc[table["verdict"] == Verdict.NOT_RUN, "needs"] != "").all()
    assert set(table["claim"]) == {*EVERY}


@pytest.mark.parametrize("claim", every_claim(), ids=lambda claim: claim.claim)
def test_an_untested_claim_names_a_command_that_plans_a_suite_of_its_protocol(claim):
    if claim.untestable:
        assert (claim.statistics, claim.needs) == (None, claim.untestable)
        return
    name, *wanted = claim.suite.split()
    suite, wishes = load_suite(name), dict(zip(wanted[::2], wanted[1::2], strict=True))
    assert claim.needs == f"routebench suite {claim.suite}"
    assert suite.protocol == claim.protocol
    assert wishes.get("--preset", "quick") in suite.presets
    assert wishes.get("--model", "capsnet-small") in models
    assert {*wishes} <= {"--preset", "--model"}


@pytest.mark.parametrize("status", ["diverged", "failed", "not run"])
def test_survivors_decide_no_claim(status):
    records = made_up_records(seeds=4, spread=0.15, failures=False, methods=AS_CLAIMED)
    for record in records:
        if (record["label"], record["identity"]["iterations"], record["identity"]["seed"]) == ("dynamic", 3, 3):
            record |= {"status": status, "metrics": [], "reason": "" if status == "not run" else "it ended"}
    table = find((made_up_runs(records),)).numbers.set_index("claim")
    is_lost = status != "not run"
    for claim, expected in ((NO_GAIN, Verdict.HOLDS), (FALLS, Verdict.HOLDS)):
        assert table.loc[claim, "verdict"] == (Verdict.UNDECIDED if is_lost else expected)
        assert table.loc[claim, "why"] == ("1 seed without a result, which may be the bad ones" if is_lost else "")
    assert table.loc[EM, "verdict"] == Verdict.HOLDS  # EM lost none


def test_a_statistic_with_all_seeds_refutes_a_claim_beside_one_that_lost_some():
    records = made_up_records(seeds=4, spread=0.15, failures=False, methods=OTHERWISE)
    for record in records:
        if (record["label"], record["identity"]["iterations"], record["identity"]["seed"]) == ("em", 1, 3):
            record |= {"status": "diverged", "metrics": [], "reason": "it ended"}
    row = find((made_up_runs(records),)).numbers.set_index("claim").loc[EM]  # T=2 less 1 is above 0, less 3 below
    assert (row["verdict"], row["why"], row["n"]) == (Verdict.FAILS, "", 4)


@pytest.mark.parametrize("depth", [0.0, 30.0])
def test_seeds_that_fall_with_another_t_leave_a_lead_undecided(depth):
    methods = {**AS_CLAIMED, "dynamic": ([1, 2, 3], "method", "capsnet-small", [97.5, 97.5, 97.5])}
    records = made_up_records(seeds=6, spread=0.1, failures=False, methods=methods)
    for record in records:
        if (record["label"], record["identity"]["iterations"], record["identity"]["seed"]) == ("dynamic", 1, 2):
            for metric in record["metrics"]:
                metric["value"] -= depth * (metric["metric"] == "accuracy")
    row = find((made_up_runs(records),)).numbers.set_index("claim").loc[NO_GAIN]
    assert row["verdict"] == (Verdict.UNDECIDED if depth else Verdict.FAILS)
    assert ("fall out" in row["why"]) == bool(depth)


@pytest.mark.parametrize(
    ("suite", "papers"),
    [
        ("accuracy", {"Kiefer", "Tsai"}),
        ("viewpoint", {"Kiefer", "Tsai"}),  # lies in a paper's folder, and is a question of our own
        ("reconstruction", {"Kiefer"}),
        ("tsai-table1", {"Tsai"}),
        ("kiefer-sparsity", {"Kiefer"}),
        ("hinton-of-nobody", {"Kiefer", "Tsai"}),
    ],
)
def test_a_suite_that_repeats_a_paper_tests_no_other_papers_claims(suite, papers):
    runs = replace(accuracy_runs(AS_CLAIMED, loss=0.05), suite=suite)
    assert {claim.source.partition(" ")[0] for claim in every_claim() if claim.test(runs, (runs,))} == papers


def test_one_seed_decides_nothing():
    found = verdicts(accuracy_runs(AS_CLAIMED, loss=0.05, seeds=1))
    assert set(found) == {Verdict.UNDECIDED, Verdict.NOT_RUN}


def test_a_method_that_failed_is_not_run():
    records = made_up_records(seeds=3, failures=False, methods=AS_CLAIMED)
    for record in records:
        if record["label"] == "none":
            record |= {"status": "oom", "reason": "out of memory", "metrics": []}
    found = verdicts(made_up_runs(records))
    assert found[LOWER_LOSS] == found[NO_GAIN] == found[SLOWER] == Verdict.NOT_RUN
    assert found[FALLS] == Verdict.HOLDS


def test_each_part_of_a_folder_is_a_test_of_its_own():
    table = find((accuracy_runs(AS_CLAIMED), replace(accuracy_runs(OTHERWISE), preset="full"))).numbers
    own = table[table["claim"] == FALLS]
    assert list(own["verdict"]) == [Verdict.FAILS, Verdict.HOLDS]  # what contradicts a paper comes first
    assert list(own["on"]) == ["accuracy full, mnist5k, capsnet-small", "accuracy quick, mnist5k, capsnet-small"]


def test_parts_that_measured_the_same_networks_are_one_test():
    first = accuracy_runs(AS_CLAIMED)
    second = replace(first, preset="full")
    apart = accuracy_runs(AS_CLAIMED, seeds=5)
    rows, once = (
        [row for row in find(parts).table.to_dict("records") if row["verdict"] != Verdict.NOT_RUN]
        for parts in ((first, second, apart), (first, apart))
    )
    assert len(rows) == len(once)
    shared = [row for row in rows if "accuracy full" in row["on"]]
    assert shared and all("accuracy quick" in row["on"] for row in shared)


def test_what_contradicts_stands_first():
    analysis = find((accuracy_runs(OTHERWISE, loss=-0.05),))
    verdicts = list(analysis.table["verdict"])
    assert (verdicts.count(Verdict.HOLDS), verdicts.count(Verdict.UNDECIDED)) == (2, 1)
    assert verdicts[:6] == [Verdict.FAILS] * 6
    assert "EM routing is best with two iterations" in set(analysis.table["claim"][:6])
    assert not analysis.shown().isin(["None", "nan", "<NA>"]).any().any()


def test_nothing_to_test_gives_nothing():
    assert find(()) is None
    assert find((replace(accuracy_runs(AS_CLAIMED), protocol="cost"),)) is None


def test_a_variant_of_em_says_nothing_of_em():
    runs = sparsity_runs()
    other = runs.planned[runs.planned["label"] == "em"].assign(label="em[final_lambda=0.1]", cell="absent")
    kept = find((replace(runs, planned=pd.concat([runs.planned, other])),)).numbers.set_index("claim")["verdict"]
    assert kept[VOTES] == verdicts(runs)[VOTES] == Verdict.HOLDS


@pytest.mark.parametrize("claim", [FALLS, EM, RISES, NO_GAIN])
def test_a_claim_is_judged_in_the_network_of_the_part_and_says_so(claim):
    one, other = accuracy_runs(AS_CLAIMED), accuracy_runs(OTHERWISE)
    for runs, more in ((one, other), (other, one)):
        alone, found = EVERY[claim].test(runs), EVERY[claim].test(beside(runs, more))
        assert (found.verdict, found.statistic) == (alone.verdict, alone.statistic)
        assert found.of == f"{alone.of} (in capsnet-small)"


def test_what_is_not_in_the_network_of_the_part_is_taken_from_the_one_that_most_share():
    shared = {**AS_CLAIMED, "none": OTHERWISE["none"]}
    runs = beside(accuracy_runs(AS_CLAIMED), accuracy_runs(shared), model="a-network")
    small = runs.planned["model"] == "capsnet-small"
    for left, model in ((("dynamic",), "a-network"), (("dynamic", "em"), "a-network")):
        third = beside(runs, accuracy_runs({label: AS_CLAIMED[label] for label in left[:1]}), model="aa-network")
        gone = third.planned["label"].isin(left) & (third.planned["model"] == "capsnet-small")
        found = replace(third, planned=third.planned[~gone]).in_one_network
        assert {one.model for one in found.methods.values() if one.label in left} == {model}
        assert {one.model for one in found.methods.values() if one.label not in left} == {"capsnet-small"}
    plain = replace(runs, planned=runs.planned[small])
    assert plain.in_one_network is plain


@pytest.mark.parametrize(("lead", "verdict"), [(1.0, Verdict.HOLDS), (-1.0, Verdict.FAILS)])
def test_a_claim_about_several_does_not_hold_by_those_that_have_values_alone(lead, verdict):
    known = ({seed: lead + 0.1 * seed for seed in range(4)}, ("dynamic", "none"))

    def claim(*statistics):
        return PaperClaim("It is best", "Lab 2030", "points", "accuracy", lambda _: [*statistics], "accuracy")

    runs = accuracy_runs(AS_CLAIMED)
    assert claim(known).test(runs).verdict == verdict
    found = claim(known, ({}, ("dynamic", "em"))).test(runs)
    assert found.verdict == (Verdict.UNDECIDED if verdict == Verdict.HOLDS else verdict)
    assert found.why == ("nothing is known of dynamic, em" if verdict == Verdict.HOLDS else "")
