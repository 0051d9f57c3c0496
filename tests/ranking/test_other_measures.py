"""A board of another measure than accuracy, whose settings another suite chose and whose networks it shares."""

import re

import pytest

from routebench.engine.results import Store
from routebench.interface import run_suite
from routebench.ranking import BOARDS, Board
from tests.command import import_once
from tests.ranking import made

ATTACKED = """
question = "Does it withstand attacks?"
version = 1
protocol = "robustness"

[training]
epochs = 3
batch_size = 64

[[methods]]
name = "em"

[[baselines]]
name = "cnn"
models = { capsnet-small = "cnn-small" }

[presets.quick]
data = "mnist5k"
take = 600
model = "capsnet-small"
iterations = [1]
seeds = 2
settings = "tiny.quick.settings.json"
images = 10
eps = [0.05, 0.1]
main_eps = 0.1
steps = 2
restarts = 1
apgd_steps = 2
attacks = ["noise", "fgsm", "bim", "pgd"]
losses = ["training"]
corruptions = ["contrast"]
severities = [3]
corrupted_images = 20
minimal_images = 1
"""


@pytest.fixture
def attacked(board, tiny, monkeypatch):
    """The board, and the folder of its published results: the attacked networks of the small board."""
    suite, published = tiny / "attacked.toml", tiny / "published-attacked"
    if not suite.exists():
        suite.write_text(ATTACKED)
        run_suite(suite, results=published, jobs=1, report=False)
    known = Board(
        "attacked", str(suite), "quick", 2, "quick", "Does it withstand attacks?", tuned_by=str(tiny / "tiny.toml"),
        measure="attacked_accuracy", where={"attack": "worst", "eps": "0.1"}, counted="10 attacked images",
    )  # fmt: skip
    monkeypatch.setitem(BOARDS, "attacked", known)
    return published


def test_what_is_ranked_is_the_boards_measure(attacked, routebench_in, tmp_path):
    import_once()
    file = made.method(tmp_path)
    fixed = ("--board", "attacked", "--beside", attacked, "--jobs", 1, "--no-isolate", "--results", "own")
    found = routebench_in("rank", file, *fixed)
    assert found.code == 0 and "★ Sharper: place" in found.out, found
    assert (tmp_path / "own" / "sharper.tiny.quick.settings.json").is_file(), "the other suite chose the settings"
    records = [one for one in Store(tmp_path / "own").records() if one.label == "sharper" and not one.identity.is_trial]
    known = {"attack": "worst", "eps": "0.1"}
    values = [
        one["value"]
        for record in records
        for one in record.metrics
        if one["metric"] == "attacked_accuracy" and known.items() <= one["where"].items()
    ]
    (told,) = re.findall(r"★ Sharper: place [^,]+, (\d+)", found.out)
    assert len(values) == 2 and int(told) == pytest.approx(sum(values) / 2, abs=0.5)
    assert "10 attacked images" in (tmp_path / "own" / "rank.sharper.attacked.quick.html").read_text()
    refused = routebench_in(
        "submit", file, *fixed[:4], "--results", "own", "--who", "A", "--licence", "MIT", "-o", "sent"
    )
    assert refused.code == 2 and "expected a board of accuracies" in refused.error, refused
    assert len(refused.error.strip().splitlines()) == 1
