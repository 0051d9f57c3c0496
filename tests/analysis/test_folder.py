import json
import sys

import pytest

from routebench.analysis import run
from routebench.analysis._result import reads, reads_across, reads_folder
from routebench.analysis.folder import open_folder
from routebench.engine.results._checksum import sealed
from routebench.errors import UserError
from routebench.registry import analyses
from routebench.report import _page as page
from routebench.report import origins_of, write_report
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, RECIPE, made_up_records, made_up_runs, results_of

FEW = {name: METHODS[name] for name in ("dynamic", "em", "uniform", "cnn")}


def test_what_was_written_is_what_analyses_read(tmp_path) -> None:
    records = made_up_records(methods=FEW)
    (part,) = open_folder(write_folder(tmp_path / "results", records)).parts
    expected = made_up_runs(records)
    assert (part.suite, part.preset, part.data) == ("accuracy", "quick", "mnist5k")
    assert (part.model, part.protocol) == ("capsnet-small", "accuracy")
    assert list(part.planned["status"]) == list(expected.planned["status"])
    assert sorted(part.results["value"].dropna()) == sorted(results_of(records)["value"].dropna())
    assert part.correct(records[0]["cell"]).tolist() == records[0]["correct"].tolist()
    assert part.correct("0" * 16) is None
    for name in ("accuracy-table", "failures"):
        assert analyses[name](part).shown().equals(analyses[name](expected).shown())


def test_every_preset_is_a_part_the_newest_first(tmp_path) -> None:
    path = tmp_path / "results"
    write_folder(path, made_up_records(methods=FEW, seeds=1, preset="quick"), "quick", time=1)
    write_folder(path, made_up_records(methods=FEW, seeds=1, preset="smoke"), "smoke", time=2)
    folder = open_folder(path)
    assert [part.preset for part in folder.parts] == ["smoke", "quick"]
    for part in folder.parts:
        assert set(part.results["cell"]) <= set(part.planned["cell"])
        assert folder.plans[part.name]["preset"] == part.preset
        assert len(folder.records(part)) == (part.planned["status"] != "not run").sum()


def test_a_control_with_its_own_network_stands_beside_each_model(tmp_path) -> None:
    records = made_up_records(methods=FEW, seeds=1, failures=False)
    for record in records:
        if record["label"] == "em":
            record["identity"] |= {"model": "capsnet"}
    parts = open_folder(write_folder(tmp_path / "results", records)).parts
    assert {part.model for part in parts} == {"capsnet-small", "capsnet"}
    labels = {part.model: set(part.planned["label"]) for part in parts}
    assert labels["capsnet"] == {"em", "cnn"}
    assert labels["capsnet-small"] == {"dynamic", "uniform", "cnn"}


def test_a_control_goes_with_the_models_that_the_plan_puts_it_beside(tmp_path) -> None:
    records = made_up_records(methods=FEW, seeds=1, failures=False)
    for record in records:
        if record["label"] == "em":
            record["identity"] |= {"model": "capsnet"}
    path = write_folder(tmp_path / "results", records)
    (plan,) = (path / "plans").glob("*.json")
    content = json.loads(plan.read_text())
    (own,) = {record["identity"]["model"] for record in records if record["label"] == "cnn"}
    plan.write_text(sealed({**content, "networks": {"cnn": {"capsnet": "cnn", "capsnet-small": own}}}))
    labels = {part.model: set(part.planned["label"]) for part in open_folder(path).parts}
    assert labels == {"capsnet": {"em"}, "capsnet-small": {"dynamic", "uniform", "cnn"}}


