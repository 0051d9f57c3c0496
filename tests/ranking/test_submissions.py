"""Submissions: what is refused when they are made, and what a verifier sees of one that was tampered with."""

import json
import os
import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from routebench import ranking, recipe
from routebench.engine.origin import code_of
from routebench.engine.results import Identity, Store, checksum, pack, unpack
from routebench.errors import UserError
from routebench.options import RankOptions
from routebench.ranking import Wanted, board_of, missed
from routebench.ranking import _submission as submission
from routebench.ranking._submission import about_of
from routebench.ranking._verification import leaning
from routebench.registry import extensions, routing
from tests.ranking import made

SUBMITTED = Path(__file__).parents[2] / "submissions"
TOLD = {"who": "A. Tester", "licence": "MIT"}
SENT = ("-o", "sent")


def rewritten(store, key, **changed):
    """A record with other values, sealed again as whoever tampers with it would."""
    record = store.record(key)
    arrays = {name: torch.from_numpy(value) for name, value in store.arrays(key).items()}
    store.write_record(replace(record, files=None, **changed), arrays)


def clean(results):
    """Lets records say that the code was committed, as it is where others make submissions."""
    store = Store(results)
    for record in [*store.records()]:
        rewritten(store, record.cell, provenance={**record.provenance, "dirty": False})


@pytest.fixture(scope="session")
def ranked(board, joined, tmp_path_factory):
    """A method's file beside the results of its ranking, in `own`, and its submission, in `sent`."""
    folder, (name, published) = tmp_path_factory.mktemp("submitted"), board
    shutil.copytree(joined, folder, dirs_exist_ok=True)
    file, own = folder / "sharper.py", folder / "own"
    clean(own)
    wanted = Wanted(board_of(name), "sharper", RankOptions(plugins=(str(file),), results=own))
    ranking.submit(wanted, ranking.published(board_of(name), published), folder / "sent", TOLD)
    return folder


@pytest.fixture
def folder(ranked, tmp_path):
    """The same, to change."""
    shutil.copytree(ranked, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def submit(routebench_in, board):
    def run(*arguments):
        name, published = board
        fixed = ("--board", name, "--beside", published, "--results", "own", *(() if "-o" in arguments else SENT))
        who = () if "--who" in arguments else ("--who", "A. Tester")
        return routebench_in("submit", "sharper.py", *who, "--licence", "MIT", *fixed, *arguments)

    return run


@pytest.fixture
def verify(routebench_in, board):
    def run(*arguments):
        return routebench_in("verify", "sent", "--beside", board[1], *arguments)

    return run


def reseal(folder, change):
    """Changes what a submission says of itself, with a checksum that fits."""
    file = folder / "sent" / "submission.json"
    content = json.loads(file.read_text())
    content.pop(checksum.KEY)
    change(content)
    file.write_text(checksum.sealed(content) + "\n")


def with_settings(folder, change):
    """Changes each choice among the settings of a submission, with a checksum that fits."""
    settings = folder / "sent" / "settings.json"
    other = json.loads(settings.read_text())
    other.pop(checksum.KEY)
    settings.write_text(json.dumps({**other, "choices": [*map(change, other["choices"])]}))
    reseal(folder, lambda content: content["files"].update({"settings.json": submission._sum(settings)}))


def repacked(folder, change):
    """Changes the results of a submission, with checksums that fit."""
    import hashlib

    sent, loose = folder / "sent", folder / "loose"
    unpack(sent, loose)
    change(Store(loose))
    for name in ("records.parquet", "arrays.parquet"):
        (sent / name).unlink()
    shutil.move(sent, folder / "rest")
    pack(loose, sent)
    for file in (folder / "rest").iterdir():
        shutil.move(file, sent / file.name)

    def sums(content):
        for name in content["files"]:
            content["files"][name] = hashlib.sha256((sent / name).read_bytes()).hexdigest()

    reseal(folder, sums)


def runs_of(store, role="method"):
    return [record for record in store.records() if not record.identity.is_trial and record.identity.role == role]


def test_a_submission_is_verified_from_its_files_alone(folder, submit, verify):
    shutil.rmtree(folder / "sent")
    made_one = submit("--json")
    assert made_one.code == 0 and json.loads(made_one.out)["submission"] == "sent", made_one
    assert sorted(path.name for path in (folder / "sent").iterdir()) == [
        "arrays.parquet",
        "plugin",
        "records.parquet",
        "settings.json",
        "submission.json",
    ]
    shutil.rmtree(folder / "own")
    (folder / "sharper.py").unlink()
    found = verify("--draw", "5", "--runs", "2")
    assert found.code == 0, found
    assert "nothing speaks against it" in found.out and "★ Sharper: place" in found.out
    assert "tiny.toml:quick: suite tiny, preset quick; published results: /" in found.out
    assert found.out.count("numbers agree to the last digit") == 2
    assert "2 of 8 trials and runs; if 1 of all were false, a draw would miss them with a chance of 75 %" in found.out


NEEDED = {
    "lab/routing/sharper.py": (
        "import routebench\nfrom inner.deep import X\nfrom _helper import Y\n"
        "TABLE = routebench.own_file(__file__, '../tables/one.csv')\n"
    ),
    "lab/routing/inner/deep.py": "X = 1\n",
    "lab/routing/_helper.py": "from common import Y\n",
    "lab/common.py": "Y = 1\n",
    "lab/tables/one.csv": "1\n",
    "lab/recipes.toml": "",
    "lab/suites/own.toml": made.SUITE,
}


@pytest.mark.parametrize("spec", ["lab", "lab/alone.py", "lab/alone.py:Sharper"])
def test_every_file_that_a_method_needs_is_submitted(tmp_path, spec):
    """From the copy alone it has the same hash, and so the same keys."""
    alone = NEEDED["lab/routing/sharper.py"].replace("../", "").replace("inner.deep", "routing.inner.deep")
    alone = alone.replace("_helper", "routing._helper")
    files = NEEDED if spec == "lab" else {**NEEDED, "lab/alone.py": alone}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    method = made.method(tmp_path).read_text()
    place = tmp_path / ("lab/routing/sharper.py" if spec == "lab" else "lab/alone.py")
    place.write_text(place.read_text() + method)
    (tmp_path / "lab" / "notes.txt").write_text("not needed")
    copied = submission._files_of(str(tmp_path / spec))
    submission._copy(copied, tmp_path / "sent" / "plugin")
    unneeded = (
        {"notes.txt"} if spec == "lab" else {"notes.txt", "recipes.toml", "suites/own.toml", "routing/sharper.py"}
    )
    every = {str(file.relative_to(tmp_path / "lab")) for file in (tmp_path / "lab").rglob("*") if file.is_file()}
    assert copied.keys() == {name for name in every if "__pycache__" not in name} - unneeded
    hashes = []
    for one in (str(tmp_path / spec), str(tmp_path / "sent" / submission._own_spec(str(tmp_path / spec)))):
        with extensions.restored():
            extensions.load_plugin(one)
            hashes.append(code_of(routing["sharper"], shipped=False).yours)
        shutil.rmtree(tmp_path / "lab", ignore_errors=True)
    assert hashes[0] == hashes[1]


def test_a_file_elsewhere_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "table.csv").write_text("1\n")
    file = made.method(tmp_path / "place")
    file.write_text("import routebench\nroutebench.own_file(__file__, '../table.csv')\n" + file.read_text())
    with pytest.raises(UserError, match=r"expected every file .*table.csv, .*; move it there, and rank again"):
        submission._files_of(str(file))


