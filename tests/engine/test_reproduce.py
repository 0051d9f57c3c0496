"""A record is made again, and compared number by number."""

import json
import math
import shlex
import shutil
import subprocess
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from routebench.commands.reproduce import _run, command
from routebench.data import load
from routebench.engine import reproduce
from routebench.engine.agreement import compare
from routebench.engine.origin import plugin_hash
from routebench.engine.results import Store, files_of
from routebench.engine.running import Listener, Queue, RunConfig, run_cells
from routebench.engine.running._suite import write_plan
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.registry import datasets, extensions, load_plugin
from tests.engine.conftest import PARTS, SUITE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory):
    """The first record of a small suite, and the folder of its eight runs."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(SUITE.format(protocol="brightness", seeds=2, more=""))
    store = Store(folder / "results")
    store.prepare()
    with extensions.restored():
        load_plugin(str(PARTS))
        cells = plan(load_suite(str(folder / "small.toml")), "quick", Choices()).cells
        made, *_ = run_cells(Queue(cells), store, RunConfig("cpu", jobs=1, threads=1), Listener())
    return made, store.path


@pytest.fixture
def record(planned, store, finished_once):
    """The file of a finished record, with a command line such as a user gives."""
    made, folder = deepcopy(finished_once[0]), finished_once[1]
    for part in ("records", "arrays"):
        shutil.copytree(folder / part, store.path / part, dirs_exist_ok=True)
    made.provenance["command"] = "python -m routebench suite small.toml --plugin parts.py --results r --jobs 2"
    store.write_record(made, {})
    return store.path / "records" / f"{made.cell}.json"


def metric(value, name="accuracy", unit="%", **more):
    return {"metric": name, "split": "test", "value": value, "unit": unit, "test_iterations": 2, "epoch": None, **more}


def record_of(metrics, processor=""):
    """A published record with other numbers, of another machine."""
    published = min((files_of(ROOT / "reports" / "quick") / "records").glob("*.json"))
    return replace(reproduce.read_record(published), metrics=list(metrics), provenance={"processor": processor})


def agreement(then, now, outputs_then=(), outputs_now=()):
    sides = [record_of(side) for side in (then, now)]
    return compare(*sides, dict(outputs_then), dict(outputs_now))


def test_equal_numbers_agree_to_the_last_digit():
    found = agreement([metric(0.1 + 0.2), metric(math.nan, "loss")], [metric(0.1 + 0.2), metric(math.nan, "loss")])
    assert found.holds
    assert list(found.lines()) == ["2 of 2 numbers agree to the last digit"]


def test_rounding_is_told():
    found = agreement([metric(1.0)], [metric(1.0 + 1e-7)])
    assert found.holds
    assert list(found.lines())[1] == "1 agree within rounding; the largest relative difference is 1.0e-07"


HERE, THERE = "one, 2 cores", "another, 2 cores"


def test_another_processor_may_round_otherwise():
    then = [metric(0.4304, "loss", ""), metric(45.2), metric(3.0, "updates", "count"), metric(0.0, "attack_success")]
    now = [
        metric(0.4304 + 2.8e-5, "loss", ""),
        metric(45.7),
        metric(3.01, "updates", "count"),
        metric(0.9, "attack_success"),
    ]
    found = compare(record_of(then, HERE), record_of(now, THERE), {}, {})
    assert found.holds
    assert not found.is_exact
    assert list(found.lines())[:2] == [
        "0 of 4 numbers agree to the last digit",
        "4 agree within rounding, up to 0.01 on another processor; the largest relative difference is 9.0e-03",
    ]
    assert len(compare(record_of(then, HERE), record_of(now, HERE), {}, {}).differing) == 4
    assert not compare(record_of(then, HERE), record_of(now, "one, 4 cores"), {}, {}).holds


@pytest.mark.parametrize(
    ("then", "now"), [(metric(80.0), metric(82.0)), (metric(2.0, "loss", ""), metric(2.1, "loss", ""))]
)
def test_another_processor_does_not_explain_everything(then, now):
    assert not compare(record_of([then], HERE), record_of([now], THERE), {}, {}).holds


def answers(right, images, flips=0, seed=0):
    """Answers of which so many are right, and the same after as many right ones became wrong as wrong ones right."""
    correct = np.arange(images) < right
    other, rng = correct.copy(), np.random.default_rng(seed)
    for side in (True, False):
        other[rng.choice(np.flatnonzero(correct == side), flips // 2, replace=False)] = not side
    return correct.astype(np.uint8), other.astype(np.uint8)


@pytest.mark.parametrize("name", ["correct", "clean", "robust", "correct_by_epoch"])
@pytest.mark.parametrize(
    ("right", "images", "flips", "here", "there"),
    [
        (950, 1000, 0, True, True),
        (950, 1000, 2, False, True),
        (950, 1000, 10, False, True),
        (950, 1000, 12, False, False),
        (9500, 10_000, 100, False, True),
        (9990, 10_000, 20, False, False),  # every wrong image is another one
        (60, 67, 2, False, True),
        (60, 67, 4, False, False),
    ],
)
def test_answers_to_other_images_are_no_rounding(name, right, images, flips, here, there):
    """Whatever the accuracy says, which is the same."""
    then, now = answers(right, images, flips)
    for place, holds in ((HERE, here), (THERE, there)):
        found = compare(record_of([metric(95.0)], HERE), record_of([metric(95.0)], place), {name: then}, {name: now})
        assert found.holds is holds and found.is_exact is (flips == 0)
        told = [line for line in found.lines() if f"raw output {name}" in line]
        assert bool(told) is bool(flips) and all(line.startswith("differs: ") is not holds for line in told)


@pytest.mark.parametrize("right", [500, 900, 990, 998])
@pytest.mark.parametrize("place", [HERE, THERE])
def test_permuted_answers_are_no_rounding(right, place):
    then = answers(right, 1000)[0]
    now = np.random.default_rng(0).permutation(then)
    assert not compare(record_of([], HERE), record_of([], place), {"correct": then}, {"correct": now}).holds


def test_answers_that_are_fewer_right_are_judged_by_the_accuracy_and_other_outputs_are_told_alone():
    then, now = answers(950, 1000)[0], answers(945, 1000)[0]
    sides = record_of([metric(95.0)], HERE), record_of([metric(94.5)], THERE)
    assert compare(*sides, {"correct": then}, {"correct": now}).holds
    found = compare(*sides, {"poses": np.zeros(3)}, {"poses": np.ones(3)})
    assert found.holds and not found.is_exact and "raw output poses: 3 of 3 values differ" in [*found.lines()]
    assert not compare(*sides, {"poses": np.zeros(3)}, {"poses": np.zeros(4)}).holds


@pytest.mark.parametrize("split", ["", "test"])
def test_counts_are_exact(split):
    then, now = ([{**metric(value, "parameters", "count"), "split": split}] for value in (10**7, 10**7 + 1))
    assert not compare(record_of(then, HERE), record_of(now, HERE), {}, {}).holds
    assert compare(record_of(then, HERE), record_of(now, THERE), {}, {}).holds is (split == "test")


@pytest.mark.parametrize("now", [94.7, math.nan, math.inf, None])
def test_another_number_differs(now):
    found = agreement([metric(94.8)], [metric(now)])
    assert not found.holds
    assert list(found.lines())[1].startswith("differs: accuracy test T=2: 94.8 then,")


@pytest.mark.parametrize("sides", [([metric(1.0)], []), ([], [metric(1.0)])])
def test_a_number_that_one_side_lacks_differs(sides):
    assert not agreement(*sides).holds


@pytest.mark.parametrize(
    ("then", "now", "holds"),
    [
        (
            ("failed", "RuntimeError: the matrix is singular"),
            ("failed", "ModuleNotFoundError: No module named 'a'"),
            False,
        ),
        (("failed", "RuntimeError: the matrix is singular"), ("failed", "RuntimeError: a file is missing"), False),
        (("failed", "RuntimeError: got 3 of 4 (a.py:7)"), ("failed", "RuntimeError: got 2 of 4 (a.py:9)"), True),
        (("failed", "OSError: /a/b is full"), ("failed", "OSError: /c/d is full"), True),
        (("failed", "the worker process died: SIGSEGV"), ("failed", "the worker process died: SIGKILL"), False),
        (("diverged", "loss in epoch 4 of training"), ("diverged", "loss in epoch 5 of training"), True),
        (("diverged", "loss in epoch 4 of training"), ("failed", "loss in epoch 4 of training"), False),
        (("failed", "RuntimeError: no"), ("ok", ""), False),
        (("ok", ""), ("oom", "took 3 GB"), False),
    ],
)
def test_a_failure_agrees_with_a_failure_of_its_kind(then, now, holds):
    sides = [replace(record_of([]), status=status, reason=reason) for status, reason in (then, now)]
    found = compare(*sides, {}, {})
    assert found.holds is holds
    assert [*found.lines()] == [
        f"{when} {': '.join(filter(None, end))}" for when, end in zip(("then", "now"), (then, now), strict=True)
    ]


def test_coordinates_tell_numbers_apart():
    sides = [[metric(float(batch), where={"batch": batch}) for batch in order] for order in ((1, 2), (2, 1))]
    assert agreement(*sides).holds


@pytest.mark.parametrize(
    ("name", "unit"),
    [("time", "s"), ("time", "ms"), ("speed", "flop/s"), ("training_runs", "count"), ("memory", "bytes")],
)
def test_what_the_machine_has_a_part_in_need_not_agree(name, unit):
    found = agreement([metric(2.0, name, unit)], [metric(3.0, name, unit)])
    assert found.holds
    assert "1.50 of what they were" in list(found.lines())[-1]


def test_raw_outputs_are_counted():
    one, other = np.array([1, 2, 3]), np.array([1, 5, 3])
    found = agreement([], [], {"predicted": one, "same": one}, {"predicted": other, "same": one})
    assert list(found.lines())[1:] == ["raw output predicted: 1 of 3 values differ"]


def test_raw_outputs_that_one_side_lacks_are_told():
    """A record that lies alone has no answers: equal numbers are not yet equal answers."""
    one, two = {"correct": np.ones(3), "poses": np.ones(3)}, {"correct": np.ones(3)}
    for sides, side in (((one, two), "now"), ((two, one), "then")):
        found = agreement([], [], *sides)
        assert found.holds and f"not compared: raw output poses, which is not there {side}" in [*found.lines()]
    found = agreement([], [], {}, one)
    assert "not compared: raw output correct, poses, which is not there then" in [*found.lines()]


def test_a_key_and_its_beginning_and_a_path_name_a_record(record, store):
    for name in (str(record), record.stem, record.stem[:12]):
        assert reproduce.find_record(name, store.path).samefile(record)


def test_names_that_name_no_record(record, store, tmp_path):
    wrong = ("0" if record.stem[-1] != "0" else "1").join([record.stem[:-1], ""])
    for name, folder, told in [
        (wrong, store.path, f"did you mean '{record.stem}'"),
        ("", store.path, "8 records begin with ''"),
        ("absent.json", store.path, "no such file"),
        (record.stem, tmp_path / "absent", "expected a results folder"),
    ]:
        with pytest.raises(UserError, match=told):
            reproduce.find_record(name, folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2, "cell": 2}', "\x00"])
def test_a_file_that_is_no_record_is_said_and_stays(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(UserError, match="expected a record's JSON"):
        reproduce.read_record(file)
    assert file.read_text() == content


def test_a_record_of_another_schema_is_refused(record):
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "schema": 3}))
    with pytest.raises(UserError, match="schema version 3"):
        reproduce.read_record(record)


def test_the_command_names_the_cell_and_a_folder_of_its_own(record):
    known = reproduce.read_record(record)
    now = reproduce.prepare(known)
    command = f"--device cpu --backend auto --run {record.stem} --results reproduced"
    assert reproduce.commands(known, now)[-1] == (
        f"python -m routebench suite small.toml --plugin parts.py --jobs 2 {command}"
    )
    known.provenance["command"] = "python -m routebench suite all --preset quick"
    assert reproduce.commands(known, now)[-1] == f"python -m routebench suite small --preset quick {command}"
    known.provenance["command"] = "pytest"
    assert reproduce.commands(known, now)[-1] == (
        f"python -m routebench suite small --method {known.label} --data digits200 "
        f"--seeds {known.identity.seed + 1} {command}"
    )
    far = replace(known, identity=replace(known.identity, seed=2_000_000))
    assert " --seeds 2000000..2000000 " in reproduce.commands(far, now)[-1]
    known.provenance["command"] = "python -m routebench suite small --seeds=5 --until 0.5"  # which adds seeds
    assert reproduce.commands(known, now)[-1] == (
        f"python -m routebench suite small --seeds {known.identity.seed + 1} {command}"
    )
    known.provenance["command"] = "python -m routebench suite small --seeds 10..19"
    assert reproduce.commands(known, now)[-1] == f"python -m routebench suite small --seeds 10..19 {command}"


def test_a_trial_is_made_by_its_tuning(record):
    """No option chooses one trial, and nothing is written over the settings that are here."""
    known = reproduce.read_record(record)
    known = replace(known, identity=replace(known.identity, tuning={"point": {}, "fold": 0}))
    for typed, told in (
        (
            "python -m routebench tune a.toml --trials 9 --write a.json --jobs 2 --results r",
            "a.toml --trials 9 --jobs 2",
        ),
        ("python -m routebench tune a.toml -o a.json --output=b.json", "a.toml"),
        ("pytest", f"small --method {known.label} --data digits200"),
    ):
        known.provenance["command"] = typed
        *notes, line = reproduce.commands(known, reproduce.look(known))
        assert line == f"python -m routebench tune {told} --device cpu --results reproduced"
        assert f"`python -m routebench reproduce {known.cell} --run`" in notes[-1]


@pytest.mark.parametrize("typed", ["--settings {}", "--settings={}"])
def test_settings_are_named_where_they_lie_or_it_is_said(record, tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    known = reproduce.read_record(record)
    known.provenance["command"] = f"python -m routebench suite accuracy {typed.format('a.settings.json')}"
    now = reproduce.look(known)
    note = (
        "# no 'a.settings.json' is here: write its path, or call from the folder where the record's command was given"
    )
    assert reproduce.commands(known, now, [tmp_path / "r"])[-2] == note
    (tmp_path / "r").mkdir()
    for folder in (tmp_path / "r", tmp_path):
        (folder / "a.settings.json").touch()
        *notes, line = reproduce.commands(known, now, [tmp_path / "r"])
        assert note not in notes
        found = "a.settings.json" if folder == tmp_path else shlex.quote(str(folder / "a.settings.json"))
        assert f" --settings {found} " in line


def test_what_cannot_run_as_it_stands_is_said(record, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    known = reproduce.read_record(record)
    for typed, told in (
        ("suite small.toml", ["no 'small.toml' is here"]),
        ("suite small.toml --plugin parts.py", ["no 'small.toml'", "no 'parts.py'"]),
        ("suite small", ["suite 'small' does not ship"]),
        ("rank a.py", ["of another kind: add the preset", "suite 'small' does not ship"]),
    ):
        known.provenance["command"] = f"python -m routebench {typed}"
        notes = [line for line in reproduce.commands(known, reproduce.look(known)) if line[0] == "#"]
        assert all(any(part in note for note in notes) for part in told), notes


def test_plugins_of_the_environment_are_named(foreign, tmp_path, monkeypatch):
    """By the path that the variable has now, else by what the record knows of them; what needs none names none."""
    known, _ = foreign
    known.provenance["command"] = "python -m routebench suite small.toml"
    known.provenance["plugins"] = {"parts": "", "small_parts.py": ""}
    line = reproduce.commands(known, reproduce.look(known))[-1]
    assert " --plugin parts --plugin small_parts.py " in line
    with pytest.raises(UserError, match=r"'small_parts\.py' is not here; .* or name its path in ROUTEBENCH_PLUGINS"):
        reproduce.named_plugins(known)
    own = tmp_path / "far" / "small_parts.py"
    own.parent.mkdir()
    own.write_text("")
    monkeypatch.setenv("ROUTEBENCH_PLUGINS", str(own))
    assert {*reproduce.named_plugins(known)} == {"parts", str(own)}
    assert f" --plugin parts --plugin {shlex.quote(str(own))} " in reproduce.commands(known, reproduce.look(known))[-1]
    shipped = replace(known, identity=replace(known.identity, data="digits200"))
    assert " --plugin " not in reproduce.commands(shipped, reproduce.look(shipped))[-1]


def test_another_commit_and_a_changed_checkout_are_said(record):
    known = reproduce.read_record(record)
    now = reproduce.prepare(known)
    known.provenance.update({"commit": "a" * 40, "dirty": True, "dirty_hash": "1234"})
    checkout, warning, *_ = reproduce.commands(known, {**now, "commit": "b" * 40})
    assert checkout == f"git checkout {'a' * 40}"
    assert "hash of the difference: 1234" in warning


@pytest.mark.parametrize("commit", [".", "--", "-f", "HEAD", "main", "a" * 39 + "\n", "A" * 40, "a" * 65, "abc"])
def test_a_commit_that_is_no_hash_is_never_checked_out(record, commit):
    known = reproduce.read_record(record)
    known.provenance["commit"] = commit
    lines = reproduce.commands(known, reproduce.prepare(known))
    assert not any(line.startswith("git") for line in lines)
    assert "# expected a commit of hexadecimal digits" in lines[0]


@pytest.mark.parametrize("threads", ["many", "2", [1], {"a": 1}, 10**9, 1025, -3, 1.5, True])
def test_a_forged_number_of_threads_is_one_line(record, threads):
    known = reproduce.read_record(record)
    known.provenance["threads"] = threads
    with pytest.raises(UserError, match="expected threads from 1 to 1024, got"):
        reproduce.prepare(known)


@pytest.mark.parametrize("device", ["meta", "x:9", "cuda:x", "cuda:" + 5_000 * "9", "cpu:0"])
def test_a_forged_device_is_one_line(record, device):
    known = reproduce.read_record(record)
    known.provenance["device"] = device
    with pytest.raises(UserError, match="expected auto, cpu, cuda"):
        reproduce.prepare(known)


def test_what_is_different_now_is_listed(record):
    known = reproduce.read_record(record)
    now = reproduce.prepare(known)
    assert reproduce.differences(known, now) == []
    known = replace(known, identity=replace(known.identity, source="s" * 16, data_fingerprint="f" * 16))
    known.provenance["versions"].update({"torch": "1.0", "gone": "2.0"})
    known.provenance["processor"] = "abacus"
    told = "\n".join(reproduce.differences(known, now))
    for part in ("ssss then", "fingerprint ffff", "torch: 1.0 then", "gone: 2.0 then, none now", "processor: abacus"):
        assert part in told


def test_a_plugin_that_is_not_here_is_said(record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"plug-in 'parts\.py' is not here"):
        reproduce.with_plugins(reproduce.read_record(record), {})


FOREIGN = """
from pathlib import Path
from routebench import datasets
from routebench.data import load

