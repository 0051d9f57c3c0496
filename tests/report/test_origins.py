import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest

from routebench.analysis import open_folder
from routebench.engine.results import Store, tuning_of
from routebench.engine.suites import ChosenPoint, ChosenSettings
from routebench.quantities import written
from routebench.report import origins_of
from routebench.report._tuned import of_all, tuned_of, without_tuning
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, N_TEST, made_up_records, made_up_runs, record_of
from tests.comparing.planted import ACCURACY


def found_for(records, plan=None):
    return origins_of(made_up_runs(records), plan or {}, [*map(record_of, records)], N_TEST)


def value(facts, name):
    return next(fact for fact in facts if fact.name == name)


def test_it_says_how_the_numbers_were_made() -> None:
    found = found_for(made_up_records())
    assert value(found.made, "data set").value == "mnist5k, fingerprint 0123456789abcdef"
    assert value(found.made, "seeds").value.startswith("0, 1, 2:")
    assert "last epoch" in value(found.made, "weights tested").value
    assert value(found.recipe, "batch size").value == "128"
    assert value(found.provenance, "torch").value == "2.13.0"
    assert value(found.provenance, "TF32").value == "no"
    assert found.command == "python -m routebench suite accuracy --preset quick"
    assert found.warnings == ()


def test_where_nothing_is_trained_there_are_no_epochs():
    records = made_up_records()
    trained = origins_of(made_up_runs(records), {}, [*map(record_of, records)], N_TEST)
    assert "epochs" in {fact.name for fact in trained.recipe}
    results = made_up_runs(records).results.drop(columns="epoch")
    runs = replace(made_up_runs(records), results=results, protocol="cost")
    timed = origins_of(runs, {}, [*map(record_of, records)], None)
    assert {fact.name for fact in timed.recipe} == {fact.name for fact in trained.recipe} - {"epochs"}


def test_it_says_how_many_images_a_preset_took() -> None:
    taken = "5,000 of the 70,000 images of fashion-mnist, the same for all methods and seeds"
    assert value(found_for(made_up_records(), {"taken": taken}).made, "images taken").value == taken
    assert "images taken" not in {fact.name for fact in found_for(made_up_records(), {"taken": ""}).made}


def test_names_of_machines_and_empty_entries_are_left_out() -> None:
    names = {fact.name for fact in found_for(made_up_records()).provenance}
    assert names.isdisjoint({"hostname", "GPU", "finished", "seconds", "command"})


def test_what_is_mixed_is_said_so() -> None:
    records = copy.deepcopy(made_up_records())
    records[0]["provenance"]["versions"]["torch"] = "2.11.0"
    records[1]["provenance"]["dirty"] = True
    records[2]["identity"]["suite_version"] = 2
    found = found_for(records)
    assert value(found.provenance, "torch").mixed
    assert any("differ in torch: 2.11.0; 2.13.0" in warning for warning in found.warnings)
    assert any("uncommitted changes, so the commit alone" in warning for warning in found.warnings)
    assert any("Versions 1 and 2 of the suite are mixed" in warning for warning in found.warnings)


def test_without_a_repository_nobody_knows_of_uncommitted_changes() -> None:
    records = copy.deepcopy(made_up_records())
    for record in records:
        record["provenance"] |= {"commit": "", "dirty": False}
        record["provenance"]["versions"]["routebench"] = "0.1.0"
    found = found_for(records)
    assert value(found.provenance, "commit").value == "unknown (installed package 0.1.0)"
    assert "uncommitted changes" not in {fact.name for fact in found.provenance}
    for record in records:
        record["provenance"] |= {"dirty": None, "package_hash": "0123456789abcdef"}
    told = value(found_for(records).provenance, "commit").value
    assert told == "unknown (installed package 0.1.0, source 0123456789abcdef)"


def test_the_plans_command_is_the_newest() -> None:
    plan = {"command": ["python", "-m", "routebench", "suite", "accuracy", "--plugin", "my routing.py"]}
    assert found_for(made_up_records(), plan).command.endswith("--plugin 'my routing.py'")


def made_with(*plugins, command="python -m routebench suite accuracy"):
    """Records of a run with plug-ins that imported."""
    records = made_up_records(seeds=1, failures=False)
    for record in records:
        record["provenance"] |= {"plugins": dict.fromkeys(plugins, "0" * 16), "command": command}
    return records