def test_what_a_maintainer_would_refuse_is_refused_at_once(folder, submit):
    shutil.rmtree(folder / "sent")
    store = Store(folder / "own")
    dirty = runs_of(store)[0]
    rewritten(store, dirty.cell, provenance={**dirty.provenance, "dirty": True})
    assert "not committed" in submit().error
    rewritten(store, dirty.cell)
    (store.path / "records" / f"{dirty.cell}.json").unlink()
    assert "1 of 8 planned runs have no record" in submit().error
    (trial,) = [record.cell for record in store.records() if record.identity.is_trial][:1]
    (store.path / "records" / f"{trial}.json").unlink()
    assert "1 of 2 trials have no result; `rank` makes them" in submit().error
    assert not (folder / "sent").exists()
    assert not [*folder.glob(".submission*")]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no such folder")
def test_a_place_that_takes_nothing_is_told_with_what_to_do(folder, submit):
    found = submit("-o", "/proc/sent")
    assert found.code == 2 and found.error.count("\n") == 1, found
    assert re.search("cannot be written to '/proc/sent': .*; choose another with -o\n$", found.error), found.error


@pytest.mark.parametrize("at", ["os.fsync", "shutil.copyfile"])
def test_a_full_disk_is_told_with_what_to_do_and_leaves_nothing(folder, submit, monkeypatch, at):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    shutil.rmtree(folder / "sent")
    before = {*folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(at, full)
        found = submit()
    assert found.code == 3 and found.error.count("\n") == 1, found
    assert re.search("takes no more .*: make room, then run the same command again\n$", found.error), found.error
    assert {*folder.iterdir()} == before
    assert submit().code == 0


def test_what_has_to_be_told_is_asked_for(routebench_in, folder, board):
    fixed = ("--board", board[0], "--beside", board[1], "--results", "own", "-o", "other")
    found = routebench_in("submit", "sharper.py", "--who", "A", *fixed)
    assert found.code == 2 and "--licence" in found.error
    found = routebench_in("submit", "em", "--who", "A", "--licence", "MIT", *fixed)
    assert found.code == 2 and "a method of one file or folder" in found.error


def test_changed_code_is_another_method(folder, submit):
    shutil.rmtree(folder / "sent")
    made.method(folder, sharpness=3.0)
    found = submit()
    assert found.code == 2 and "trials have no result" in found.error


def higher(store):
    """Better numbers than were measured."""
    for record in runs_of(store):
        metrics = [{**one, "value": min(100.0, one["value"] + 3)} if one["metric"] == "accuracy" else one
                   for one in record.metrics]  # fmt: skip
        rewritten(store, record.cell, metrics=metrics)


def with_answers(store):
    """Better numbers, and answers that fit them."""
    for record in runs_of(store):
        correct = store.arrays(record.cell)["correct"].copy()
        correct[: len(correct) * 9 // 10] = 1
        metrics = [{**one, "value": 100 * float(correct.mean())} if one["metric"] == "accuracy" else one
                   for one in record.metrics]  # fmt: skip
        store.write_record(replace(record, files=None, metrics=metrics), {"correct": torch.from_numpy(correct)})


def fewer(store):
    """The worst seed left out."""
    record = runs_of(store)[0]
    (store.path / "records" / f"{record.cell}.json").unlink()


def failed(store):
    """A trial that failed is left out."""
    record = next(record for record in store.records() if record.identity.is_trial)
    (store.path / "records" / f"{record.cell}.json").unlink()


def other_score(store):
    """A trial with a better score, so that other settings are chosen."""
    trials = [record for record in store.records() if record.identity.is_trial]
    worst = min(trials, key=lambda record: next(one["value"] for one in record.metrics if one["metric"] == "score"))
    metrics = [{**one, "value": 99.9} if one["metric"] == "score" else one for one in worst.metrics]
    rewritten(store, worst.cell, metrics=metrics)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (higher, "its answers give another accuracy than it says"),
        (fewer, "1 of 8 planned runs have no record"),
        (failed, "1 of 2 trials have no result"),
        (other_score, "planned runs have no record"),
    ],
)
def test_a_submission_that_was_tampered_with_is_refused_without_training(folder, verify, change, told):
    repacked(folder, change)
    found = verify("--runs", "0")
    assert found.code == 1 and told in found.out, found
    assert "the submission does not hold" in found.out