Path(__file__).with_name("imported").touch()

@datasets.register("mine-of-a-folder")
def mine():
    return load("mnist5k")
"""


@pytest.fixture
def foreign(record, parts, tmp_path, monkeypatch):
    """A record whose data are of a plug-in that this process has not imported, and the plug-in's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    file = tmp_path / "parts" / "folder_of_mine.py"
    file.write_text(FOREIGN)
    known = reproduce.read_record(record)
    fingerprint = load("mnist5k").fingerprint
    identity = replace(known.identity, data="mine-of-a-folder", data_fingerprint=fingerprint)
    known = replace(known, identity=identity)
    known.provenance["command"] = (
        f"python -m routebench suite small.toml --plugin parts --plugin {shlex.quote(str(parts))}"
    )
    known.provenance["plugins"] = {"parts": plugin_hash("parts")}
    return known, file


def test_a_folder_of_plugins_is_loaded_elsewhere_and_its_changes_are_told(foreign):
    known, file = foreign
    now = reproduce.prepare(known)
    told, cell = reproduce.with_plugins(known, now)
    assert told == []
    assert [Path(spec).name for spec in cell.plugins] == ["parts", "small_parts.py"]
    assert file.with_name("imported").exists()
    assert "mine-of-a-folder" not in datasets
    file.write_text(FOREIGN + "\n\nX = 1\n")
    assert [line.split(":")[0] for line in reproduce.with_plugins(known, now)[0]] == ["plug-in parts"]