def test_a_command_with_a_plug_in_that_gave_nothing_gives_way_to_that_of_the_finished_runs() -> None:
    plan = {"command": "python -m routebench suite accuracy --plugin broken.py"}
    found = found_for(made_with(), plan)
    assert (found.command, found.besides) == ("python -m routebench suite accuracy", "")
    both = {"command": "python -m routebench suite accuracy --plugin mine.py --plugin=more.py"}
    assert found_for(made_with("mine.py", "more.py"), both).command == both["command"]


def test_where_no_other_command_was_given_what_it_does_not_need_is_said() -> None:
    command = "python -m routebench suite accuracy --plugin broken.py --plugin mine.py"
    found = found_for(made_with("mine.py", command=command), {"command": command})
    assert found.command == command
    assert found.besides == "This was the last command given here. No finished run came with broken.py."


def told_of(records, command, suite="standard", preset="full"):
    runs = replace(made_up_runs(records), suite=suite, preset=preset)
    return origins_of(runs, {"command": command}, [*map(record_of, records)], N_TEST).command


def chosen_by(trials):
    records = made_up_records(seeds=1, failures=False)
    for record in records:
        record["identity"]["tuning"] = {"point": {}, "score": 1.0, "trials": trials}
    return records


def test_a_command_leaves_out_the_settings_of_its_preset_and_then_the_folder() -> None:
    (file,) = (Path(__file__).parents[2] / "suites").glob("standard.full.settings.json")
    shipped = chosen_by(json.loads(file.read_text())["digest"])
    short = "python -m routebench suite standard --preset full"
    assert told_of(shipped, f"{short} --results std --settings standard.full.settings.json") == short
    assert told_of(shipped, f"{short} --results=std") == short
    own = f"{short} --results std --settings std/standard.full.settings.json"
    assert told_of(chosen_by("another"), own) == own, "tune has written them there"
    assert told_of(shipped, f"{short} 'unclosed") == f"{short} 'unclosed"
    for talk in ("-q", "--verbose", "--json"):
        assert told_of(made_up_records(seeds=1), f"python -m routebench suite accuracy {talk} --jobs 2").endswith(
            "y --jobs 2"
        )

    tuned = "python -m routebench tune accuracy --preset mine --results std"
    assert told_of(made_up_records(seeds=1), tuned, "accuracy", "mine-trials") == tuned


def test_calls_for_one_method_each_are_all_told_the_newest_plan_last() -> None:
    records = made_up_records(seeds=1, failures=False)
    for record in records:
        record["provenance"]["command"] = f"python -m routebench suite accuracy --method {record['label']}"
    runs = made_up_runs(records)
    older = runs.planned["label"] == "em"
    planned = runs.planned.assign(plan=["z" if one else "a" for one in older])  # names do not sort by age
    plan = {"plan": "a", "command": "python -m routebench suite accuracy --method dynamic"}
    told = origins_of(replace(runs, planned=planned), plan, [*map(record_of, records)], N_TEST).command
    calls = [f"python -m routebench suite accuracy --method {name}" for name in ("em", "dynamic")]
    assert told == " && ".join(calls)