def test_false_numbers_with_answers_that_fit_are_found_by_training_again(folder, verify):
    repacked(folder, with_answers)
    assert verify("--runs", "0").code == 0, "nothing in the files speaks against it"
    found = verify("--runs", "6", "--draw", "1", "--json")  # of 8, of which 3 are false
    assert found.code == 1 and not json.loads(found.out)["holds"] and len(json.loads(found.out)["agreements"]) == 6
    assert "differs: accuracy test" in found.out


def lost(store):
    """Uniform routing's best seed said to have failed."""
    best = max(runs_of(store, "control"), key=lambda record: record.accuracies[0])
    store.write_record(replace(best, status="failed", reason="OSError: no", metrics=[], files=None, arrays=None), {})


def test_a_run_that_is_said_to_have_failed_is_drawn_and_has_to_fail_again(folder, verify):
    repacked(folder, lost)
    assert verify("--runs", "0").code == 0, "nothing in the files speaks against it"
    found = verify("--runs", "8")
    assert found.code == 1 and "then failed: OSError: no" in found.out and "now ok" in found.out


@pytest.mark.parametrize(
    ("role", "apart", "leans"),
    [
        ("method", (0.9, 0.8, 0.9), True),
        ("method", (0.5, 0.5, 0.5), True),
        ("method", (0.9, 0.9), False),  # too few to tell
        ("method", (0.1, 0.1, 0.1, 0.1), False),  # within what rounding does
        ("method", (0.9, -0.1, 0.6, -0.3), False),  # to both sides
        ("method", (-0.9, -0.8, -0.9), False),  # against the method
        ("control", (-0.9, -0.8, -0.9), True),  # a lower baseline flatters the method
        ("control", (0.9, 0.8, 0.9), False),
    ],
)
def test_runs_that_lean_to_one_side_together_are_told(ranked, role, apart, leans):
    run = runs_of(Store(ranked / "own"), role)[0]
    assert (run.label == "uniform") is (role == "control")

    def with_accuracy(value):
        metrics = [{**one, "value": value} if one["metric"] == "accuracy" else one for one in run.metrics]
        return replace(run, metrics=metrics)

    pairs = [(with_accuracy(50.0 + each), with_accuracy(50.0)) for each in apart]
    assert ["rounding has no side" in line for line in leaning(pairs)] == [True] * leans


def test_what_was_made_with_other_code_or_another_version_is_told_apart_from_missing_runs(folder, board, monkeypatch):
    monkeypatch.setattr("routebench.engine.suites._planning._is_own", lambda asked: not asked.plugins)  # as at first
    file = folder / "sent" / "plugin" / "sharper.py"
    before = file.read_text()
    for text, told in (
        (before + "X = 1\n", "planned here: source: '"),
        (before, "planned here: versions: None in its"),
    ):
        file.write_text(text)
        reseal(folder, lambda content: content["files"].update({"plugin/sharper.py": submission._sum(file)}))
        if text == before:
            assert ranking.verify(folder / "sent", 0, 1, print, board[1]).holds
            monkeypatch.setitem(recipe.VERSIONS, "selection", {"last": 2})
        found = ranking.verify(folder / "sent", 0, 1, print, board[1])
        assert [told in fault for fault in found.faults].count(True) == 1


def test_a_file_in_a_folder_of_compiled_code_is_found(folder, verify):
    """It can be imported like any other."""
    hidden = folder / "sent" / "plugin" / "__pycache__" / "more.py"
    hidden.parent.mkdir(exist_ok=True)
    hidden.with_suffix(".pyc").write_bytes(b"")
    assert about_of(folder / "sent")
    hidden.write_text("")
    found = verify("--runs", "0")
    assert found.code == 2 and "'plugin/__pycache__/more.py' is not among the files that it lists" in found.error


def test_changed_code_in_a_submission_is_found(folder, verify):
    made.method(folder / "sent" / "plugin", sharpness=3.0)
    found = verify("--runs", "0")
    assert found.code == 2 and "plugin/sharper.py is missing, or has changed" in found.error


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: content.update(format=9), "format 1, got 9"),
        (lambda content: content.update(format=True), "format 1, got True"),
        (lambda content: content.update(format=1.0), "format 1, got 1.0"),
        *(
            (lambda content, plugin=plugin: content.update(plugin=plugin), "expected the code in plugin/ that it lists")
            for plugin in (
                "../sharper.py",
                "1",
                "/",
                "settings.json",
                "plugin/absent.py",
                "plugin/../plugin/sharper.py",
            )
        ),
        (lambda content: content["files"].update({"/etc/passwd": "0"}), "outside the submission"),
        (lambda content: content["files"].pop("settings.json"), "list of files"),
        (lambda content: content["files"].pop("plugin/sharper.py"), "expected the code in plugin/ that it lists, got"),
        (lambda content: content.update(board="quik"), "did you mean 'quick'"),
        (lambda content: content.update(board="sent/plugin/easy.toml:quick"), "expected a board of others, got 'sent/"),
    ],
)
def test_a_submission_of_another_form_is_told_in_one_line(folder, verify, change, told):
    reseal(folder, change)
    found = verify("--runs", "0")
    assert found.code == 2 and told in found.error and len(found.error.strip().splitlines()) == 1


