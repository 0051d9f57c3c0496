"""One command places a method among published ones: on a board of seconds, trained for real."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from torch import Tensor

import routebench
from routebench import Routed, RoutingMethod, Votes, ranking
from routebench.analysis import MISSING, Method, Verdict, open_folder
from routebench.analysis.comparison import comparison_of, contenders_of
from routebench.engine.results import Store
from routebench.errors import UserError
from routebench.ops import length, squash
from routebench.ranking import Machines, standing_of
from routebench.registry import extensions
from tests.ranking import made


@pytest.fixture(scope="session")
def ranked(board, joined, tmp_path_factory):
    """A method that joined the small board, and the folder of its results."""
    folder = tmp_path_factory.mktemp("ranked")
    name, published = board
    shutil.copytree(joined, folder, dirs_exist_ok=True)
    (folder / "own" / "rank.sharper.tiny.quick.html").unlink()
    with extensions.restored():
        found = routebench.rank(
            folder / "sharper.py", board=name, beside=published, results=folder / "own", jobs=1, isolate=False
        )
    return found, folder / "own"


def standing(board, folder, **changed):
    """The board with the method on it, where the published runs are others in some way."""
    name, published = board
    known = ranking.published(ranking.board_of(name), published)
    known = replace(known, runs=replace(known.runs, **changed))
    store = open_folder(folder).store
    own = ranking.part_of(store, known.board)
    return known, own, standing_of(known, own, store, "sharper", None)


def accuracies(runs, label, iterations=None):
    found = {(one.method.label, one.method.iterations): one for one in contenders_of(runs)}
    return np.array(found[label, iterations].values)


def flipped(published):
    """Answers of another machine: as many are right, but not the same."""
    known = open_folder(published)

    def correct(cell):
        return known.parts[0].correct(cell)[::-1]

    return correct


def test_the_method_stands_on_the_board_with_a_place(ranked):
    found, results = ranked
    assert found.left == 0 and found.page == results / "rank.sharper.tiny.quick.html"
    mine = [row for row in found.standing.rows if row.is_mine]
    assert [row.method.label for row in mine] == ["sharper"] and found.standing.seeds == 3
    assert found.standing.ranks is not None and found.told[0].startswith("★ Sharper: place ")
    assert {row.method.name for row in found.standing.rows} >= {"em", "uniform", "random", "cnn", "sharper"}
    assert "★ Sharper" in str(found) and "★ Sharper" in found._repr_html_()
    page = found.page.read_text()
    assert '<tr class="mine"><th scope="row">★ Sharper</th>' in page and "<svg" in page
    assert "learning_rate" in page, "the chosen settings"


def test_on_the_machine_of_the_published_runs_all_is_paired_by_seed(board, ranked):
    known, own, found = standing(board, ranked[1])
    assert found.machines is Machines.SAME and found == ranked[0].standing
    (row,) = [row for row in found.rows if row.method.label == "em"]
    theirs = stats.ttest_rel(accuracies(own, "sharper"), accuracies(known.runs, "em", 1))
    assert row.apart.p == pytest.approx(theirs.pvalue)
    assert row.apart.mean == pytest.approx(accuracies(own, "sharper").mean() - accuracies(known.runs, "em", 1).mean())


def test_on_another_machine_gains_over_the_baseline_are_compared(board, ranked):
    known, own, found = standing(board, ranked[1], correct=flipped(board[1]))
    assert found.machines is Machines.ALIKE
    (row,) = [row for row in found.rows if row.method.label == "em"]
    ours = accuracies(own, "sharper") - accuracies(own, "uniform")
    theirs = accuracies(known.runs, "em", 1) - accuracies(known.runs, "uniform")
    assert row.apart.p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
    (base,) = [row for row in found.rows if row.method.label == "uniform"]
    here = stats.ttest_rel(accuracies(own, "sharper"), accuracies(own, "uniform"))
    assert base.apart.p == pytest.approx(here.pvalue), "uniform routing was trained beside it"
    assert base.images.half_width > 0 and row.images.half_width >= row.apart.half_width


def test_whatever_a_machine_adds_to_all_methods_cancels(board, ranked):
    known, _, found = standing(board, ranked[1], correct=flipped(board[1]))
    results = known.runs.results.copy()
    results.loc[results["metric"] == "accuracy", "value"] += 0.25
    _, _, shifted = standing(board, ranked[1], correct=flipped(board[1]), results=results)
    of = {row.method: row.apart.mean for row in found.rows}
    assert {row.method: row.apart.mean for row in shifted.rows} == pytest.approx(of, nan_ok=True)


def test_where_the_baseline_differs_between_machines_nothing_is_ranked(board, ranked):
    known, _, _ = standing(board, ranked[1])
    results = known.runs.results.copy()
    results.loc[results["metric"] == "accuracy", "value"] *= 0.1
    _, _, found = standing(board, ranked[1], correct=flipped(board[1]), results=results)
    assert found.machines is Machines.APART and found.ranks is None and found.place == "–"
    told = " ".join(ranking.told(found))
    assert "Nothing is ranked" in told and "place" not in told
    assert all(row.verdict is None for row in found.rows if not row.method.is_base)
    assert [method.label for method in found.named] == ["uniform"], "which was trained on this machine"


def test_published_rows_keep_what_was_published(board, ranked):
    known, _, found = standing(board, ranked[1])
    table = {row["method"]: row for row in comparison_of(known.runs).measured.to_dict("records")}
    rows = [row for row in found.rows if not row.is_mine]
    assert len(rows) == len(table)
    for row in rows:
        assert row.mean == table[row.method]["mean"]
        assert str(row.gain) == str(table[row.method]["gain"])


def test_a_pair_has_one_verdict_and_the_place_counts_all_pairs(board, ranked):
    _, _, found = standing(board, ranked[1])
    shown = {row.method: row.verdict for row in found.rows if not row.is_mine}
    for method, (_, verdict) in found.named.items():
        assert shown[method] is verdict
    low, high = found.ranks
    assert 1 <= low <= high <= len(shown) + 1
    worse = sum(verdict in (Verdict.WORSE, Verdict.WORSE_BY_LITTLE) for verdict in shown.values())
    assert low <= 1 + worse


def test_a_clone_of_uniform_routing_differs_from_it_by_nothing(board, tmp_path):
    name, published = board
    file = made.method(tmp_path, "clone", sharpness=0.0)
    found = routebench.rank(file, board=name, beside=published, results=tmp_path / "own", jobs=1, isolate=False)
    ((against, (gain, verdict)), *_) = found.standing.named.items()
    assert against.is_base and abs(gain.mean) < 0.2, "both are trained with the best of the same two trials"
    assert verdict not in (Verdict.BETTER, Verdict.WORSE)


def test_a_seed_that_was_not_run_yet_is_not_lost(ranked):
    standing = ranked[0].standing
    waiting = replace(standing, planned=5)
    assert "Not run yet: 2 of 5 seeds; the same call goes on." in ranking.told(waiting)
    assert not any("favours" in sentence for sentence in ranking.told(waiting))
    lost = replace(waiting, mine=replace(standing.mine, lost=frozenset({3, 4})))
    rows = [replace(row, method=lost.mine) if row.is_mine else row for row in standing.rows]
    assert "No result from 2 of 5 seeds, so that no verdict favours it." in ranking.told(replace(lost, rows=(*rows,)))


@pytest.mark.parametrize("side", ["here", "published"])
def test_no_verdict_favours_a_method_where_uniform_routing_lost_seeds(board, ranked, tmp_path, side):
    """Whoever chooses which of its seeds fail chooses the gains."""
    folders = {"here": ranked[1], "published": board[1]}
    shutil.copytree(folders[side], tmp_path / "lost")
    store = Store(tmp_path / "lost")
    of = {record.identity.seed: record for record in store.records()
          if record.label == "uniform" and not record.identity.is_trial}  # fmt: skip
    worst = max(of.values(), key=lambda record: record.accuracies[0] * (1 if side == "here" else -1))
    store.write_record(replace(worst, status="failed", reason="OSError: no", metrics=[], files=None, arrays=None), {})
    folders[side] = store.path
    _, _, found = standing((board[0], folders["published"]), folders["here"], correct=flipped(folders["published"]))
    assert found.machines is Machines.ALIKE
    others = [row for row in found.rows if row.verdict is not None and not (row.method.is_base and side == "published")]
    ahead = [row for row in others if row.apart.mean >= 0]
    assert ahead and all(row.apart.kind == MISSING == row.images.kind for row in ahead)
    assert all(row.verdict is Verdict.UNTESTABLE for row in ahead)
    assert not any(row.verdict is Verdict.EQUAL for row in others)
    told = {"here": "Uniform routing here", "published": "Published uniform routing"}[side]
    assert f"{told} has no result from 1 seed, so that no verdict favours the method." in ranking.told(found)
    if side == "here":
        assert f"Uniform routing, seed {worst.identity.seed}: failed: OSError: no" in ranking.told(found)
        assert next(row.gain.kind for row in found.rows if row.is_mine) == MISSING


def test_a_run_without_a_result_is_told_by_its_method(board, ranked, tmp_path):
    shutil.copytree(ranked[1], tmp_path / "lost")
    store = Store(tmp_path / "lost")
    for label in ("sharper", "uniform"):
        one = next(record for record in store.records() if (record.label, record.identity.seed) == (label, 1))
        store.write_record(replace(one, status="failed", reason="OSError: no", metrics=[], files=None, arrays=None), {})
    _, _, found = standing(board, store.path)
    assert found.reasons == (
        "Sharper, seed 1: failed: OSError: no",
        "Uniform routing, seed 1: failed: OSError: no",
    )
    assert str(Method.of("sharper", 2)) == "Sharper, T = 2"


def test_other_settings_of_the_baseline_are_refused(board, ranked):
    name, published = board
    known = ranking.published(ranking.board_of(name), published)
    store = open_folder(ranked[1]).store
    own = ranking.part_of(store, known.board)

    def record(key):
        found = type(known).record(known, key)
        training = {**found.identity.training, "epochs": 7}
        return replace(found, identity=replace(found.identity, training=training))

    other = replace(known)
    object.__setattr__(other, "record", record)
    with pytest.raises(UserError, match="got another training, so that nothing can be compared"):
        standing_of(other, own, store, "sharper", None)


@pytest.mark.parametrize(("old", "new"), [("settings =", "# "), ("trials = 2", "trials = 4")])
def test_settings_that_would_be_chosen_anew_are_refused_before_anything_is_trained(board, tmp_path, old, new):
    """Those of uniform routing would be others than the published ones, which hours of training later says."""
    _, published = board
    for file in published.parent.glob("tiny.*"):
        shutil.copy(file, tmp_path)
    suite = tmp_path / "tiny.toml"
    suite.write_text(suite.read_text().replace(old, new))
    if old == "settings =":
        routebench.run_suite(suite, results=tmp_path / "untuned", jobs=1, report=False)
        published = tmp_path / "untuned"
    with pytest.raises(UserError, match=r"expected a preset whose `settings` were chosen with the trials .* got none"):
        routebench.rank("em", board=f"{suite}:quick", beside=published, results=tmp_path / "own")
    assert not (tmp_path / "own").exists()


class InSession(RoutingMethod):
    """Half of what uniform routing sends."""

    def route(self, votes: Votes, activations: Tensor) -> Routed:
        parents = squash(votes.sweep()[1] / 2)
        return Routed(parents, length(parents))


def test_a_class_of_the_session_is_ranked_too(board, tmp_path):
    name, published = board
    found = routebench.rank(InSession, board=name, beside=published, results=tmp_path / "own")
    assert found.standing.mine.label == "in-session" and found.standing.ranks is not None