SUITE = "python -m routebench suite accuracy"


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([("--seeds 2", "all", (0, 1)), ("--seeds 2..3", "all", (2, 3))], ["--seeds 4"]),
        ([("--seeds 2", "all", (0, 1)), ("--seeds 3..4", "all", (3, 4))], ["--seeds 2", "--seeds 3..4"]),
        ([("", "all", (0, 1)), ("--method em --seeds 3", "em", (0, 1, 2))], ["", "--method em --seeds 3"]),
        ([("", "all", (0, 1)), ("--method em --seeds 2..3", "em", (2, 3))], ["", "--method em --seeds 4"]),
        ([("", "all", (0, 1)), ("--method em --seeds 3..4", "em", (3, 4))], ["", "--method em --seeds 3..4"]),
        (
            [(f"--method {one} --seeds {seeds[0]}..{seeds[-1]}", one, seeds) for seeds in ((0, 1), (2, 3), (4, 5))
             for one in ("dynamic", "em")],
            ["--method dynamic --seeds 6", "--method em --seeds 6"],
        ),
        ([("--until=1 --seeds 1", "all", (0,)), ("--until 2", "all", (1, 2))], ["--until=1 --seeds 1", "--until 2"]),
    ],
)  # fmt: skip
def test_commands_repeat_all_seeds_of_every_plan_that_counts(calls, told, tmp_path) -> None:
    methods = {name: ([3], *METHODS[name][1:3], [96.0]) for name in ("dynamic", "em")}
    for time, (options, which, seeds) in enumerate(calls):
        records = made_up_records(max(seeds) + 1, failures=False, methods=methods)
        wanted = [one for one in records if one["identity"]["seed"] in seeds and which in ("all", one["label"])]
        asked = {
            "command": f"{SUITE} {options}".strip(),
            "settings": {"seeds": written(range(seeds[0], seeds[-1] + 1))},
        }
        write_folder(tmp_path, wanted, time=time, more=asked)
    folder = open_folder(tmp_path)
    (part,) = folder.parts
    found = origins_of(part, folder.plans[part.name], folder.records(part), N_TEST)
    assert found.command.split(" && ") == [f"{SUITE} {one}".strip() for one in told]


def test_a_command_that_left_runs_out_for_a_later_call_makes_all() -> None:
    records = made_up_records(seeds=1, failures=False)
    one = records[0]["cell"]
    for left_out in (f"--run {one}", f"--cell={one[:4]}", "--budget 20m", f"--budget=20 --run {one} --run 0123"):
        assert told_of(records, f"{SUITE} {left_out} --jobs 2") == f"{SUITE} --jobs 2"
    assert told_of(records[:1], f"{SUITE} --run {one[:4]} --jobs 2") == f"{SUITE} --run {one[:4]} --jobs 2"


def test_without_records_a_command_is_still_given() -> None:
    records = made_up_records(seeds=1)
    found = origins_of(made_up_runs(records), {}, [], None)
    assert found.command == "python -m routebench suite accuracy --preset quick --data mnist5k"
    assert value(found.made, "data set").value == "mnist5k, fingerprint unknown"


def test_what_methods_differ_in_besides_routing_is_a_caveat() -> None:
    records = copy.deepcopy(made_up_records())
    assert found_for(records).caveats == ()
    for record in records:
        if record["label"] == "em":
            record["identity"]["training"]["loss"] = "spread"
    found = found_for(records)
    assert found.caveats == ("Methods differ in more than routing: loss.",)
    assert found.settings.names == ("loss",)
    assert [values for _, values in found.settings.rows] == [("margin",), ("spread",)]
    (others, _), (em, _) = found.settings.rows
    assert others.startswith("Dynamic, ") and em == "EM"


def test_options_of_the_protocol_that_differ_are_a_caveat_too() -> None:
    records = copy.deepcopy(made_up_records())
    for record in records:
        record["identity"]["options"] = {"steps": 1 if record["label"] == "em" else 10}
    found = found_for(records)
    assert found.caveats == ("Methods differ in more than routing: steps.",)
    assert [values for _, values in found.settings.rows] == [("10",), ("1",)]


def test_a_method_that_differs_from_itself_is_named_with_its_iterations() -> None:
    records = copy.deepcopy(made_up_records())
    for record in records:
        if (record["label"], record["identity"]["iterations"]) == ("em", 1):
            record["identity"]["training"]["loss"] = "spread"
    rows = dict(found_for(records).settings.rows)
    assert rows.pop("EM, T = 1") == ("spread",)
    assert "EM, T = 2" in next(iter(rows))


def test_a_rate_that_was_tuned_has_three_digits_where_it_differs_and_all_in_the_recipe() -> None:
    records = copy.deepcopy(made_up_records())
    for record in records:
        if record["label"] == "em":
            record["identity"]["training"]["learning_rate"] = 0.0071234
    found = found_for(records)
    assert dict(found.settings.rows)["EM"] == ("0.00712",)
    assert "0.0071234" in value(found.recipe, "learning rate").value