WRONG = {
    "null": (None, "expected a text, got None"),
    "list": (["a"], "expected a text, got ['a']"),
    "table": ({}, "expected a text, got {}"),
    "number": (7, "expected a text, got 7"),
    "long": ("a" * 3000, "characters, got 3,000"),
    "escape": ("a\x1b[31m", "without control characters"),
    "line": ("a\0b", "without control characters"),
    "half": ("\ud800", "without control characters"),
}
TEXTS = ("board", "method", "label", "plugin", "who", "licence", "date", "code", "cite")


def bad_facts():
    """(field, its value or nothing, what is told of it)."""
    yield from ((name, *WRONG["long"]) for name in TEXTS)
    yield from ((name, *WRONG[kind]) for name in ("who", "cite") for kind in WRONG)
    yield from ((name, ..., "expected a text, got None") for name in TEXTS[:6])
    yield from ((name, " ", "expected a text, got ' '") for name in TEXTS[:6])
    yield from ((name, text, "expected a name, got") for name in ("who", "licence") for text in ("-", "\u2026 !"))
    yield from (("date", day, "expected a day") for day in ("soon", "7", "2026-13-01", "2026-02-30", "27.11.2026"))
    yield from (("code", url, "address of code") for url in ("https://[oops", "https://a.org:99999", "http://a:b/"))


@pytest.mark.parametrize(("name", "value", "told"), [*bad_facts()])
def test_a_text_about_a_submission_that_no_page_can_show_is_refused(folder, name, value, told):
    reseal(folder, lambda content: content.pop(name) if value is ... else content.update({name: value}))
    with pytest.raises(UserError, match=f"sent': submission.json: {name}: ") as raised:
        about_of(folder / "sent")
    assert told in str(raised.value) and len(str(raised.value)) < 400


def test_a_bad_submission_is_left_out_of_the_board_and_told_by_verify(folder, board, verify, routebench_in):
    (folder / "submissions").mkdir()
    shutil.copytree(folder / "sent", folder / "submissions" / "good")
    for number, (name, value) in enumerate([("code", "https://[oops"), ("label", None), ("board", None)]):
        reseal(folder, lambda content, name=name, value=value: content.update({name: value}))
        shutil.copytree(folder / "sent", folder / "submissions" / f"bad {number}")
    told = verify("--runs", "0")
    assert told.code == 2 and "submission.json: board: expected a text" in told.error
    found = board_page(routebench_in, board, "submissions")
    assert found.code == 3 and found.out == "board: board.html, with 1 submissions\n"
    assert len(re.findall("left out: .*submission.json: (?:code|label|board): ", found.error)) == 3


@pytest.mark.parametrize(("option", "value"), [("--code", "https://[oops"), ("--who", "a\nb"), ("--cite", "c" * 3000)])
def test_what_a_board_would_refuse_is_not_submitted(folder, submit, option, value):
    shutil.rmtree(folder / "sent")
    found = submit(option, value)
    assert found.code == 2 and f"submission: {option}: expected" in found.error
    assert not (folder / "sent").exists()


def test_settings_for_no_iterations_of_the_board_are_told_in_a_line(folder, board, verify, routebench_in):
    with_settings(folder, lambda choice: {**choice, "iterations": 7})
    (folder / "submissions").mkdir()
    shutil.move(folder / "sent", folder / "submissions" / "sent")
    found = board_page(routebench_in, board, "submissions")
    assert found.code == 3 and "expected settings for T = 1 or without T" in found.error


def beside(change):
    """Plans beside those of a claim, of runs that are changed."""

    def planned(store):
        for file in sorted((store.path / "plans").glob("*.json")):
            content = json.loads(file.read_text())
            content.pop(checksum.KEY, None)
            store.write_plan(f"{file.stem}.beside", {**content, "cells": [*map(change, content["cells"])]})

    return planned


def measured_beside(roles=("method",), **identity):
    """Plans and records beside those of a claim: the same answers under another identity."""

    def measured(store):
        for file in sorted((store.path / "plans").glob("*.json")):
            content = json.loads(file.read_text())
            content.pop(checksum.KEY, None)
            content["settings"] |= {"models": [identity["model"]]} if "model" in identity else {}
            cells = [cell for cell in content["cells"] if cell["identity"]["role"] not in roles]
            for cell in content["cells"]:
                if cell in cells:
                    continue
                known = replace(Identity.read(cell["identity"]), **identity)
                arrays = {name: torch.from_numpy(value) for name, value in store.arrays(cell["cell"]).items()}
                record = store.record(cell["cell"])
                store.write_record(replace(record, cell=known.key, identity=known, files=None, arrays=None), arrays)
                cells.append({**cell, "cell": known.key, "identity": known.as_dict()})
            name = f"{file.stem[:-1]}-"
            store.write_plan(name, {**content, "plan": name, "cells": cells})

    return measured


