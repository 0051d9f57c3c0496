"""Comparisons that a suite names, and seeds until their intervals are narrow enough."""

from dataclasses import replace

import numpy as np
import pytest

from routebench.analysis.contenders import contenders_of
from routebench.analysis.folder import open_folder
from routebench.analysis.judging import accuracies
from routebench.analysis.named import named_pairs
from routebench.engine.running import Listener, prepare
from routebench.engine.running._cell import make_record
from routebench.engine.running._until import _accuracy, extended, needs_of
from routebench.engine.suites import Choices, ChosenPoint, ChosenSettings, load_suite, plan
from routebench.errors import UserError
from routebench.notation import parse
from routebench.options import SuiteOptions
from routebench.protocols import Measurement, Metric
from routebench.statistics import seeds_needed, two_stage_difference

SUITE = """
question = "Which is best?"
version = 1
protocol = "accuracy"
[primary]
against = ["uniform", "cnn"]
margin = 0.5
[tuning]
trials = 2
folds = 2
[[methods]]
name = "dynamic"
first_is = "uniform"
[[methods]]
name = "em"
[[methods]]
name = "heinsen"
[[baselines]]
name = "cnn"
[baselines.models]
capsnet-small = "cnn-small"
[presets.quick]
data = "digits200"
model = "capsnet-small"
iterations = [1, 2, 3]
seeds = 4
"""
SPREAD = {"dynamic": 0.2, "em": 1.0, "heinsen": 0.1, "uniform": 0.2, "cnn": 0.3, "random": 5.0}


@pytest.fixture
def suite(parts, tmp_path):
    file = tmp_path / "named.toml"
    file.write_text(SUITE)
    return load_suite(str(file))


@pytest.fixture
def settings(tmp_path):
    """As if tuning had found em best with T=1, heinsen with T=3, and dynamic as good with T=2 as with T=3."""
    scores = {("em", 1): 80, ("em", 2): 79, ("em", 3): 70, ("heinsen", 1): 50, ("heinsen", 2): 60, ("heinsen", 3): 61,
              ("dynamic", 2): 70, ("dynamic", 3): 70, ("uniform", None): 65, ("random", None): 60}  # fmt: skip
    choices = [ChosenPoint(name, "capsnet-small", steps, 0, score, 0, 0, {}) for (name, steps), score in scores.items()]
    choices.append(ChosenPoint("cnn", "cnn-small", None, 0, 75, 0, 0, {}))
    file = tmp_path / "chosen.json"
    ChosenSettings("named", 1, "quick", "digits200", 2, 2, "0" * 16, choices).write(file)
    return file


def accuracy(cell):
    known = cell.identity
    random = np.random.default_rng([known.seed, len(known.method), known.iterations or 0])
    return 50 + SPREAD[known.method] * random.normal()


def pretend(cells, store):
    """Records as training would leave them."""
    for cell in cells:
        found = Measurement([Metric("accuracy", "test", accuracy(cell), "%", True, cell.identity.iterations)])
        store.write_record(make_record(cell, "ok", "", found, {"seconds": 1.0}), {})


def named(pairs):
    return [(f"{one.label} {one.identity.iterations}", f"{two.label} {two.identity.iterations}") for one, two in pairs]


def test_each_method_is_compared_at_the_t_of_its_best_tuning_score(suite, settings):
    made = plan(suite, "quick", Choices(settings=settings))
    assert named(made.primary_pairs) == [
        ("dynamic 2", "uniform None"),
        ("dynamic 2", "cnn None"),
        ("em 1", "uniform None"),  # T=1 is its best: there is no other first iteration to compare it with
        ("em 1", "cnn None"),
        ("heinsen 3", "uniform None"),
        ("heinsen 3", "cnn None"),
        ("heinsen 3", "heinsen 1"),
    ]


def test_without_tuning_it_is_the_default_t(suite):
    pairs = named(plan(suite, "quick", Choices()).primary_pairs)
    assert ("em 3", "em 1") in pairs and ("heinsen 2", "heinsen 1") in pairs and ("dynamic 3", "uniform None") in pairs
    assert all("random" not in one + other for one, other in pairs)


def test_a_variant_is_compared_with_the_same_variant_of_the_baseline(tmp_path, parts):
    file = tmp_path / "alike.toml"
    normed = 'variant = "normed"\nmodel_params = { presence = "batch-norm" }\n'
    added = (
        f'[[methods]]\nname = "em"\n{normed}[[baselines]]\nname = "uniform"\n[[baselines]]\nname = "uniform"\n{normed}'
    )
    file.write_text(SUITE.replace("[presets.quick]", f"{added}[presets.quick]"))
    pairs = [(ours, theirs) for ours, theirs in named(plan(load_suite(str(file)), "quick", Choices()).primary_pairs)]
    assert ("em (normed) 3", "uniform (normed) None") in pairs and ("em 3", "uniform None") in pairs
    assert ("em (normed) 3", "cnn None") in pairs
    assert not {("em (normed) 3", "uniform None"), ("em 3", "uniform (normed) None")} & {*pairs}