@pytest.mark.parametrize("name", ["{}", "few:300:{}", "features:network@32:{}"])
def test_nothing_is_imported_before_the_user_asks_to_run(foreign, record, store, name):
    known, file = foreign
    known = replace(known, identity=replace(known.identity, data=name.format("mine-of-a-folder")))
    record.write_text(json.dumps(known.as_dict()))
    code, told = call(record)
    assert code == 0
    assert "# not compared, because no plug-in is imported without --run: data 'mine-of-a-folder'" in told
    assert not file.with_name("imported").exists()


HOSTILE = "x; touch pwned #$(touch pwned)`touch pwned`"


def test_what_a_record_holds_is_no_code_of_a_shell(record, tmp_path):
    known = reproduce.read_record(record)
    known = replace(known, label=HOSTILE, identity=replace(known.identity, suite=HOSTILE, data=HOSTILE))
    known.provenance.update({
        "commit": HOSTILE, "dirty": True, "dirty_hash": f"\n{HOSTILE}\n", "processor": f"\n{HOSTILE}\r",
        "device": HOSTILE, "backend": HOSTILE, "plugins": {f"\n{HOSTILE}": f"\n{HOSTILE}"},
    })  # fmt: skip
    now = reproduce.look(replace(known, provenance={}))
    for typed in (f"evil; touch pwned; suite all {HOSTILE}", f"evil '{HOSTILE}", HOSTILE, f"x suite '{HOSTILE}'"):
        known.provenance["command"] = typed
        lines = reproduce.commands(known, now)
        lines += [
            reproduce.comment(line)
            for line in reproduce.differences(replace(known, identity=replace(known.identity, data="digits200")), now)
        ]
        script = "\n".join(["git() { :; }", "python() { :; }", *lines])
        subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
        assert not (tmp_path / "pwned").exists()
        assert [line.partition(" ")[0] for line in lines if line[0] != "#"] == ["python"]
    known.provenance["command"] = "python -m routebench suite 'a\x1b[201~b'"
    with pytest.raises(UserError, match="control characters"):
        reproduce.commands(known, now)


