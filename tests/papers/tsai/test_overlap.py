"""What the protocol reports of a network whose scores are known, and of one that is trained."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from routebench.analysis import Verdict
from routebench.comparing import Wishes, compare_folders
from routebench.data import Dataset, Images
from routebench.engine.suites import Choices, load_suite, plan
from routebench.errors import UserError
from routebench.models.network import Output
from routebench.notation import parse
from routebench.papers.tsai.protocols import overlap
from routebench.papers.tsai.protocols.overlap import Overlap, best_threshold, highest
from routebench.protocols import tuning
from routebench.protocols.base import Fit, FitRequest
from routebench.recipe import Recipe
from routebench.registry import datasets
from tests.analyses.measured import parts_of

REQUEST = FitRequest(
    model="capsnet-small",
    data="made-up",
    recipe=Recipe(epochs=1, loss="margin"),
    seed=0,
    method="dynamic",
    iterations=3,
)
SHOWN = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0]]
SCORES = [
    [0.90, 0.10, 0.20, 0.00],  # right
    [0.45, 0.47, 0.10, 0.00],  # nothing above 0.5, and right if the count is given
    [0.80, 0.70, 0.10, 0.00],  # right
    [0.60, 0.55, 0.52, 0.00],  # one too many, and wrong if the count is given
    [0.10, 0.80, 0.46, 0.00],  # one missing, and right with a threshold of 0.46 or less
]


class Known(nn.Module):
    """Takes its scores from the first pixels of an image, in hundredths."""

    def forward(self, images):
        scores = (images.flatten(1)[:, :4] * 255).round() / 100
        return Output(torch.logit(scores, eps=1e-6), scores)


class Lent:
    """Lends the network above."""

    device = torch.device("cpu")

    def fit(self, request):
        return Fit(Known(), [], 1.5)

    def progress(self, share):
        pass


def images_with(scores, shown):
    pixels = (torch.tensor(scores) * 100).round().byte().reshape(-1, 1, 2, 2)
    return Images(pixels, torch.tensor(shown, dtype=torch.bool))


def data_with(test_scores=SCORES, held_out_scores=SCORES):
    parts = [images_with(scores, SHOWN) for scores in (SCORES, held_out_scores, test_scores)]
    return Dataset("made-up", tuple("0123"), *parts, fingerprint="f", source="here")


def measured(monkeypatch, data=None, **options):
    monkeypatch.setattr(overlap, "load", lambda _: data or data_with())
    return Overlap().measure(REQUEST, options, Lent())


def values(found, **where):
    return {each.metric: each.value for each in found.metrics if dict(each.where) == where}


def test_numbers_are_those_counted_by_hand(monkeypatch):
    found = measured(monkeypatch, threshold=0.5)
    expected = {
        "accuracy": 40,
        "exact_match_half": 40,
        "exact_match": 40,
        "exact_match_one_digit": 50,
        "exact_match_two_digits": 100 / 3,
    }
    expected |= {"exact_match_given_count": 80, "predicted_digits": 7 / 5, "parameters": 0, "fit_seconds": 1.5}
    assert values(found).items() >= {key: pytest.approx(value) for key, value in expected.items()}.items()
    assert found.arrays["correct"].tolist() == [1, 0, 1, 0, 0]
    assert found.arrays["correct"].dtype == torch.uint8
    assert found.arrays["scores"].float().numpy() == pytest.approx(torch.tensor(SCORES).numpy(), abs=1e-3)
    assert all(each.test_iterations == 3 for each in found.metrics if each.split == "test")


def test_one_number_of_two_names_is_judged_once(monkeypatch, no_data, tmp_path):
    """`accuracy` has a verdict; `exact_match` is shown beside it."""
    made = plan(load_suite("overlap"), "smoke", Choices(methods=(parse("dynamic"),)))
    worse = [[1 - score for score in row] for row in SCORES]
    for name, scores in (("base", SCORES), ("head", worse)):
        found = measured(monkeypatch, data_with(test_scores=scores), threshold=0.5)
        parts_of(made, tmp_path / name, lambda _, found=found: found)
    changes = compare_folders(tmp_path / "base", tmp_path / "head", Wishes()).changes
    verdicts = {
        name: {change.verdict for change in changes if change.group.metric == name}
        for name in ("accuracy", "exact_match")
    }
    assert verdicts["exact_match"] == {Verdict.UNJUDGED}
    assert Verdict.REGRESSION in verdicts["accuracy"]
    shown = {(change.base, change.head) for change in changes if change.group.metric == "exact_match"}
    assert shown == {(40.0, 0.0)}


def test_recall_and_precision_count_each_digit(monkeypatch):
    found = measured(monkeypatch, threshold=0.5)
    third = pytest.approx(100 / 3)
    assert values(found, digit=0) == {"recall": 100, "precision": 100}
    assert values(found, digit=1) == {"recall": pytest.approx(200 / 3), "precision": pytest.approx(200 / 3)}
    assert values(found, digit=2) == {"recall": 50, "precision": 100}
    assert values(found, digit=3) == {}  # never shown and never answered
    assert values(measured(monkeypatch, threshold=0.85), digit=0) == {"recall": third, "precision": 100}


def test_the_threshold_changes_what_is_answered(monkeypatch):
    found = values(measured(monkeypatch, threshold=0.465))
    assert found["exact_match"] == found["accuracy"] == 60
    assert found["exact_match_half"] == 40
    chosen = values(measured(monkeypatch))
    assert chosen["accuracy"] == values(measured(monkeypatch, threshold=chosen["chosen_threshold"]))["accuracy"]


def test_a_threshold_is_chosen_by_held_out_images_alone(monkeypatch):
    high = [[min(1, score + 0.3) for score in row] for row in SCORES]
    one = values(measured(monkeypatch, data_with(held_out_scores=high)))
    other = values(measured(monkeypatch, data_with(test_scores=high, held_out_scores=high)))
    assert one["chosen_threshold"] == other["chosen_threshold"] == best_threshold(*_scores_of(high))
    assert one["chosen_threshold"] > 0.7
    assert one["accuracy"] < other["accuracy"]


def test_trials_are_scored_with_the_threshold_that_their_held_out_images_choose(monkeypatch):
    high = [[min(1, score + 0.3) for score in row] for row in SCORES]
    data = data_with(test_scores=high, held_out_scores=high)
    monkeypatch.setattr(tuning, "load", lambda _: data)
    found = tuning.Tuning().measure(REQUEST, {"study": 0, "trial": 0}, Lent())
    score = next(each.value for each in found.metrics if each.metric == "score")
    assert score == values(measured(monkeypatch, data))["accuracy"]
    assert score > values(measured(monkeypatch, data, threshold=0.5))["accuracy"]


def _scores_of(scores):
    return torch.tensor(scores, dtype=torch.float32), torch.tensor(SHOWN, dtype=torch.bool)


def test_the_chosen_threshold_is_the_best_and_of_equals_the_nearest_to_a_half():
    assert best_threshold(torch.tensor([[0.9, 0.2]]), torch.tensor([[True, False]])) == pytest.approx(0.5)
    assert best_threshold(torch.tensor([[0.9, 0.705]]), torch.tensor([[True, False]])) == pytest.approx(0.71)
    scores, shown = torch.rand(50, 4), torch.rand(50, 4) < 0.4
    chosen = best_threshold(scores, shown)
    right = [int(((scores > k / 100) == shown).all(dim=1).sum()) for k in range(1, 100)]
    assert right[round(100 * chosen) - 1] == max(right)


def test_as_many_of_the_highest_scores_as_asked_for():
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.5, 0.5, 0.5], [0.3, 0.2, 0.1]])
    found = highest(scores, torch.tensor([2, 1, 0]))
    assert found.int().tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]


def test_data_with_one_label_per_image_is_refused_before_anything_is_trained(monkeypatch):
    single = [Images(part.pixels, part.labels.long().argmax(dim=1)) for part in [images_with(SCORES, SHOWN)] * 3]
    data = Dataset("digits", tuple("0123"), *single, fingerprint="f", source="here")
    with pytest.raises(UserError, match="may show several classes, such as diverse-multimnist5k, got digits"):
        measured(monkeypatch, data)


def test_a_cell_runs_through_the_engine(tmp_path, monkeypatch):
    """One epoch on 64 digits: record, arrays, and the fit that another cell would find."""
    import routebench
    from routebench.data import load
    from routebench.engine.results import Store
    from routebench.engine.running._cell import run_cell
    from routebench.papers.tsai.data import diverse_multimnist

    whole = load("mnist5k")
    few = replace(whole, train=whole.train.at(torch.arange(0, 3600, 57)), test=whole.test.at(torch.arange(0, 1000, 16)))
    monkeypatch.setattr(diverse_multimnist, "load", lambda _: few)
    list(datasets)
    monkeypatch.setitem(datasets.entries, "few-overlapping", diverse_multimnist.diverse_multimnist5k)
    made = plan(load_suite("overlap"), "smoke", Choices(methods=(parse("dynamic"),), data="few-overlapping"))
    cell = next(cell for cell in made.cells if cell.identity.iterations == 3)
    store = Store(tmp_path)
    store.prepare()
    record = run_cell(cell, store, torch.device("cpu"), {}, lambda _: None)
    assert (record.status, record.reason) == ("ok", "")
    json.dumps(record.as_dict())
    table = routebench.load_results(tmp_path)
    right = store.arrays(cell.key)["correct"]
    accuracy = table[(table["metric"] == "accuracy") & (table["split"] == "test")]["value"]
    assert list(accuracy) == [pytest.approx(100 * right.mean())]
    assert set(table.loc[table["metric"] == "recall", "digit"]) <= set(range(10))
    assert store.arrays(cell.key)["scores"].shape == (63, 10)