def test_each_t_can_be_compared_with_the_first(tmp_path, parts):
    file = tmp_path / "each.toml"
    file.write_text(SUITE.replace('against = ["uniform", "cnn"]', 'iterations = "each"'))
    assert named(plan(load_suite(str(file)), "quick", Choices()).primary_pairs) == [
        ("em 2", "em 1"),
        ("em 3", "em 1"),
        ("heinsen 2", "heinsen 1"),
        ("heinsen 3", "heinsen 1"),
    ]
    file.write_text(SUITE.replace('against = ["uniform", "cnn"]', 'iterations = "all"'))
    with pytest.raises(UserError, match=r"primary\.iterations.*best.*each"):
        load_suite(str(file))


@pytest.mark.parametrize(
    ("old", "name", "told"),
    [
        ('"cnn"]', "cn", "unknown configuration 'cn'; did you mean 'cnn'"),
        ('"uniform", ', "Uniform", "unknown configuration 'Uniform'; did you mean 'uniform'"),
        ('"cnn"]', "sinkhorn-token-choice", "unknown configuration 'sinkhorn-token-choice'"),
    ],
)
def test_a_comparison_with_what_the_suite_lacks_is_refused(tmp_path, parts, old, name, told):
    """It was left out without a word, and all that was left was called pre-specified."""
    file = tmp_path / "against.toml"
    file.write_text(SUITE.replace(old, f'"{name}"{old[-1] if old[-1] == "]" else ", "}'))
    with pytest.raises(UserError, match=rf"against\.toml: key 'primary\.against': {told}"):
        plan(load_suite(str(file)), "quick", Choices())


def test_a_comparison_may_name_what_a_preset_or_the_user_leaves_out(tmp_path, parts):
    file = tmp_path / "without.toml"
    file.write_text(SUITE.replace("[presets.quick]", '[presets.quick]\nwithout = ["cnn"]'))
    assert all(
        "cnn" not in one + other for one, other in named(plan(load_suite(str(file)), "quick", Choices()).primary_pairs)
    )


def test_trials_are_compared_with_nothing(suite):
    assert plan(suite, "quick", Choices(tuning=True)).primary_pairs == []


def test_seeds_are_added_where_a_comparison_needs_them(suite, settings, store):
    made = plan(suite, "quick", Choices(settings=settings, until=0.5))
    pretend(made.cells, store)
    needs = needs_of(made, store, 0.5)
    values = {}
    for cell in made.cells:
        values.setdefault((cell.label, cell.identity.iterations), {})[cell.identity.seed] = accuracy(cell)
    for need in needs:
        ours, theirs = (values[one.label, one.identity.iterations] for one in (need.ours, need.theirs))
        assert need.seeds == seeds_needed(ours, theirs, 4, 0.5)
    more = extended(made, store, 0.5)
    assert more.cells[: len(made.cells)] == made.cells
    counts = {}
    for cell in more.cells:
        entry = cell.label, cell.identity.iterations
        counts[entry] = counts.get(entry, 0) + 1
    for need in needs:
        for one in (need.ours, need.theirs):
            assert counts[one.label, one.identity.iterations] >= need.seeds
    assert counts["random", None] == counts["em", 3] == 4  # no comparison needs them
    assert counts["em", 1] > 20


def test_every_interval_is_then_narrow_enough_and_nothing_more_is_asked(suite, settings, store):
    made = plan(suite, "quick", Choices(settings=settings, until=0.5))
    pretend(made.cells, store)
    more = extended(made, store, 0.5)
    pretend(more.cells, store)
    assert extended(made, store, 0.5).cells == more.cells  # what came later does not move the number
    by_entry = {}
    for cell in more.cells:
        by_entry.setdefault((cell.label, cell.identity.iterations), {})[cell.identity.seed] = accuracy(cell)
    for ours, theirs in more.primary_pairs:
        one, other = (by_entry[cell.label, cell.identity.iterations] for cell in (ours, theirs))
        assert two_stage_difference(one, other, 4).half_width <= 0.5 + 1e-9


def test_nothing_is_added_before_the_first_seeds_are_done(suite, settings, store):
    made = plan(suite, "quick", Choices(settings=settings, until=0.5))
    pretend([cell for cell in made.cells if cell.identity.seed < 3], store)
    assert extended(made, store, 0.5).cells == made.cells