def test_tuned_weights_and_a_methods_own_hyperparameters_are_differences_too() -> None:
    records = copy.deepcopy(made_up_records())
    for record in records:
        point = {"loss": "margin", "model.weight_std": 0.3, "method.final_lambda": 0.0043361}
        if record["label"] == "em":
            record["identity"]["tuning"] = {"point": point, "score": 90.0, "trials": "x"}
    found = found_for(records)
    assert found.settings.names == ("weight std", "own hyperparameters")
    assert dict(found.settings.rows)["EM"] == ("0.3", "final lambda 0.00434")
    assert found.settings.caveat == ("Methods differ in more than routing: weight std and own hyperparameters.",)


def with_schedules(**schedules):
    """Records of methods with schedules of their own; each has a decay of its own."""
    records = copy.deepcopy(made_up_records(methods={name: METHODS[name] for name in schedules}))
    for record in records:
        schedule = schedules[record["label"]]
        decay = {"constant": 0.9, "exponential": 0.1}[schedule]
        record["identity"]["training"] |= {"schedule": schedule, "decay": decay, "decay_steps": 5, "milestones": []}
    return records


def test_settings_that_a_schedule_does_not_use_are_no_difference() -> None:
    records = with_schedules(dynamic="constant", em="exponential")
    found = found_for(records)
    assert found.caveats == ("Methods differ in more than routing: schedule.",)
    assert found.settings.rows == (("Dynamic", ("constant",)), ("EM", ("exponential",)))
    records = with_schedules(dynamic="exponential", em="exponential")
    for record in records:
        if record["label"] == "em":
            record["identity"]["training"] |= {"decay_steps": 7, "milestones": [3]}
    settings = found_for(records).settings
    assert settings.names == ("decay steps",)
    assert settings.rows == (("Dynamic", ("5",)), ("EM", ("7",)))


def test_where_nothing_is_routed_routing_is_not_spoken_of() -> None:
    records = with_schedules(dynamic="constant", em="exponential")
    for record in records:
        record["identity"]["routed"] = False
    (caveat,) = found_for(records).caveats
    assert caveat == "Models differ in more than their kind: schedule."


def test_what_was_not_tuned_beside_what_was_is_named_for_readers() -> None:
    records = copy.deepcopy(made_up_records())
    for record in records:
        if record["label"] != "em":
            record["identity"]["tuning"] = {"point": {}, "trials": "0123"}
    assert found_for(records).caveats == ("Not tuned, but trained with the suite's defaults: EM.",)


def test_the_suites_own_caveat_comes_first() -> None:
    runs = made_up_runs()
    assert origins_of(runs, {"caveat": "Tuned on the test part."}, [], None).caveats[0] == "Tuned on the test part."
    assert "Tuned on the test part." not in origins_of(runs, {}, [], None).caveats


def test_back_ends_are_named_and_a_method_that_needs_another_is_no_warning() -> None:
    records = copy.deepcopy(made_up_records())
    for number, record in enumerate(records):
        record["provenance"] |= {"backend": "auto", "backends": ["fused"] if number else ["fused", "reference"]}
    found = found_for(records)
    assert value(found.provenance, "back end asked for").value == "auto"
    assert value(found.provenance, "back ends that routed").value == "fused, reference; fused"
    assert found.warnings == ()
    records[0]["provenance"]["backend"] = "reference"
    assert any("differ in back end asked for" in warning for warning in found_for(records).warnings)


def test_parts_of_older_versions_are_told():
    """Until they are measured again, what was measured with them stays."""
    records = [record for record in made_up_records() if record["identity"]["method"] in ("em", "uniform")]
    assert not any("older version" in told for told in found_for(records).told)
    for record in records:
        record["identity"] |= {"method": "heinsen"} if record["identity"]["method"] == "em" else {}
    (told,) = [told for told in found_for(records).told if "older version" in told]
    assert told == "Measured with an older version of method heinsen (1, now 2); a run of today measures it anew."
    for record in records:
        record["identity"]["versions"] = {"method": 2} if record["identity"]["method"] == "heinsen" else None
    assert not any("older version" in told for told in found_for(records).told)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (
            {"model": "matrix-capsules-small", "model_params": {"coordinates": "hinton"}},
            "coordinates hinton (1, now 2)",
        ),
        ({"model": "smallnorb-cnn", "model_params": {"crops": 13}}, "crops 13 (1, now 2)"),
        ({"protocol": "robustness", "options": {"corruptions": ["pixelate"]}}, "corruption pixelate (1, now 2)"),
    ],
)
def test_values_of_options_and_parts_of_protocols_have_versions_too(changed, named):
    records = [record for record in made_up_records() if record["identity"]["method"] == "uniform"]
    assert not any("older version" in told for told in found_for(records).told)
    for record in records:
        record["identity"] |= changed
    (told,) = [told for told in found_for(records).told if "older version" in told]
    assert f"Measured with an older version of {named};" in told