def call(*arguments):
    """Exit code and output of the command."""
    done = CliRunner().invoke(command, [*map(str, arguments)])
    return done.exit_code, done.output


def test_the_command_reproduces(planned, store, run_all, parts):
    made = run_all(planned.cells)[0]
    made.provenance["command"] = f"python -m routebench suite small.toml --plugin {shlex.quote(str(parts))}"
    store.write_record(made, {})
    file = store.path / "records" / f"{made.cell}.json"
    code, told = call(made.cell[:12], "--results", store.path)
    assert code == 0
    assert told.splitlines()[-1].endswith(f"--run {made.cell} --results reproduced")
    code, told = call(file, "--run")
    assert (code, told.splitlines()[-1]) == (0, "the record is reproduced")
    assert "1 of 1 numbers agree to the last digit" in told
    made.metrics[0]["value"] += 1
    store.write_record(made, {})
    code, told = call(file, "--run")
    assert code == 1
    assert "differs: accuracy test" in told
    assert "nothing is known to have changed" in told


def test_failures_are_compared_by_their_kind(parts, suite_file, store, run_all, tmp_path):
    journal = tmp_path / "journal"
    journal.mkdir()  # so that writing to it fails
    made = plan(load_suite(str(suite_file(seeds=1, more=f'journal = "{journal}"'))), "quick", Choices())
    write_plan(made, store)
    (failed,) = run_all(made.cells[:1])
    file = store.path / "records" / f"{failed.cell}.json"
    now = reproduce.prepare(failed)
    assert _run(file, failed, made.cells[0], now, False)[0] == 0
    journal.rmdir()
    assert _run(file, failed, made.cells[0], now, False)[0] == 1
    (fine,) = run_all(made.cells[:1])
    journal.unlink()
    journal.mkdir()
    assert _run(file, fine, made.cells[0], now, False)[0] == 3