def test_methods_in_networks_of_their_own_stand_beside_the_model_that_the_plan_was_made_for(tmp_path) -> None:
    methods = {
        "em": ([2], "method", "capsnet-small", [95.0]),
        "em (vector poses)": ([2], "method", "vectors", [94.0]),
        "dynamic": ([2], "method", "capsnet-dynamic", [93.0]),
        "uniform": METHODS["uniform"],
    }
    records = made_up_records(methods=methods, seeds=1, failures=False)
    for record in records:
        record["identity"]["method"] = record["label"].partition(" (")[0]
    path = write_folder(tmp_path / "results", records)
    (plan,) = (path / "plans").glob("*.json")
    networks = {
        "em": {"capsnet-small": ["capsnet-small", "vectors"]},
        "dynamic": {"capsnet-small": ["capsnet-dynamic"]},
    }
    content = {**json.loads(plan.read_text()), "networks": networks, "settings": {"models": ["capsnet-small"]}}
    plan.write_text(sealed(content))
    (part,) = open_folder(path).parts
    assert part.model == "capsnet-small"
    assert set(part.planned["label"]) == set(methods)


def test_a_folder_that_is_missing_or_empty_says_what_to_do(tmp_path) -> None:
    with pytest.raises(UserError, match="expected a results folder"):
        open_folder(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"nothing was planned .* run `python -m routebench suite NAME` first"):
        open_folder(tmp_path)


def test_an_analysis_runs_as_a_script(tmp_path, monkeypatch, capsys) -> None:
    path = write_folder(tmp_path / "results", made_up_records(methods=FEW, seeds=2, failures=False))
    monkeypatch.setattr(sys, "argv", ["gain_over_uniform.py", str(path)])
    run(analyses["gain-over-uniform"])
    said = capsys.readouterr().out
    assert "Dynamic, T = 2" in said
    drawn = path / "report-figures" / "accuracy-quick-mnist5k-capsnet-small-gain-over-uniform.svg"
    assert f"figure: {drawn}" in said
    assert drawn.read_text(encoding="utf-8").count("<svg ") == 1


def test_a_script_across_data_takes_the_parts_together(tmp_path, monkeypatch, capsys) -> None:
    path = write_folder(tmp_path / "results", made_up_records(methods=FEW, seeds=2, failures=False))
    others = made_up_records(methods=FEW, seeds=2, failures=False)
    for record in others:
        record["identity"] |= {"data": "other", "data_fingerprint": "fedcba9876543210"}
        record["cell"] = record["cell"][::-1]
    write_folder(path, others, time=1)
    monkeypatch.setattr(sys, "argv", ["accuracy_across_data.py", str(path)])
    run(analyses["accuracy-across-data"])
    said = capsys.readouterr().out
    assert said.startswith("accuracy, quick, across-data, capsnet-small: Ranks over data sets\n")
    assert said.count("figure: ") == 1


def two_presets(path):
    """A folder with two parts."""
    write_folder(path, made_up_records(methods=FEW, seeds=2, failures=False), time=1)
    return write_folder(path, made_up_records(methods=FEW, seeds=2, failures=False, preset="smoke"), "smoke", time=2)


def test_a_script_over_a_whole_folder_takes_all_parts_at_once(tmp_path, monkeypatch, capsys) -> None:
    path = two_presets(tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["accuracy_cost_pareto.py", str(path)])
    run(analyses["pareto"])
    said = capsys.readouterr().out
    assert said.startswith("the whole folder: Accuracy against cost\n")
    assert said.count("figure: ") == 1
    assert (path / "report-figures" / "whole-folder-pareto.svg").exists()
    assert "smoke, mnist5k, capsnet-small" in said
    assert "quick, mnist5k, capsnet-small" in said


def test_the_whole_folder_is_asked_once_by_those_that_read_it_and_by_no_part(tmp_path, monkeypatch) -> None:
    pareto = analyses["pareto"]
    assert reads_folder(pareto)
    assert not any(reads(pareto, protocol) or reads_across(pareto, protocol) for protocol in ("", "accuracy", "cost"))
    assert not any(reads_folder(analyses[name]) for name in ("accuracy-table", "accuracy-across-data", "failures"))
    names = ("pareto", "qualitative-claims")
    asked = {name: analyses[name] for name in ("accuracy-table", "accuracy-across-data", *names)}
    monkeypatch.setattr(page, "analyses", asked)  # the others have pages of their own
    written = write_report(two_presets(tmp_path / "results"))
    text = written.page.read_text(encoding="utf-8")
    places = [text.index(f'id="{place}"') for place in ("overview-pareto", "whole-qualitative-claims")]
    assert places == sorted(places)
    assert (written.page.with_name("report-figures") / "whole-folder-pareto.svg").exists()
    assert (written.page.with_name("report-figures") / "whole-folder-qualitative-claims.csv").exists()


