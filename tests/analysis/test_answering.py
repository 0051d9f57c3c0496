"""Unbalanced classes: balanced accuracy beside accuracy, and a line where a network answers one class alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from routebench.analysis import open_folder
from routebench.analysis.answering import one_class, one_class_in_words
from routebench.commands import suite
from routebench.engine.results import Store
from routebench.engine.running import prepare
from routebench.options import SuiteOptions
from routebench.registry import analyses
from routebench.report._headline import headline_of
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, N_TEST, made_up_records, made_up_runs, record_of

FEW = {name: METHODS[name] for name in ("none", "uniform")}


def runs_with(answered, share: float | None = None, seeds: int = 3):
    """Runs whose answers are given by label and seed: one number for all images, or None for several classes."""
    records = made_up_records(seeds=seeds, methods=FEW, failures=False, preset="full")
    kept = {}
    for record in records:
        own = answered.get((record["label"], record["identity"]["seed"]))
        answer = np.arange(N_TEST) % 10 if own is None else np.full(N_TEST, own)
        kept[record["cell"]] = {"predicted": answer}
        if share is not None:
            known = {"split": "test", "unit": "%", "test_iterations": None, "epoch": None}
            record["metrics"] += [
                {"metric": "commonest_share", "value": share, "higher_is_better": None, **known},
                {
                    "metric": "balanced_accuracy",
                    "value": 10.0 if own is not None else 90.0,
                    "higher_is_better": True,
                    **known,
                },
            ]
            if own is not None:
                record["metrics"][0]["value"] = share
    return replace(made_up_runs(records, preset="full"), arrays=lambda cell: kept[cell])


def test_a_network_that_answers_one_class_is_named_with_its_seeds() -> None:
    runs = runs_with({("none", 1): 4, ("none", 2): 4}, share=83.0)
    assert {method.name: seeds for method, seeds in one_class(runs).items()} == {"none": {1: True, 2: True}}
    told = "Every test image gets one answer, the commonest class, from No sharing with 2 of 3 seeds."
    assert one_class_in_words(runs) == told
    assert told in headline_of(runs).caveats
    assert told in analyses["accuracy-table"](runs).notes


def test_without_shares_of_classes_it_is_not_called_the_commonest() -> None:
    runs = runs_with({("none", 0): 4})
    assert one_class_in_words(runs) == "Every test image gets one answer from No sharing with 1 of 3 seeds."
    assert "balanced" not in analyses["accuracy-table"](runs).numbers


@pytest.mark.parametrize("kept", [{}, {"predicted": np.empty(0)}, {"predicted": np.ones((9, 3), dtype=bool)}])
def test_networks_that_answer_several_classes_or_none_are_not_named(kept) -> None:
    assert one_class_in_words(runs_with({})) == ""
    assert one_class(replace(runs_with({}), arrays=lambda cell: kept)) == {}


def test_balanced_accuracy_stands_beside_accuracy_with_what_the_commonest_class_reaches() -> None:
    found = analyses["accuracy-table"](runs_with({("none", 1): 4}, share=83.0))
    titles = [column.title for column in found.columns]
    assert titles[titles.index("Accuracy, %") + 1] == "Balanced, %"
    table = found.numbers.set_index("name")
    assert table.loc["none", "balanced"] == pytest.approx((90 + 10 + 90) / 3)
    assert table.loc["uniform", "balanced"] == pytest.approx(90)
    assert found.notes[0] == "Classes are unbalanced: always answering the commonest is right for 83.0 %."


def test_the_terminal_has_the_line(tmp_path) -> None:
    records = made_up_records(methods=FEW, failures=False)
    path = write_folder(tmp_path / "results", records)
    (planned,) = prepare(SuiteOptions("accuracy", results=path))
    for kept, told in ((np.arange(N_TEST) % 10, False), (np.zeros(N_TEST), True)):
        predicted = {"predicted": torch.tensor(kept.astype(int)), "correct": torch.tensor(records[0]["correct"]).byte()}
        Store(path).write_record(record_of(records[0], f"arrays/{records[0]['cell']}.safetensors"), predicted)
        console = Console(width=300, record=True)
        suite._show_results(console, planned, open_folder(planned.store.path))
        line = "Every test image gets one answer from No sharing with 1 of 3 seeds."
        assert (line in console.export_text()) is told
