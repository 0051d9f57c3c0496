"""The linear classifier, against plain scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from routebench.protocols import probe as module
from routebench.protocols.probe import GRID, fit_probe


def problem(count=240, seed=0, noise=1.5):
    """Four classes in six dimensions of different scales."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 4
    centres = torch.randn(4, 6, generator=torch.Generator().manual_seed(9))
    features = centres[labels] + noise * torch.randn(count, 6, generator=random)
    return features * torch.tensor([1.0, 10, 0.1, 1, 100, 1]) + 5, labels


def test_it_is_the_plain_pipeline_with_the_best_held_out_loss():
    (train, labels), (held_out, held_out_labels), (test, _) = problem(), problem(80, 1), problem(100, 2)
    found = fit_probe(train, labels, held_out, held_out_labels)
    scaler = StandardScaler().fit(train.numpy())
    losses, plain = {}, {}
    for strength in GRID:
        plain[strength] = LogisticRegression(C=strength, max_iter=1000).fit(scaler.transform(train.numpy()), labels)
        said = plain[strength].predict_proba(scaler.transform(held_out.numpy()))
        losses[strength] = log_loss(held_out_labels, said)
    best = min(losses, key=losses.get)
    assert found.regulariser == best
    assert len(set(np.round(list(losses.values()), 3))) == len(GRID)
    assert found.held_out_loss == pytest.approx(losses[best], rel=1e-5)
    assert found.pipeline[-1].coef_ == pytest.approx(plain[best].coef_, rel=1e-4, abs=1e-5)
    assert found.predict(test).tolist() == plain[best].predict(scaler.transform(test.numpy())).tolist()
    assert found.converged and found.steps < 100


def test_the_held_out_part_chooses_and_nothing_more():
    (train, labels), (held_out, held_out_labels) = problem(), problem(80, 1)
    chosen = fit_probe(train, labels, held_out, held_out_labels)
    only = fit_probe(train, labels, held_out, held_out_labels.flip(0), grid=[chosen.regulariser])
    assert (only.pipeline[-1].coef_ == chosen.pipeline[-1].coef_).all()
    assert only.held_out_loss > chosen.held_out_loss
    shuffled = held_out_labels[torch.randperm(80, generator=torch.Generator().manual_seed(0))]
    assert fit_probe(train, labels, held_out, shuffled).regulariser == min(GRID) < chosen.regulariser


def test_the_same_again_and_whatever_was_drawn_before():
    (train, labels), (held_out, held_out_labels) = problem(), problem(80, 1)
    one = fit_probe(train, labels, held_out, held_out_labels)
    torch.rand(3), np.random.rand(3)  # noqa: NPY002
    assert (fit_probe(train, labels, held_out, held_out_labels).pipeline[-1].coef_ == one.pipeline[-1].coef_).all()


def test_scale_and_offset_of_a_feature_do_not_matter():
    (train, labels), (held_out, held_out_labels) = problem(), problem(80, 1)
    one = fit_probe(train, labels, held_out, held_out_labels)
    other = fit_probe(7 * train - 3, labels, 7 * held_out - 3, held_out_labels)
    assert other.regulariser == one.regulariser
    assert other.pipeline[-1].coef_ == pytest.approx(one.pipeline[-1].coef_, rel=1e-3, abs=1e-3)


def test_one_constant_feature_is_no_problem_and_tells_nothing():
    _, labels = problem()
    found = fit_probe(torch.ones(240, 1), labels, torch.ones(80, 1), labels[:80])
    assert found.held_out_loss == pytest.approx(np.log(4), rel=1e-3)


def test_what_did_not_converge_is_said(monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", 2)
    (train, labels), (held_out, held_out_labels) = problem(), problem(80, 1)
    found = fit_probe(train, labels, held_out, held_out_labels, grid=[10.0])
    assert (found.converged, found.steps) == (False, 2)


def test_features_that_are_not_finite_are_refused():
    (train, labels), (held_out, held_out_labels) = problem(), problem(80, 1)
    with pytest.raises(ValueError, match="finite features"):
        fit_probe(train.log(), labels, held_out, held_out_labels)