@pytest.mark.parametrize(("found", "code"), [(None, 4), ("no folder", 2)])
def test_a_script_without_anything_to_show_ends_with_a_code(tmp_path, monkeypatch, capsys, found, code) -> None:
    path = write_folder(tmp_path / "results", made_up_records(methods={"none": METHODS["none"]}, seeds=1))
    monkeypatch.setattr(sys, "argv", ["x.py", str(path if found is None else tmp_path / "no")])
    with pytest.raises(SystemExit) as ended:
        run(analyses["gain-over-uniform"])
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ({1: 3, 8: 5}, 7),
        ({1: 3, 8: 4, 9: 5}, 7),
        ({1: 5, 8: 5}, 0),
        ({1: 5, 8: 3}, 0),
        ({1: 1, 8: 5}, 0),  # one seed has no interval
        ({0: 3, 1: 5}, 0),  # when one run had ended
    ],
)
def test_seeds_that_are_added_after_results_are_told(tmp_path, calls, told) -> None:
    few = {name: METHODS[name] for name in ("dynamic", "em", "uniform")}
    whole = made_up_records(methods=few, seeds=5, failures=False)
    for time, count in calls.items():
        write_folder(tmp_path, [one for one in whole if one["identity"]["seed"] < count], f"quick{time}", time=time)
    for file in (tmp_path / "plans").iterdir():  # one preset, several calls
        file.write_text(sealed({**json.loads(file.read_text()), "preset": "quick"}))
    (part,) = (folder := open_folder(tmp_path)).parts
    plan = folder.plans[part.name]
    assert plan["added"] == told
    caveats = " ".join(origins_of(part, plan, folder.records(part), None).told)
    assert ("Seeds were added to 7 configurations" in caveats) == bool(told)


@pytest.mark.parametrize(("margins", "told"), [((0.5, 2.0), [0.5]), ((2.0, 2.0), []), ((0.5, None), [])])
def test_a_margin_that_is_changed_after_results_is_told(tmp_path, margins, told) -> None:
    """A decision that rests on it was not specified beforehand."""
    records = made_up_records(methods=FEW, failures=False)
    for time, margin in zip((1, 8), margins, strict=True):
        write_folder(tmp_path, records, f"quick{time}", time=time)
        (file,) = (tmp_path / "plans").glob(f"*quick{time}*")
        primary = {} if margin is None else {"primary": {"margin": margin, "first": 3, "pairs": []}}
        file.write_text(sealed({**json.loads(file.read_text()), **primary, "preset": "quick"}))
    (part,) = (folder := open_folder(tmp_path)).parts
    plan = folder.plans[part.name]
    assert plan["margins"] == told
    caveats = " ".join(origins_of(part, plan, folder.records(part), None).told)
    assert ("comparisons is 2 points; earlier plans had 0.5, and runs had ended" in caveats) == bool(told)