BESIDE = {
    "no record": (beside(lambda cell: {**cell, "cell": cell["cell"][::-1]}), "planned runs have no record"),
    "more seeds": (measured_beside(seed=9), "runs that are not of this method"),
    "another T": (measured_beside(iterations=7), "runs that are not of this method"),
    "another network": (measured_beside(model="capsnet-large"), "runs that are not of this method"),
    "other training": (measured_beside(source="0" * 16), "it has 2 plans of suite tiny"),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_runs_that_nobody_would_draw_are_found(folder, verify, board, routebench_in, kind):
    """Also by the board, which runs no code."""
    change, told = BESIDE[kind]
    repacked(folder, change)
    found = verify("--runs", "0")
    assert found.code == 1 and "runs that are not of this method on this board" in found.out + found.error
    (folder / "submissions").mkdir()
    shutil.move(folder / "sent", folder / "submissions" / "sent")
    found = board_page(routebench_in, board, "submissions")
    assert found.code == 3 and "left out: 'submissions/sent': " in found.error and told in found.error
    assert "with 0 submissions" in found.out


def planned_otherwise(change):
    """Plans that say something else of the runs than they did; trials stay."""

    def changed(store):
        for file in (store.path / "plans").glob("*.json"):
            content = json.loads(file.read_text())
            content.pop(checksum.KEY)
            if not content["preset"].endswith("-trials"):
                change(content, [cell for cell in content["cells"] if cell["identity"]["role"] == "method"])
            file.write_text(checksum.sealed(content))

    return changed


def worst_of_none(content, own):
    """The worst seed is planned by nobody."""
    content["cells"].remove(own[0])


def worst_of_another(content, own):
    own[0]["label"] = "blunter"


def worst_of_uniform(content, own):
    own[0]["label"], own[0]["identity"]["role"] = "uniform", "control"


def other_pairs(content, own):
    """Seeds in another order, so that others are paired with uniform routing's."""
    seeds = [cell["identity"]["seed"] for cell in own]
    for cell, seed in zip(own, [*seeds[1:], seeds[0]], strict=True):
        cell["identity"]["seed"] = seed


def with_trials(change):
    """Plans of trials that are changed; runs stay."""

    def changed(store):
        for file in (store.path / "plans").glob("*.json"):
            content = json.loads(file.read_text())
            content.pop(checksum.KEY)
            if content["preset"].endswith("-trials"):
                content["cells"] = change(store, content["cells"])
                file.write_text(checksum.sealed(content))

    return changed


@with_trials
def more_trials(store, cells):
    """Twice as many trials: the better half could be chosen."""
    found = []
    for cell in cells:
        known = Identity.read(cell["identity"])
        other = replace(known, options={**known.options, "trial": known.options["trial"] + len(cells)})
        store.write_record(replace(store.record(cell["cell"]), cell=other.key, identity=other, files=None), {})
        found.append({**cell, "cell": other.key, "identity": other.as_dict()})
    return [*cells, *found]


@with_trials
def fewer_trials(store, cells):
    return cells[:-1]


def as_trials(store):
    """Better numbers without answers that fit, in records that say to be of trials."""
    higher(store)
    for record in runs_of(store):
        rewritten(store, record.cell, identity=replace(record.identity, tuning={"point": {}}))


def to_few_images(store):
    """Answers to those images alone that come first, of all runs."""
    for record in runs_of(store) + runs_of(store, "control"):
        correct = store.arrays(record.cell)["correct"][:20].copy()
        metrics = [{**one, "value": 100 * float(correct.mean())} if one["metric"] == "accuracy" else one
                   for one in record.metrics]  # fmt: skip
        store.write_record(replace(record, files=None, metrics=metrics), {"correct": torch.from_numpy(correct)})


@pytest.mark.parametrize(
    ("change", "verified", "on_board"),
    [
        (planned_otherwise(worst_of_none), "plans lack 1 of the runs", "lacks seed 0; a board has 3 of each"),
        (planned_otherwise(worst_of_another), "plans lack 1 of the runs", "1 runs that are not of this method"),
        (planned_otherwise(worst_of_uniform), "plans lack 1 of the runs", "1 runs that are not of this method"),
        (planned_otherwise(other_pairs), "plans lack 3 of the runs", "plans 3 runs that are others"),
        (more_trials, "runs that are not of this method", "has 4 trials, each configuration on the board 2"),
        (fewer_trials, "plans lack 1 of the runs", "has 1 trial, each configuration on the board 2"),
        (as_trials, "3 records say another run", "3 records say another run"),
        (to_few_images, "expected answers to 120 test images, got 20", "expected answers to 120 test images, got 20"),
        (higher, "its answers give another accuracy", "its answers give another accuracy"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_plans_and_records_that_say_otherwise_are_refused_by_board_and_verify(
    folder, verify, board, change, verified, on_board
):
    repacked(folder, change)
    found = verify("--runs", "0")
    assert found.code == 1 and verified in found.out, found
    with pytest.raises(UserError, match=re.escape(on_board)):
        ranking.entry_of(folder / "sent", board[1])


@pytest.mark.parametrize(
    ("name", "on_board"), [("em", "expected a method of its own, got em"), ("sharper-than-all", "not of this method")]
)
def test_a_submission_under_another_name_than_that_of_its_code_is_refused(folder, verify, board, name, on_board):
    def renamed(store):
        for file in (store.path / "plans").glob("*.json"):
            content = json.loads(file.read_text())
            content.pop(checksum.KEY)
            for cell in content["cells"]:
                cell["label"] = cell["label"].replace("sharper", name)
            file.write_text(checksum.sealed(content))

    repacked(folder, renamed)
    with_settings(folder, lambda choice: {**choice, "method": choice["method"].replace("sharper", name)})
    reseal(folder, lambda content: content.update(label=name))
    found = verify("--runs", "0")
    assert found.code == 1 and f"it names its method {name}, and its code sharper" in found.out
    with pytest.raises(UserError, match=on_board):
        ranking.entry_of(folder / "sent", board[1])


def test_a_name_of_the_method_that_its_runs_do_not_have_is_left_out_of_the_board(folder, board):
    """Its page would show it."""
    reseal(folder, lambda content: content.update(method="sharper[sharpness=1.0]"))
    ranking.entry_of(folder / "sent", board[1])
    for name in ("em", "sharper-than-all", "em[sharpness=1.0]"):
        reseal(folder, lambda content, name=name: content.update(method=name))
        with pytest.raises(UserError, match=re.escape(f"it names its method {name!r}, and its runs are of 'sharper'")):
            ranking.entry_of(folder / "sent", board[1])


@pytest.mark.filterwarnings("error")
def test_a_trial_without_a_record_is_told_in_one_line(folder, board):
    repacked(folder, failed)
    with pytest.raises(UserError, match="1 of 8 planned runs have no record") as raised:
        ranking.entry_of(folder / "sent", board[1])
    assert "\n" not in str(raised.value)


def test_settings_other_than_those_of_the_runs_are_left_out_of_the_board(folder, board):
    with_settings(folder, lambda choice: {**choice, "score": 99.0})
    with pytest.raises(UserError, match="6 runs have other settings than it says were chosen"):
        ranking.entry_of(folder / "sent", board[1])


def as_if_of(folder, change, *, trials=False):
    """Changes the identities of the method's runs, or of its trials, in plans and records alike, and their keys."""

    def changed(store):
        for file in (store.path / "plans").glob("*.json"):
            content = json.loads(file.read_text())
            content.pop(checksum.KEY)
            for cell in content["cells"]:
                known = Identity.read(cell["identity"])
                if known.role == "method" and known.is_trial == trials:
                    other = change(known)
                    record = store.record(cell["cell"])
                    arrays = {name: torch.from_numpy(one) for name, one in store.arrays(record.cell).items()}
                    (store.path / "records" / f"{record.cell}.json").unlink()
                    store.write_record(replace(record, cell=other.key, identity=other, files=None), arrays)
                    cell.update(cell=other.key, identity=other.as_dict())
            file.write_text(checksum.sealed(content))

    repacked(folder, changed)


def chosen_by_hand(folder, **told):
    """The settings of the other trial, or another score, in all files of a submission."""
    store = Store(folder / "own")
    points = {one.identity.options["trial"]: one.identity.tuning["point"] for one in store.records()
              if one.identity.is_trial}  # fmt: skip

    def choice(one):
        if one["method"] != "sharper":
            return one
        trial = told.get("trial", one["trial"])
        trial = 1 - one["trial"] if trial == "other" else trial
        return {**one, "trial": trial, "point": points[trial], **{key: told[key] for key in told if key != "trial"}}

    def run(known):
        chosen = choice(next(one for one in settings["choices"] if one["method"] == "sharper"))
        tuning = {**known.tuning, "point": chosen["point"], "score": chosen["score"]}
        return replace(known, tuning=tuning, training={**known.training, **chosen["point"]})

    settings = json.loads((folder / "sent" / "settings.json").read_text())
    as_if_of(folder, run)
    with_settings(folder, choice)


def with_training(folder, **changed):
    """Other training settings of the method's runs than the board's."""
    as_if_of(folder, lambda known: replace(known, training={**known.training, **changed}))


def without_numbers(folder):
    as_if_of(folder, lambda known: replace(known, options={**known.options, "trial": "best"}), trials=True)


def with_trials_of_others(folder):
    """Trials that were made with other settings than they say to try."""
    as_if_of(folder, lambda known: replace(known, training={**known.training, "learning_rate": 0.5}), trials=True)


def otherwise(folder, *, trials, **changed):
    """Trials, or runs, of the method with other facts than what is beside them."""
    tables = {name: value for name, value in changed.items() if isinstance(value, dict)}

    def other(known):
        return replace(known, **changed | {name: {**getattr(known, name), **one} for name, one in tables.items()})

    as_if_of(folder, other, trials=trials)


OTHERWISE = {
    "epochs": (True, {"training": {"epochs": 30}}, "trial .* was made with another epochs than run"),
    "batch": (True, {"training": {"batch_size": 1}}, "trial .* was made with another batch_size than run"),
    "version": (True, {"suite_version": 9}, "trial .* was made with another suite_version than run"),
    "code": (True, {"source": "0" * 16}, "trial .* was made with another source than run"),
    "sharpness": (True, {"method_params": {"sharpness": 9.0}}, "trial .* was made with another sharpness than run"),
    "tuned by the test": (False, {"method_params": {"sharpness": 9.0}}, "with another sharpness than run"),
    "network": (False, {"model_params": {"weight_std": 9.0}}, "run .* was made with another weight_std than uniform"),
    "images": (False, {"data_fingerprint": "0" * 16}, "run .* with another data_fingerprint than uniform routing"),
    "all images": (False, {"training": {"train_on": "all"}}, "run .* with another train_on than uniform routing"),
    "suite": (False, {"suite_version": 9}, "run .* was made with another suite_version than uniform routing"),
    "seeds": (True, {"seed": 7}, "its 2 trials are not those of a suite"),
}


@pytest.mark.parametrize(("trials", "changed", "told"), OTHERWISE.values(), ids=OTHERWISE)
def test_what_was_made_otherwise_than_what_is_beside_it_is_left_out_of_the_board(folder, board, trials, changed, told):
    """A method may be good by what others did not have, or by what its trials did not try."""
    otherwise(folder, trials=trials, **changed)
    with pytest.raises(UserError, match=told):
        ranking.entry_of(folder / "sent", board[1])


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (lambda folder: chosen_by_hand(folder, trial="other"), "expected the settings of trial [01], which the rule"),
        (lambda folder: chosen_by_hand(folder, trial="other", score=99.0), "expected the settings of trial [01], wh"),
        (lambda folder: chosen_by_hand(folder, score=99.0), "it says a score or failures that are not those of its"),
        (lambda folder: chosen_by_hand(folder, diverged=1), "it says a score or failures that are not those of its"),
        (lambda folder: with_training(folder, epochs=30), "was made with another epochs than uniform routing"),
        (lambda folder: with_training(folder, learning_rate=0.5), "3 runs were trained with other settings than those"),
        (without_numbers, "its 2 trials are not those of a suite, so that they choose nothing"),
        (with_trials_of_others, "2 runs were trained with other settings than those that they name"),
    ],
    ids=["trial", "trial and score", "score", "failures", "epochs", "settings", "numbers", "trials"],
)
def test_settings_that_its_trials_do_not_choose_are_left_out_of_the_board(folder, board, tamper, told):
    """They may be chosen by what the test said; the board runs no code, and sees it from the trials that it is sent."""
    ranking.entry_of(folder / "sent", board[1])
    tamper(folder)
    with pytest.raises(UserError, match=told):
        ranking.entry_of(folder / "sent", board[1])


def test_what_plans_say_of_stages_changes_no_interval_on_the_board(folder, board):
    _, before, _ = ranking.entry_of(folder / "sent", board[1])
    repacked(folder, planned_otherwise(lambda content, _: content["primary"].update(first=2)))
    _, after, _ = ranking.entry_of(folder / "sent", board[1])
    assert [row.gain for row in after.rows if row.is_mine] == [row.gain for row in before.rows if row.is_mine]


def test_a_submission_made_with_an_earlier_version_of_a_part_is_marked(folder, board, monkeypatch):
    _, now, _ = ranking.entry_of(folder / "sent", board[1])
    assert not any(row.older for row in now.rows)
    monkeypatch.setitem(recipe.VERSIONS, "selection", {"last": 2})
    _, later, _ = ranking.entry_of(folder / "sent", board[1])
    assert [row.older for row in later.rows if row.is_mine] == [{"selection last": (1, 2)}]


def test_two_runs_of_one_name_are_both_told(folder, verify, monkeypatch):
    monkeypatch.setattr("routebench.engine.suites.Cell.__str__", lambda _: "of one name")
    found = verify("--runs", "2", "--json")
    told = json.loads(found.out)["agreements"]
    assert len(told) == 2 and {one["run"] for one in told.values()} == {"of one name"}


@pytest.mark.parametrize(("other", "told"), [("data", "take:600:mnist5k"), ("model", "capsnet-small")])
def test_results_on_other_data_or_in_another_network_are_not_taken_for_the_board(board, tmp_path, other, told):
    name, published = board
    known = board_of(name)
    folder = tmp_path / "results"
    shutil.copytree(published, folder)
    before = ranking.part_of(Store(folder), known)
    store = Store(folder)
    measured_beside(("method", "control"), **{other: {"data": "take:300:mnist5k", "model": "capsnet-large"}[other]})(
        store
    )
    runs = ranking.part_of(Store(folder), known)
    assert getattr(runs, other) == getattr(before, other) == told and {*runs.planned["cell"]} == {
        *before.planned["cell"]
    }
    assert getattr(ranking.published(known, folder).runs, other) == told
    for file in (folder / "plans").glob("*.json"):
        if not file.stem.endswith("-"):
            file.unlink()
    assert ranking.part_of(Store(folder), known) is None
    with pytest.raises(UserError, match=r"expected results of board .*, data set mnist5k, got those of "):
        ranking.published(known, folder)


def test_a_submission_without_its_checksum_is_refused(folder, verify):
    file = folder / "sent" / "submission.json"
    content = json.loads(file.read_text())
    assert about_of(folder / "sent")[1] == content.pop(checksum.KEY) != ""
    file.write_text(json.dumps(content))
    found = verify("--runs", "0")
    assert found.code == 2 and "has changed since it was written" in found.error


def test_what_is_no_submission_is_told(folder, verify, routebench_in):
    (folder / "sent" / "submission.json").unlink()
    assert "expected a submission" in verify().error
    (folder / "sent" / "submission.json").write_text('{"format": 1}')
    assert verify().code == 2


def test_the_chance_of_missing_false_runs_is_hypergeometric():
    assert missed(10, 3, 0) == 1
    assert missed(10, 3, 1) == pytest.approx(0.7)
    assert missed(88, 3, 10) == pytest.approx((78 * 77 * 76) / (88 * 87 * 86))
    assert missed(10, 3, 8) == 0


def board_page(routebench_in, board, *arguments):
    return routebench_in("board", *arguments, "--board", board[0], "--beside", board[1])


def test_the_board_shows_published_rows_and_submissions_sorted_by_gain(folder, board, routebench_in):
    (folder / "submissions").mkdir()
    shutil.move(folder / "sent", folder / "submissions" / "sharper <1>")
    (folder / "sharper.py").unlink()
    found = board_page(routebench_in, board, "submissions", "-o", "b.html")
    assert found.code == 0 and found.out == "board: b.html, with 1 submissions\n", found
    page = (folder / "b.html").read_text()
    names = re.findall(r'<th scope="row">(?:<a href="([^"]*)">)?([^<]+)', page)
    assert any(re.fullmatch(r"b\.sharper-1--[0-9a-f]{8}\.html", page) and name == "★ Sharper" for page, name in names)
    assert {"EM, T\u00a0=\u00a01", "Uniform routing (baseline)", "CNN (baseline)"} <= {name for _, name in names}
    assert "A. Tester" in page and "routebench" in page
    gains = [float(told.replace("−", "-")) for told in re.findall(r'</th><td class="number">([+−]?[0-9.]+) ', page)]
    assert gains == sorted(gains, reverse=True) and len(gains) == len(names) - 1, "uniform routing has none"
    (own,) = folder.glob("b.sharper-1-*.html")
    assert "★ Sharper: place" in own.read_text()


def test_the_board_leaves_out_what_is_damaged_and_says_so(folder, board, routebench_in):
    (folder / "submissions").mkdir()
    shutil.copytree(folder / "sent", folder / "submissions" / "whole")
    shutil.move(folder / "sent", folder / "submissions" / "damaged")
    (folder / "submissions" / "damaged" / "arrays.parquet").write_bytes(b"")
    found = board_page(routebench_in, board, "submissions")
    assert (
        found.code == 3 and "left out: " in found.error and "arrays.parquet is missing, or has changed" in found.error
    )
    page = (folder / "board.html").read_text()
    assert "1 of 2 submissions" in page and "Left out: " in page


def test_a_submission_whose_page_cannot_be_written_is_not_taken_for_damaged(folder, board, routebench_in):
    (folder / "submissions").mkdir()
    shutil.move(folder / "sent", folder / "submissions" / "sent")
    assert board_page(routebench_in, board, "submissions").code == 0
    before, (own,) = (folder / "board.html").read_text(), folder.glob("board.sent*.html")
    own.unlink()
    own.mkdir()
    found = board_page(routebench_in, board, "submissions")
    assert found.code == 2 and f"cannot be written to '{own.name}': it is a folder" in found.error
    assert found.error.count("\n") == 1 and (folder / "board.html").read_text() == before


def test_nothing_is_written_beside_a_board_that_goes_to_a_pipe(folder, board, routebench_in):
    """Beside a device lie those of the system."""
    (folder / "submissions").mkdir()
    shutil.move(folder / "sent", folder / "submissions" / "sent")
    os.mkfifo(folder / "pipe.html")
    read = []
    reader = threading.Thread(target=lambda: read.append((folder / "pipe.html").read_text()), daemon=True)
    reader.start()
    before = {*folder.iterdir()}
    found = board_page(routebench_in, board, "submissions", "-o", "pipe.html")
    assert (found.code, found.out) == (0, "board: pipe.html, with 1 submissions\n"), found
    reader.join()
    assert {*folder.iterdir()} == before and (folder / "pipe.html").is_fifo()
    assert re.findall(r'<tr data-kind="submitted".*?<th scope="row">([^<]+)', read[0]) == ["★ Sharper"]


def test_submissions_with_similar_names_have_pages_of_their_own(folder, board, routebench_in):
    (folder / "submissions").mkdir()
    shutil.copytree(folder / "sent", folder / "submissions" / "a b")
    shutil.copytree(folder / "sent", folder / "submissions" / "a-b")
    assert board_page(routebench_in, board, "submissions").out == "board: board.html, with 2 submissions\n"
    assert len([*folder.glob("board.a-b*.html")]) == 2
    (folder / "board.mine.html").write_text("notes of the user")
    shutil.rmtree(folder / "submissions" / "a b")
    assert board_page(routebench_in, board, "submissions").out == "board: board.html, with 1 submissions\n"
    assert len([*folder.glob("board.a-b*.html")]) == 1 and (folder / "board.mine.html").is_file()


def test_pages_of_submissions_that_are_gone_go_before_the_board_that_names_them(
    folder, board, routebench_in, monkeypatch
):
    """Who is killed in between has a board that still names them, so that the same command takes them away."""
    (folder / "submissions").mkdir()
    shutil.move(folder / "sent", folder / "submissions" / "sent")
    assert board_page(routebench_in, board, "submissions").code == 0
    before, move, seen = {*folder.iterdir()}, os.replace, []

    def full(source, target):
        if Path(target).name == "board.html":
            seen.append([*folder.glob("board.sent*.html")])
            raise OSError(28, "No space left on device")
        move(source, target)

    monkeypatch.setattr("os.replace", full)
    found = board_page(routebench_in, board)
    assert (found.code, seen) == (2, [[]]) and "'board.html': the disk is full" in found.error, found
    assert {*folder.iterdir()} == before
    monkeypatch.undo()
    assert board_page(routebench_in, board).code == 0
    assert not [*folder.glob("board.sent*.html")]


def test_a_link_of_a_board_leads_to_the_web_alone(folder, board, routebench_in):
    (folder / "submissions").mkdir()
    reseal(folder, lambda content: content.update(code="javascript:alert(1)", who="<b>x</b>"))
    shutil.copytree(folder / "sent", folder / "submissions" / "a")
    reseal(folder, lambda content: content.update(code="https://example.org/a?b=1&c=2"))
    shutil.move(folder / "sent", folder / "submissions" / "b")
    assert board_page(routebench_in, board, "submissions").code == 0
    page = (folder / "board.html").read_text()
    assert "javascript:" not in page and "<b>" not in page and "&lt;b&gt;x" in page
    assert page.count('rel="nofollow noopener"') == 1 and 'href="https://example.org/a?b=1&amp;c=2"' in page


def test_a_board_without_submissions_and_bad_calls(board, routebench_in, tmp_path):
    assert board_page(routebench_in, board).out == "board: board.html, with 0 submissions\n"
    assert "expected a folder of submissions" in board_page(routebench_in, board, "nowhere").error
    assert "did you mean 'quick'" in routebench_in("board", "--board", "quik").error
    shipped = routebench_in("board", "--board", "full", "-o", "full.html")
    assert shipped.code == 0 and (tmp_path / "full.html").read_text().count("<tr data-kind=") == 29


@pytest.mark.parametrize(
    "folder", sorted(file.parent for file in SUBMITTED.glob("*/submission.json")), ids=lambda one: one.name
)
def test_what_was_submitted_here_holds(folder, routebench_in):
    found = routebench_in("verify", folder, "--runs", "0")
    assert found.code == 0, found