def test_runs_of_code_that_no_version_stands_for_are_told():
    records = made_up_records()
    records[0]["identity"]["source"] = "feedfacefeedface"
    (told,) = [told for told in found_for(records).told if "not known to be" in told]
    assert told == f"The code of 1 run of {len(records)} is not known to be that of today's versions."
    records[0]["identity"]["method"] = "a-method-of-a-plugin"  # whose hash it is
    assert not any("not known to be" in told for told in found_for(records).told)


def test_code_differs_only_between_runs_of_the_same_parts():
    """Each run has a hash of the files of its own parts: another method's is another, and no mixture."""
    records = copy.deepcopy(made_up_records())
    for record in records:
        record["provenance"]["code"] = f"code of {record['identity']['method']} on {record['identity']['model']}"
    found = found_for(records)
    assert found.warnings == () and not value(found.provenance, "code").mixed
    next(record for record in records if record["identity"]["method"] == "em")["provenance"]["code"] = "edited"
    found = found_for(records)
    assert found.warnings == ("Runs of one method differ in code: EM.",) and value(found.provenance, "code").mixed


def tuned_on(data, plans, untuned=(), **trials):
    """How settings of a part on some data were chosen, as these plans and its records tell it."""
    records = [record_of(one) for one in made_up_records(seeds=1, failures=False)]
    for record in records:
        name = trials.get(record.label.replace("-", "_"), "first")
        tuning = None if record.label in untuned else {"trials": name, "point": {}, "score": 1.0}
        record.identity.__dict__["tuning"] = tuning
    return tuned_of(data, [*filter(None, map(tuning_of, plans))], records)


def plan_tells(settings, data="mnist", **others):
    """A plan of before, whose caveat alone tells of the choice."""
    return {"caveat": f"Quote no time. {replace(settings, **others).told(data).told} More."}


@pytest.fixture(scope="module")
def chosen():
    point = ChosenPoint("em", "capsnet-small", 1, 0, 90.0, 0, 0, {})
    return ChosenSettings("accuracy", 1, "quick", "mnist", 16, 16, "first", (point, replace(point, iterations=2)))


def test_settings_of_several_plans_are_counted_in_the_records(chosen) -> None:
    """`rank` fills a folder with several methods, and each plan knows its own alone."""
    found = tuned_on("mnist", [plan_tells(chosen), plan_tells(chosen)], untuned=("cnn",), em="then")
    counted, kept = found.sentences
    own = sum(len(grid) for label, (grid, *_) in METHODS.items() if label != "cnn")
    assert counted.startswith(
        f"Settings of {own} of {own + 1} configurations were tuned with one budget: each has the "
    )
    assert counted.endswith("best of 16 trials on held-out parts of the training images of the same data set.")
    assert kept.endswith(f"unless it reads files itself (trials first for {own - 3}, then for 3).")
    several = tuned_on("mnist", [plan_tells(chosen), plan_tells(chosen, trials=8, planned=8)])
    assert "were tuned: each has the best of 16 trials or 8 trials on" in several.sentences[0]
    assert tuned_on("mnist", [{"caveat": "No settings were tuned."}]) is None