@pytest.mark.parametrize(
    ("again", "changed", "told"),
    [
        ([], {}, {}),
        (["dynamic"], {}, {}),  # the same runs, planned again
        (["dynamic"], {"options": {"steps": 2}}, {"dynamic": 6}),
        (["uniform"], {"training": {**RECIPE, "epochs": 9}}, {"uniform": 2}),  # which has no iterations
        (["dynamic", "uniform"], {"source": "0123456789abcdef"}, {"dynamic": 6, "uniform": 2}),
        (["em"], {"versions": {"method": 2}}, {"em": 5}),  # of six runs one had no result
        (["dynamic"], {"model": "capsnet"}, {}),  # beside the others
        (["dynamic"], {"versions": {"method": 2}, "seed": 7}, {"dynamic": 6}),
    ],
)
def test_results_that_count_no_longer_are_told(tmp_path, again, changed, told) -> None:
    few = {name: METHODS[name] for name in ("dynamic", "em", "uniform")}
    path = write_folder(tmp_path / "results", made_up_records(methods=few, seeds=2), "quick", time=1)
    records = made_up_records(methods={name: few[name] for name in again}, seeds=1, failures=False)
    for number, record in enumerate(records if changed else ()):
        record["identity"] |= changed
        record["cell"] = f"{number:016x}"
    if records:
        write_folder(path, records, "quick", time=8)
    folder = open_folder(path)
    found = {part.model: folder.plans[part.name]["superseded"] for part in folder.parts}
    assert found == {"capsnet-small": told, **({"capsnet": {}} if "model" in changed else {})}
    caveats = [line for part in folder.parts for line in origins_of(part, folder.plans[part.name], [], None).told]
    count = f"Not counted, as newer plans have taken their place: {sum(told.values())} results of other code"
    expected = [f"{count}, options or training, of {' and '.join(told)}."] if told else []
    assert [line for line in caveats if line.startswith("Not counted")] == expected


def pair(ours, theirs):
    """A comparison as plans have it."""
    sides = [{"label": label, "model": "capsnet-small", "iterations": steps} for label, steps in (ours, theirs)]
    return dict(zip(("ours", "theirs"), sides, strict=True))


UNIFORM = ("uniform", None)
ONE, OTHER = pair(("dynamic", 2), UNIFORM), pair(("dynamic", 3), UNIFORM)
IN_WORDS = ("Dynamic, T = 2 against Uniform routing", "Dynamic, T = 3 against Uniform routing")


@pytest.mark.parametrize(
    ("first", "then", "late", "dropped"),
    [
        ([ONE], [ONE], 0, 0),
        ([ONE, OTHER], [OTHER, ONE], 0, 0),
        ([], [ONE], IN_WORDS[:1], 0),
        (None, [ONE], IN_WORDS[:1], 0),
        ([ONE], [ONE, OTHER], IN_WORDS[1:], 0),
        ([ONE, OTHER], [ONE], 0, IN_WORDS[1:]),
        ([ONE], [OTHER], IN_WORDS[1:], IN_WORDS[:1]),
        ([ONE], None, 0, IN_WORDS[:1]),
        ([pair(("dynamic", 1), UNIFORM)], [pair(("em", 1), UNIFORM), pair(("dynamic", 1), UNIFORM)], 0, 0),  # em is new
    ],
)
@pytest.mark.parametrize("results", ["before", "after"])
def test_comparisons_that_are_named_or_left_out_after_results_are_told(
    tmp_path, first, then, late, dropped, results
) -> None:
    """A comparison that results chose was not specified beforehand."""
    few = {name: METHODS[name] for name in ("dynamic", "em", "uniform")}
    records = made_up_records(methods=few, failures=False)
    for record in records if results == "after" else ():
        record["provenance"]["finished"] = "2025-11-21T10:09:00+00:00"
    for time, named in ((1, first), (8, then)):
        planned = [one for one in records if one["label"] != "em" or time == 8]
        write_folder(tmp_path, planned, f"quick{time}", time=time)
        (file,) = (tmp_path / "plans").glob(f"*quick{time}*")
        primary = {} if named is None else {"primary": {"margin": 0.5, "first": 3, "pairs": named}}
        file.write_text(sealed({**json.loads(file.read_text()), **primary, "preset": "quick"}))
    (part,) = (folder := open_folder(tmp_path)).parts
    plan = folder.plans[part.name]
    if results == "after":
        late = dropped = 0
    assert (plan["late"], plan["dropped"]) == ([*(late or ())], [*(dropped or ())])
    caveats = " ".join(origins_of(part, plan, folder.records(part), None).told)
    assert ("No plan had pre-specified Dynamic" in caveats) == bool(late)
    assert ("An earlier plan pre-specified Dynamic" in caveats) == bool(dropped)
