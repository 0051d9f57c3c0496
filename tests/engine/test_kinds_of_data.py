"""What is made of tokens is refused by the plan wherever pictures are measured, and the other way round."""

import numpy as np
import pytest

import routebench
from routebench.engine.results import pack
from routebench.errors import UserError
from routebench.registry import protocols

MEASURED = {"accuracy", "cost", "tuning"}
"""Protocols that measure tokens, too."""


@pytest.fixture
def features(tmp_path, monkeypatch):
    """A file of features, without masks, in the folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    random = np.random.RandomState(0)
    arrays = {f"{part}_features": random.randn(60, 4, 8).astype(np.float32) for part in ("train", "test")}
    np.savez("x.npz", **arrays, train_labels=np.arange(60) % 3, test_labels=np.arange(60) % 3)
    return "features:x.npz"


def test_every_protocol_says_what_it_measures():
    assert {name for name in protocols if len(protocols[name].takes) > 1} == MEASURED


@pytest.mark.parametrize("suite", ["sparsity", "robustness", "linear-probe", "equivariance", "objects"])
def test_suites_on_pictures_refuse_tokens(suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"expected a data set of images, got (take:2000:)?token-pairs, of tokens of 16 x 80"
    ):
        routebench.run_suite(suite, preset="smoke", data="token-pairs")


@pytest.mark.parametrize(
    ("suite", "given", "expected"),
    [
        (
            "accuracy",
            {"data": "token-pairs"},
            r"model 'capsnet-small': expected images, got tokens of shape \(16, 80\)",
        ),
        (
            "features",
            {"data": "mnist5k"},
            r"model 'token-capsules': expected tokens, got images of shape \(1, 28, 28\)",
        ),
        ("features", {"methods": "divide-and-conquer"}, "as many tokens each for divide-and-conquer"),
    ],
)
def test_networks_and_methods_that_do_not_suit_the_data_are_refused(suite, given, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=expected):
        routebench.run_suite(suite, preset="smoke", **given)


def test_a_method_that_takes_no_mask_runs_where_there_is_none(features, tmp_path):
    run = routebench.run_suite(
        "features", preset="smoke", data=features, methods="divide-and-conquer", results=tmp_path / "results", jobs=1
    )
    assert run.counts.run and not run.counts.failed


def test_tokens_are_not_augmented(features, tmp_path):
    (tmp_path / "own.toml").write_text(
        'question = "?"\nversion = 1\nprotocol = "accuracy"\n[training]\naugmentation = "shift2"\n'
        f'[[methods]]\nname = "dynamic"\n[presets.smoke]\ndata = "{features}"\nmodel = "token-capsules"\n'
        "iterations = [1]\nseeds = 1\ntraining = { epochs = 1 }\n"
    )
    with pytest.raises(UserError, match="expected no augmentation of tokens, got 'shift2' for dynamic"):
        routebench.run_suite(str(tmp_path / "own.toml"), preset="smoke")


def test_results_on_a_set_of_any_name_can_be_packed(features, tmp_path):
    name = "my tokens@2:(1) é, again and again, and again and again, and once more again.npz"
    (tmp_path / "x.npz").rename(tmp_path / name)
    run = routebench.run_suite(
        "features",
        preset="smoke",
        data=f"features:{name}",
        methods="uniform",
        results=tmp_path / "results",
        report=False,
    )
    assert run.counts.run and not run.counts.failed
    pack(tmp_path / "results", tmp_path / "packed")
    assert set(routebench.load_results(tmp_path / "packed")["data"]) == {f"features:{name}"}