@pytest.mark.parametrize(
    ("others", "trials", "told"),
    [
        (
            {},
            16,
            "with one budget: each has the best of 16 trials on held-out parts of the training images",
        ),
        ({"trials": 48, "planned": 48}, None, "tuned: each has the best of 16 trials (EM (ratio), "),
        ({"data": "svhn"}, 16, "tuned: each has the best of 16 trials on images of the same data set (EM (ratio), "),
    ],
)
def test_methods_that_had_more_trials_or_other_images_are_named(chosen, tmp_path, others, trials, told) -> None:
    """Plans of two calls lie in one folder: what the newest tells holds for its own methods alone."""
    source, store = Store(ACCURACY), Store(tmp_path)
    store.prepare()
    (plan,) = source.plans()
    for more in ({}, others):
        tuning = {"trials": str(more), "point": {}, "score": 1.0}
        cells = [
            (one.cell, replace(one, cell=known.key, identity=known))
            for one in plan.cells
            for known in [replace(one.identity, tuning=tuning)]
            if (one.label == "dynamic") == (more is others)
        ]
        facts = {**plan.head, "tuned": replace(replace(chosen, data="mnist5k"), **more).told("mnist5k").as_dict()}
        name = f"{plan.head['plan']}{'b' if more is others else 'a'}"
        store.write_plan(name, {**facts, "plan": name, "cells": [cell.as_dict() for _, cell in cells]})
        for before, cell in cells:
            record = replace(source.record(before), cell=cell.cell, identity=cell.identity, files=None, arrays=None)
            store.write_record(record, {})
    found = open_folder(tmp_path)
    (part,) = found.parts
    tuned = origins_of(part, found.plans[part.name], found.records(part), None).tuned
    assert part.trials == trials and told in tuned.sentences[0]
    assert ("(Dynamic) on held-out parts" in tuned.sentences[0]) == bool(others)
    summary = of_all([tuned], {tuned.budgets: ""})
    assert ("with one budget" in summary) == (not others) == ("Not all methods had the same: " not in summary)


@pytest.mark.parametrize(
    ("data", "images"),
    [
        ("mnist", "the training images of the same data set."),
        ("take:500:mnist", "the training images of the same data set."),
        ("few:500:mnist", "all training images of the same data set."),
        ("svhn", "the training images of mnist."),
    ],
)
def test_images_of_a_set_are_told_apart_from_those_of_another(chosen, data, images) -> None:
    told = plan_tells(chosen, data)
    counted, kept = tuned_on(data, [told]).sentences
    assert counted.endswith(f"held-out parts of {images}")
    assert ("itself. Images of mnist are not compared with the test images of svhn (" in kept) == (data == "svhn")
    assert ("images of mnist are not compared" in told["caveat"]) == (data == "svhn")
    assert without_tuning(told) == "Quote no time. More."


@pytest.mark.parametrize(
    "others", [{}, {"trials": 8}, {"finalists": 4, "repeats": 1}, {"trials": 9, "finalists": 4, "repeats": 3}]
)
@pytest.mark.parametrize("data", ["mnist", "svhn", "few:500:mnist"])
def test_a_plan_holds_the_choice_as_facts_and_plans_of_before_tell_the_same(chosen, data, others) -> None:
    known, before = replace(chosen, **others).told(data), plan_tells(chosen, data, **others)
    assert tuning_of(before) == known
    now = {"caveat": f"Quote no time. {known.told} More.", "tuned": json.loads(json.dumps(known.as_dict()))}
    assert tuning_of(now) == known and without_tuning(now) == "Quote no time. More."
    other = {**now, "caveat": "In other words.", "tuned": {**now["tuned"], "told": "In other"}}
    assert replace(tuning_of(other), told=known.told) == known and without_tuning(other) == "words."


def test_a_summary_tells_once_how_settings_were_chosen(chosen) -> None:
    parts = [tuned_on(data, [plan_tells(chosen, data)]) for data in ("mnist", "svhn", "few:500:mnist")]
    begin = "Settings were tuned, methods beside each other with one budget: each tuned configuration has the best of"
    others = (
        "on held-out parts of the training images. For svhn they are those of mnist, whose images are not compared "
        "with its test images. Settings for 500 training images were chosen with all training images. Trials are given "
    )
    assert of_all(parts, {parts[0].budgets: ""}).startswith(f"{begin} 16 trials, {others}")
    assert of_all(parts, {parts[0].budgets: "A"}).startswith(f"A: {begin}")
    more = tuned_on("mnist", [plan_tells(chosen, finalists=2, repeats=1)])
    told = of_all([*parts, more], {parts[0].budgets: "A, B and C", more.budgets: "D"})
    again = "16 trials, the best 2 of which ran again with another seed"
    assert told.startswith(f"{begin} 16 trials (A, B and C) and {again} (D), {others}")