def test_a_call_goes_on_with_the_further_seeds(suite, settings, store, tmp_path, monkeypatch):
    def pretended(queue, store, config, listener):
        found = []
        while (cell := queue.take()) is not None:
            pretend([cell], store)
            found.append(store.record(cell.key))
        return found

    monkeypatch.setattr("routebench.engine.running._suite.run_cells", pretended)
    options = SuiteOptions(
        str(tmp_path / "named.toml"), settings=settings, until=0.5, results=store.path, jobs=1, isolate=False
    )
    done = []
    for part in prepare(options):
        part.write_plan()
        done.append(part.run(Listener()))
    first, second = done
    assert (first.cells, first.run) == (44, 44)
    assert second.run == second.cells > 20 and second.cached == 0
    (again,) = prepare(options)  # interrupted or not, the same call plans the same cells
    assert again.queue.left == [] and len(again.plan.cells) == first.cells + second.cells
    runs = open_folder(store.path).parts[0]
    pairs = named_pairs(runs)
    assert len(pairs) == 7 and all(pair.more == 0 for pair in pairs)
    assert "enough for ± 0.5 points" in str(pairs[0])


def test_how_many_seeds_are_missing_is_told(suite, settings, store):
    from routebench.engine.running._suite import write_plan

    made = plan(suite, "quick", Choices(settings=settings, until=0.5))
    write_plan(made, store)
    pretend([cell for cell in made.cells if cell.identity.seed < 3], store)
    (pair, *_) = named_pairs(open_folder(store.path).parts[0])
    assert pair.more is None
    assert str(pair).endswith(": 3 of the first 4 seeds have results; how many it needs is known once all have")
    pretend(made.cells, store)
    needs = needs_of(made, store, 0.5)
    pairs = named_pairs(open_folder(store.path).parts[0])
    assert [pair.more for pair in pairs] == [need.seeds - 4 for need in needs]
    assert any(pair.more for pair in pairs)


def test_a_plan_of_fewer_methods_leaves_the_comparisons_named_that_earlier_ones_named(suite, settings, store):
    from routebench.engine.running._suite import write_plan

    def pairs():
        known = open_folder(store.path).parts[0].primary["pairs"]
        return {(one["ours"]["label"], one["theirs"]["label"]) for one in known}

    write_plan(plan(suite, "quick", Choices(settings=settings)), store)
    every = pairs()
    assert {"dynamic", "em", "heinsen"} == {ours for ours, _ in every}
    write_plan(plan(suite, "quick", Choices((parse("em"),), settings=settings)), store)
    assert pairs() == every
    known = open_folder(store.path).parts[0].primary["pairs"]
    assert len(known) == len({*map(str, known)})
    suite_of_today = replace(suite, primary=replace(suite.primary, against=("cnn",), margin=0.25))
    write_plan(plan(suite_of_today, "quick", Choices(settings=settings)), store)
    assert "uniform" not in {theirs for _, theirs in pairs()}, "no run of the earlier plans counts"
    assert open_folder(store.path).parts[0].primary["margin"] == 0.25


@pytest.mark.parametrize(
    "more", [{"where": {"class": 3}}, {"where": {"views": "new"}, "test_iterations": None}, {"epoch": 1}]
)
def test_the_accuracy_of_some_images_is_not_taken_for_that_of_all(suite, settings, store, more):
    from routebench.engine.running._suite import write_plan

    made = plan(suite, "quick", Choices(settings=settings))
    write_plan(made, store)
    pretend(made.cells, store)
    cell = made.cells[0]
    record = store.record(cell.key)
    (overall,) = record.metrics
    some = {**overall, "value": 1.5, **more}
    for metrics in ([some, overall], [overall, some]):
        store.write_record(replace(record, metrics=metrics), {})
        assert store.record(cell.key).accuracies == [overall["value"]]
        runs = open_folder(store.path).parts[0]
        judged = {key: one.accuracies[seed] for one in contenders_of(runs) for seed, key in one.cells.items()}
        assert judged[cell.key] == overall["value"]
        by_seed = accuracies(runs)[runs.methods[cell.key]]
        assert by_seed[cell.identity.seed] == overall["value"]
        assert _accuracy(store, cell) == overall["value"]
    twice = [{**overall, "value": 99.0}, overall]
    store.write_record(replace(record, metrics=twice), {})
    assert store.record(cell.key).accuracy is None and np.isnan(_accuracy(store, cell))
    runs = open_folder(store.path).parts[0]
    method = next(one.method for one in contenders_of(runs) if one.method == runs.methods[cell.key])
    assert method.lost == {cell.identity.seed}, "a seed with two accuracies has none"


def test_a_suite_that_names_nothing_cannot_be_asked(parts, suite_file):
    with pytest.raises(UserError, match=r"\[primary\]"):
        plan(load_suite(str(suite_file(protocol="accuracy"))), "quick", Choices(until=0.3))
