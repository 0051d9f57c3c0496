"""Named comparisons and tuning curves say what they were given."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import trim_mean

from analyses.accuracy_table import accuracy_table
from analyses.learning_curves import learning_curves
from analyses.primary_comparisons import primary_comparisons
from analyses.summary_over_tasks import summary_over_tasks
from analyses.tuning_curves import tuning_curves
from routebench.analysis import Verdict
from routebench.analysis.comparison import gains_of
from routebench.analysis.named import is_over_first, named_gains, named_table, over_first
from routebench.engine.suites import Choices, load_suite, plan
from routebench.protocols import Measurement, Metric
from routebench.report._headline import headline_of
from routebench.statistics import (
    crossed_difference,
    expected_best,
    holm,
    paired_difference,
    paired_samples_of_seeds,
)
from tests.analyses.measured import parts_of

# em is better than uniform by far, heinsen equal, wang-liu worse, inverted-attention varies too much to tell.
TRUE = {"em": 3.0, "heinsen": 0.05, "wang-liu": -2.0, "inverted-attention": 1.0}
SPREAD = {"inverted-attention": 4.0}


def accuracy(cell):
    known = cell.identity
    random = np.random.default_rng([known.seed, sum(map(ord, known.method)), known.iterations or 0])
    return 80 + TRUE.get(known.method, 0.0) + SPREAD.get(known.method, 0.05) * random.normal()


def final(cell):
    known = cell.identity
    found = [Metric("accuracy", "test", accuracy(cell), "%", True, known.iterations)]
    gain = 2.0 if known.method == "wang-liu" else 0.1  # in every epoch
    found += [
        Metric("held_out_accuracy", "held-out", 70 + gain * epoch, "%", True, epoch=epoch) for epoch in (1, 2, 3, 4)
    ]
    return Measurement([*found, Metric("fit_seconds", "", 20.0 + known.seed, "s", False)])


def has_diverged(cell):
    return cell.identity.method == "slot-attention" and cell.identity.options["trial"] == 3


def score_of(cell):
    known = cell.identity
    if has_diverged(cell):
        return 10.0
    score = 70 + 10 * np.random.default_rng(known.seed + 31 * sum(map(ord, known.method))).random()
    return score + 10 * (known.method == "em")


def trial(cell):
    where, diverged, score = dict(cell.identity.options), has_diverged(cell), score_of(cell)
    return Measurement(
        [
            Metric("score", "fold", score, "%", True, where=where),
            Metric("diverged", "fold", int(diverged), where=where),
        ]
    )


def finals(path, **choices):
    (found,) = parts_of(plan(load_suite("standard"), "quick", Choices(**choices)), path, final)
    return found


def trials(path, **choices):
    (found,) = parts_of(plan(load_suite("standard"), "quick", Choices(tuning=True, **choices)), path, trial)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return finals(tmp_path_factory.mktemp("finals"), seeds=range(5))


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    return trials(tmp_path_factory.mktemp("trials"))


def test_named_comparisons_alone_decide_the_headline(runs):
    found, table = headline_of(runs), named_table(runs)
    assert "EM, T = " in found.title and " better than uniform routing, by " in found.title
    assert f"The suite named {len(table)} comparisons beforehand; " in found.said[0]
    assert "All other comparisons are exploratory." in found.said
    assert [*over_first(runs)] and all(one.iterations > 1 for one in over_first(runs))
    own = {one: difference.mean for one, difference in over_first(runs).items() if one.name == "dynamic"}
    gained = {one.iterations: gain.mean for one, gain in gains_of(runs).items() if one.name == "dynamic"}
    assert {one.iterations: mean for one, mean in own.items()} == pytest.approx(gained), "its first is uniform routing"
    main = accuracy_table(runs).main
    named = {one.exact for one, base in zip(table["method"], table["against"], strict=True) if base.name == "uniform"}
    assert {one.exact for one in main.named} == named
    assert len(named) < len(main.gains)
    assert named_gains(runs).keys() == main.named
    for method, gain in main.gains.items():
        family = named_gains(runs) if method in main.named else gains_of(runs)
        assert gain.p_holm == family[method].p_holm


def test_iterations_that_were_not_named_are_told_apart_from_those_that_were(tmp_path, monkeypatch):
    """Planted: more iterations are better by 3 points with all methods, and worse with slot attention."""
    planted = {"slot-attention": -3.0}
    plain = accuracy
    monkeypatch.setitem(
        globals(),
        "accuracy",
        lambda cell: (
            plain(cell) + (planted.get(cell.identity.method, 3.0) if (cell.identity.iterations or 0) > 1 else 0.0)
        ),
    )
    runs = finals(tmp_path, seeds=range(5))
    said, pairs, table = headline_of(runs).said, over_first(runs), named_table(runs)
    pairs_named = [*zip(table["method"], table["against"], strict=True)]
    named = {one.exact for one, other in pairs_named if is_over_first(one, other)}
    of_shares = {one.name for one, other in pairs_named if is_over_first(one, other) and other.label == "uniform"}
    assert of_shares == {"dynamic"}, "one iteration of which is uniform routing"
    found = {
        word: next(sentence for sentence in said if sentence.startswith(f"{word} than with one iteration, "))
        for word in ("Better", "Worse")
    }
    for word, verdict in (("Better", Verdict.BETTER), ("Worse", Verdict.WORSE)):
        explored = [one for one, gain in pairs.items() if gain.verdict is verdict and one.exact not in named]
        assert explored and found[word].count(", by ") == len(explored)
        assert all(f"{one}, by " in found[word] for one in explored)
        assert f"corrected for all {len(pairs)} such pairs" in found[word]
    assert named & {one.exact for one in pairs}


@pytest.mark.parametrize(
    ("method", "verdict"),
    [
        ("em", Verdict.BETTER),
        ("heinsen", Verdict.EQUAL),
        ("wang-liu", Verdict.WORSE),
        ("inverted-attention", Verdict.OPEN),
    ],
)
def test_each_comparison_has_its_answer(runs, method, verdict):
    rows = primary_comparisons(runs).table.to_dict("records")
    (row,) = (row for row in rows if row["method"].name == method and row["against"].name == "uniform")
    assert row["verdict"] == verdict


def test_each_answer_has_a_mark(runs):
    found = primary_comparisons(runs)
    points = [line for line in found.figure.axes[0].lines if line.get_marker() in {"o", "D"}]
    marks = [(one.get_marker(), one.get_markerfacecolor() == one.get_color()) for one in points]
    wanted = {"better": ("o", True), "worse": ("o", True), "equivalent within the margin": ("D", False)}
    assert marks == [wanted.get(answer, ("o", False)) for answer in found.shown()["Answer"]]
    assert {*marks} == {("o", True), ("o", False), ("D", False)}


def test_the_family_is_the_named_comparisons_alone(runs):
    table = primary_comparisons(runs).table
    named = runs.primary["pairs"]
    assert len(table) == len(named) == 10 * 2 + 6  # two against others, and six with a first iteration of their own
    assert table["difference"].map(lambda one: one.p_holm).tolist() == pytest.approx(
        list(holm(table["difference"].map(lambda one: one.p).to_numpy()))
    )


def test_a_difference_is_paired_by_seed(runs):
    row = primary_comparisons(runs).table.to_dict("records")[0]
    by_seed = runs.by_seed("accuracy", split="test", as_trained=True)
    expected = paired_difference(by_seed[row["method"]], by_seed[row["against"]])
    assert (row["difference"].mean, row["difference"].low) == pytest.approx((expected.mean, expected.low))


def test_beside_seeds_alone_stands_what_another_test_set_would_do(runs):
    """Made-up answers: every seed has other images right."""
    random = np.random.default_rng(0)
    kept = {}

    def correct(cell):
        return kept.setdefault(cell, random.permutation(400) < round(4 * accuracy_of[cell]))

    measured = runs.values("accuracy", split="test", as_trained=True)
    accuracy_of = dict(zip(measured["cell"], measured["value"], strict=True))
    found = primary_comparisons(replace(runs, correct=correct))
    for row in found.table.to_dict("records"):
        cells = {method: dict(zip(own["seed"], own["cell"], strict=True)) for method, own in measured.groupby("method")}
        ours, theirs = (
            np.stack([correct(cells[row[side]][seed]) for seed in range(5)]) for side in ("method", "against")
        )
        apart = ours.sum(1, dtype=int) - theirs.sum(1, dtype=int)
        is_tied = np.ptp(apart) == 0 and apart[0] != 0
        expected = (paired_samples_of_seeds if is_tied else crossed_difference)(ours, theirs)
        assert (row["both"].low, row["both"].high) == pytest.approx((100 * expected.low, 100 * expected.high))
    decided = sum(
        row["both_verdict"] not in (Verdict.OPEN, Verdict.UNTESTABLE) for row in found.table.to_dict("records")
    )
    (note,) = (note for note in found.notes if note.startswith("Answers are for these test images. "))
    assert f"{decided} of {len(found.table)} comparisons would be decided by the same tests" in note
    assert (
        f" on these test images, {decided} if these were drawn anew too."
        in headline_of(replace(runs, correct=correct)).said[0]
    )
    assert not any("these test images" in note for note in primary_comparisons(runs).notes), "no outcomes were kept"


def test_a_suite_that_names_nothing_has_no_table(runs):
    assert primary_comparisons(replace(runs, primary={})) is None


def by_t(cell):
    """Ablation A loses by iterating, the whole method gains from T=2 to T=4, ablation B does neither."""
    known = cell.identity
    params = known.method_params
    slope = 0.0 if params.get("schedule") == "sequential" else 1.0 if params.get("layer_norm", True) else -0.5
    noise = 0.05 * np.random.default_rng([known.seed, known.iterations or 0]).normal()
    return Measurement(
        [Metric("accuracy", "test", 80 + slope * (known.iterations or 0) + noise, "%", True, known.iterations)]
    )


def test_a_suite_that_compares_each_t_with_one_iteration_says_so(tmp_path):
    (found,) = parts_of(plan(load_suite("iterations"), "quick", Choices(seeds=range(5))), tmp_path, by_t)
    table = primary_comparisons(found)
    assert len(table.table) == 6 and {one["against"].iterations for one in table.table.to_dict("records")} == {1}
    assert not any("best T" in note for note in table.notes)
    told = headline_of(found)
    assert told.title.startswith("By iterating, Inverted attention gains; Inverted attention")
    assert told.title.endswith("loses.") and "uniform routing" not in told.title
    (said,) = (one for one in told.said if one.startswith("Against one iteration of the same method, "))
    assert "better: Inverted attention, T = 2 and Inverted attention, T = 4; worse: " in said
    assert "equal within the margin: " in said


def test_curves_are_the_expected_best_of_the_trials(tried):
    found = tuning_curves(tried)
    assert len(found.table) == 29 and set(found.table["trials"]) == {16}
    scores = tried.by_seed("score", split="fold")
    for row in found.table.to_dict("records"):
        own = list(scores[row["method"]].values())
        assert row["best"] == max(own)
        assert row["of_four"] == pytest.approx(expected_best(own)[3])
        assert row["spread"] == pytest.approx(np.std(own, ddof=1))
    best = found.table["method"].iloc[0]
    assert best.name == "em"
    assert str(best) in found.reading and " the best trial, " in found.reading


def test_repeats_are_in_no_curve_and_say_how_lucky_the_best_was(tmp_path, tried):
    """Once more with another seed, all trials score 5 points less than at first, but for the second best of em."""
    made = plan(load_suite("standard"), "quick", Choices(tuning=True))
    best = {}
    for cell in made.cells:
        best.setdefault((cell.label, cell.identity.iterations), []).append((score_of(cell), cell))
    finalists = [cell for own in best.values() for _, cell in sorted(own, key=lambda each: -each[0])[:2]]
    second = [cell for own in best.values() for _, cell in sorted(own, key=lambda each: -each[0])[1:2]]
    rescued = {cell.key for cell in second if cell.identity.method == "em"}

    def again(cell):
        first = replace(cell, identity=replace(cell.identity, seed=1_000 + cell.identity.options["trial"]))
        if cell.identity.seed < 2_000:
            return trial(cell)
        score = 99.0 if first.key in rescued else score_of(first) - 5
        return Measurement([Metric("score", "fold", score, "%", True, where=dict(cell.identity.options))])

    repeats = [replace(cell, identity=replace(cell.identity, seed=cell.identity.seed + 1_000)) for cell in finalists]
    (found,) = parts_of(replace(made, cells=(*made.cells, *repeats)), tmp_path, again)
    with_repeats, without = tuning_curves(found), tuning_curves(tried)
    for row, before in zip(with_repeats.table.to_dict("records"), without.table.to_dict("records"), strict=True):
        assert {key: row[key] for key in ("best", "of_four", "spread", "diverged", "trials")} == {
            key: before[key] for key in ("best", "of_four", "spread", "diverged", "trials")
        }
        assert row["again"] == pytest.approx(row["best"] - 5) and np.isnan(before["again"])
    assert with_repeats.shown()["Again, %"].str.endswith("*").sum() == 3
    assert "Again, %" in [column.title for column in with_repeats.columns]
    assert "Again, %" not in [column.title for column in without.columns]


def test_no_one_of_equally_good_configurations_is_named_alone(tried):
    """Which of them stands first would depend on the order of files."""
    capped = replace(tried, results=tried.results.assign(value=tried.results["value"].clip(upper=84.0)))
    turned = replace(capped, results=capped.results[::-1], planned=capped.planned[::-1])
    (told, again) = (tuning_curves(runs).reading for runs in (capped, turned))
    assert told == again and " and " in told.rpartition(". ")[2] and "have the best trial, 84.00 %" in told


def test_diverged_trials_are_counted(tried):
    table = tuning_curves(tried).table
    counts = {row["method"].name: row["diverged"] for row in table.to_dict("records")}
    assert counts["slot-attention"] == 1 and counts["em"] == 0


def test_an_entry_that_lost_trials_stands_behind_and_says_how_many_it_has(tried):
    best = tuning_curves(tried).table["method"].iloc[0]
    mine = [tried.methods[cell] == best for cell in tried.planned["cell"]]
    worst = tried.planned[mine].sort_values("seed")["cell"].iloc[:4]
    lost = tried.planned["cell"].isin(worst)
    fewer = replace(
        tried,
        planned=tried.planned.assign(status=tried.planned["status"].mask(lost, "failed")),
        results=tried.results[~tried.results["cell"].isin(worst)],
    )
    found = tuning_curves(fewer)
    last = found.table.iloc[-1]
    assert (last["method"], last["trials"], last["lost"]) == (best, 12, 4)
    assert found.shown()["Trials"].iloc[-1] == "12 of 16" and found.shown()["Trials"].iloc[0] == "16"
    assert " the best trial of the 28 of 29 configurations that lost fewest trials" in found.reading
    assert any("lost trials stands behind" in note for note in found.notes)
    assert not any("lost trials stands behind" in note for note in tuning_curves(tried).notes)


def test_tasks_are_put_together(runs):
    found = summary_over_tasks((runs, replace(runs, data="another", fingerprint="of others")))
    rows = {row["label"]: row for row in found.table.to_dict("records")}
    assert len(rows) == 10 and rows["em"]["runs"] == 10
    differences = {
        row["method"].label: row["difference"].mean
        for row in primary_comparisons(runs).table.to_dict("records")
        if row["against"].name == "uniform"
    }
    assert rows["em"]["iqm"].mean == pytest.approx(differences["em"], abs=0.1)
    assert rows["em"]["iqm"].low > 0 > rows["wang-liu"]["iqm"].high
    assert rows["em"]["improvement"].mean == 100 and rows["wang-liu"]["improvement"].mean == 0
    by_seed = runs.by_seed("accuracy", split="test", as_trained=True)
    em = next(method for method in by_seed if method.label == "em" and method.iterations == 3)
    (uniform,) = (method for method in by_seed if method.label == "uniform")
    gains = [by_seed[em][seed] - by_seed[uniform][seed] for seed in range(5)]
    assert rows["em"]["iqm"].mean == pytest.approx(trim_mean(2 * gains, 0.25))


def test_one_task_needs_no_summary(runs):
    assert summary_over_tasks((runs,)) is None
    assert summary_over_tasks((replace(runs, primary={}), runs)) is None
    assert summary_over_tasks((replace(runs, preset="quick"), replace(runs, preset="full"))) is None


def test_another_suite_on_the_same_images_is_no_further_task(runs):
    another, pairs = replace(runs, data="another", fingerprint="of others"), runs.primary["pairs"]
    fewer = replace(runs, suite="budget", primary={**runs.primary, "pairs": pairs[:2]})
    assert summary_over_tasks((runs, fewer)) is None
    found = summary_over_tasks((fewer, runs, another))
    assert found.shown().equals(summary_over_tasks((runs, another)).shown()), "the one that compares most"


def test_curves_that_still_rise_are_named(runs):
    found = learning_curves(runs)
    rows = found.table.to_dict("records")
    assert len(rows) == 29
    assert {row["method"].name for row in rows if row["rising"]} == {"wang-liu"}
    (uniform,) = (row for row in rows if row["method"].label == "uniform")
    assert uniform["rise"].mean == pytest.approx(0.1) and uniform["last"].mean == pytest.approx(70.4)
    assert uniform["area"].mean == pytest.approx(70 + 0.1 * 2.5)  # epochs 1 to 4
    assert uniform["whole"] == pytest.approx(22) and uniform["seconds"] == pytest.approx(5.5)  # after the first epoch
    assert learning_curves(replace(runs, primary={})) is None


def test_without_curves_of_named_methods_there_is_no_figure(runs):
    table = named_table(runs)
    named = {one.exact for one in (*table["method"], *table["against"])}
    cells = [cell for cell, method in runs.methods.items() if method.exact in named]
    lost = runs.results["cell"].isin(cells) & (runs.results["metric"] == "held_out_accuracy")
    found = learning_curves(replace(runs, results=runs.results[~lost]))
    assert found.figure is None
    assert {row.exact for row in found.table["method"]} == {one.exact for one in runs.methods.values()} - named


def test_one_epoch_has_no_last_step_up(runs):
    later = (runs.results["label"] == "em") & (runs.results["epoch"].fillna(0) > 1)
    table = learning_curves(replace(runs, results=runs.results[~later])).table
    unknown = {method.label for method, rise in zip(table["method"], table["rise"], strict=True) if np.isnan(rise.mean)}
    assert unknown == {"em"}


def test_one_trial_of_each_entry_has_neither_order_nor_spread(tried):
    first = tried.results[tried.results["trial"].astype(int) == 0]
    reading = tuning_curves(replace(tried, results=first)).reading
    assert reading.endswith("of one trial of each configuration.") and "nan" not in reading


def test_a_headline_of_pairs_without_equal_shares_says_how_many_are_decided(runs):
    pairs = [pair for pair in runs.primary["pairs"] if pair["theirs"]["label"] == "cnn"]
    found = headline_of(replace(runs, primary={**runs.primary, "pairs": pairs}))
    assert found.title.startswith(f"The suite named {len(pairs)} comparisons beforehand; ")
    assert not found.said[0].startswith("The suite named")


def test_several_iterations_of_one_method_are_no_best_of_it(runs):
    (em,) = [
        pair for pair in runs.primary["pairs"] if pair["ours"]["label"] == "em" and pair["theirs"]["label"] == "uniform"
    ]
    other = {**em, "ours": {**em["ours"], "iterations": 1 if em["ours"]["iterations"] != 1 else 2}}
    often = replace(runs, primary={**runs.primary, "pairs": [*runs.primary["pairs"], other]})
    labels = {*summary_over_tasks((often, replace(often, data="another", fingerprint="of others"))).table["label"]}
    assert "em" not in labels and "wang-liu" in labels
