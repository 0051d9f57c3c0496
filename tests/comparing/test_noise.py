"""The noise of each method: its own, as far as it differs; and what is no verdict at all."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from routebench.analysis import Verdict
from routebench.comparing import Wishes, compare_folders
from routebench.comparing._evidence import weigh
from routebench.comparing._noise import Noise
from routebench.comparing._series import Group, PairedSeries
from routebench.comparing._verdicts import METHOD, SETTING, judge
from tests.comparing.planted import headline, lose, retrained, write

RECALL = Group("overlap", "quick", "diverse-multimnist5k", "recall", "test", "%", higher_is_better=True)


def noisy(rng, quiet, loud, method):
    """Other weights of all methods; the accuracy of one method varies more than that of the others."""
    edits = {False: retrained(rng, quiet), True: retrained(rng, loud)}

    def edit(record, arrays):
        edits[record["identity"]["method"] == method](record, arrays)

    return edit


def floors(comparison):
    rows = [row for row in comparison.changes if row.level == SETTING and row.evidence.kind == "samples"]
    return {row.method: row.evidence.floor for row in rows}


def test_a_noisier_method_has_a_higher_floor_and_fails_no_comparison(tmp_path):
    codes, ratios = [], []
    for draw in range(6):
        rng = np.random.default_rng(draw)
        sides = [write(tmp_path / f"{side}{draw}", noisy(rng, 0.2, 1.2, "none"), keep=headline) for side in "bh"]
        comparison = compare_folders(*sides, Wishes(metrics=("accuracy",)))
        codes.append(comparison.exit_code)
        own = floors(comparison)
        ratios.append(own["none"] / own["dynamic"])
    assert np.median(ratios) > 2
    assert codes.count(1) <= 1, codes


def test_a_loss_of_a_quiet_method_is_seen_beside_a_noisy_one(tmp_path):
    rng = np.random.default_rng(0)
    base = write(tmp_path / "base", noisy(rng, 0.2, 1.2, "none"), keep=headline)
    worse = noisy(rng, 0.2, 1.2, "none"), lose(30, "dynamic", rng)

    def edit(record, arrays):
        for one in worse:
            one(record, arrays)

    comparison = compare_folders(base, write(tmp_path / "head", edit, keep=headline), Wishes(metrics=("accuracy",)))
    assert "dynamic" in {row.method for row in comparison.with_verdict(Verdict.REGRESSION)}


def recall(method, base, head, digit=0):
    """One row of recall: values by seed on both sides."""
    sides = [{seed: np.array([value]) for seed, value in enumerate(values)} for values in (base, head)]
    found = PairedSeries(RECALL, method, 3, f"digit {digit}", *sides, base_means=dict(enumerate(base)))
    for seed in range(len(base)):  # only their keys are read
        found.cells[seed] = SimpleNamespace(base=SimpleNamespace(key=f"{method} {digit} {seed}"))
    return found


def test_equal_changes_in_one_row_do_not_decide():
    """Two points less with both seeds, by chance: other rows of the metric vary, and so do this row's own values."""
    rng = np.random.default_rng(5)
    others = [recall(f"m{place}", rng.normal(90, 1.5, 2), rng.normal(90, 1.5, 2)) for place in range(6)]
    equal = recall("dynamic", (91.0, 93.0), (89.0, 91.0))
    rows = judge([equal, *others], Noise([equal, *others]), Wishes())
    assert not [row for row in rows if row.verdict in (Verdict.UNDECIDED, Verdict.REGRESSION)]
    assert not math.isnan(weigh([equal], Noise([equal, *others])).p_value)


def test_equal_changes_of_every_row_are_no_chance():
    rows = [recall(f"m{place}", (91.0, 93.0), (89.0, 91.0)) for place in range(4)]
    assert {row.verdict for row in judge(rows, Noise(rows), Wishes()) if row.level == SETTING} == {Verdict.UNDECIDED}


def test_a_change_of_one_setting_in_twenty_lies_beyond_the_floor():
    """95 % of a normal deviation lie within 1.96 of it, and of one that is estimated within more."""
    rng, beyond = np.random.default_rng(3), []
    for _ in range(60):
        rows = [
            recall(f"m{place}", (95.0,), (95.0 + change,), digit)
            for place in range(4)
            for digit, change in enumerate(rng.normal(0, 1, 6))
        ]
        own = rows[:6]
        spread, floor = Noise(rows).over_settings(own)
        assert floor >= 1.96 * math.sqrt(spread.variance)
        beyond += [abs(one.change(0)) > floor for one in own]
    assert np.mean(beyond) < 0.06


@pytest.mark.parametrize(("answered", "code"), [(0.0, 0), (40.0, 1)])
def test_a_digit_that_is_never_answered_has_no_precision_to_lose(tmp_path, answered, code):
    """Without precision where recall is 0, nothing was lost; where the digit is answered, the number was."""

    def per_digit(values):
        def edit(record, arrays):
            first = record["metrics"][0]
            for name, digit, value in (("precision", 1, 90.0), *values):
                one = {**first, "metric": name, "value": value, "split": "test", "where": {"digit": digit}}
                record["metrics"].append({**one, "unit": "%", "higher_is_better": True, "epoch": None})

        return edit

    base = write(tmp_path / "base", per_digit([("recall", 7, 40.0), ("precision", 7, 80.0)]), keep=headline)
    head = write(tmp_path / "head", per_digit([("recall", 7, answered)]), keep=headline)
    comparison = compare_folders(base, head, Wishes(metrics=("precision",)))
    assert {loss.metric for loss in comparison.lost} == ({"precision"} if code else set())
    assert (comparison.exit_code == 1) == bool(code)


def test_two_seeds_of_one_method_are_undecided(tmp_path):
    """Two seeds on each side tell the spread of one method too badly to judge a loss of three points."""

    def one(record):
        return headline(record) and record["identity"]["method"] == "em" and record["identity"]["seed"] < 2

    moved = {0: 45, 1: 15}

    def edit(record, arrays):
        lose(moved[record["identity"]["seed"]], "em", np.random.default_rng(1))(record, arrays)

    base = write(tmp_path / "base", keep=one)
    comparison = compare_folders(base, write(tmp_path / "head", edit, keep=one), Wishes(metrics=("accuracy",)))
    assert comparison.exit_code == 4
    assert "with two seeds it may be the training" in comparison.with_verdict(Verdict.UNDECIDED)[0].why


def without(missing):
    """All but the runs of EM with other iterations than one, of some seeds, and those with one, of others."""

    def run(record):
        of = record["identity"]
        return of["method"] != "em" or of["seed"] not in missing[of["iterations"] == 1]

    return run


@pytest.mark.parametrize("missing", [((1, 2), (0,)), ((2,), (0,)), ((), (0,)), ((0, 1), (2,)), ((0, 1), ())])
def test_settings_of_a_method_with_other_seeds_than_each_other_hide_no_loss(tmp_path, missing):
    def worse(record, arrays):
        lose(60, record["identity"]["method"], np.random.default_rng(record["identity"]["seed"]))(record, arrays)

    wishes, lacking = Wishes(metrics=("accuracy",)), without(missing)
    same = compare_folders(write(tmp_path / "base"), write(tmp_path / "same", run=lacking), wishes)
    assert same.exit_code == 3
    found = compare_folders(tmp_path / "base", write(tmp_path / "head", worse, run=lacking), wishes)
    (em,) = [row for row in found.changes if row.level == METHOD and row.method.startswith("em") and not row.group.note]
    assert em.verdict == Verdict.REGRESSION and found.exit_code == 1
    assert em.evidence.floor < 1 and em.evidence.usual < 5
