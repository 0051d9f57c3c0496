"""What `routebench suite` shows on a terminal: running cells, the table in colour, verdicts on named methods."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from pandas import DataFrame
from rich.console import Console

from routebench import run_suite
from routebench.analysis import METHOD, Analysis, Column, Estimate, Method, open_folder
from routebench.commands import suite
from routebench.engine.results import Store, unpack
from routebench.engine.running import Display, Follower, StoreContext, prepare, time_ahead
from routebench.engine.running._cell import make_record
from routebench.engine.running._config import Stage
from routebench.options import SuiteOptions
from routebench.protocols.base import FitRequest, Measurement
from routebench.recipe import Recipe
from routebench.report import answers

PUBLISHED = Path(__file__).parent / "packs" / "accuracy-quick"


def test_each_epoch_is_told_with_the_loss_of_the_one_before(tmp_path):
    told = []
    request = FitRequest(
        model="cnn-small", model_params={}, method=None, method_params={}, iterations=None,
        data="take:500:mnist5k", recipe=Recipe(epochs=3, batch_size=100, loss="cross-entropy"), seed=0,
    )  # fmt: skip
    fit = StoreContext(Store(tmp_path), torch.device("cpu"), told.append).fit(request)
    losses = [f"{epoch.train_loss:.3g}" for epoch in fit.epochs]
    assert list(dict.fromkeys(stage.doing for stage in told)) == [
        "epoch 1 of 3",
        f"epoch 2 of 3, loss {losses[0]}",
        f"epoch 3 of 3, loss {losses[1]}",
    ]
    assert told[-1].share == 1


def test_every_running_cell_has_a_line_until_it_has_finished(tmp_path):
    (planned,) = prepare(SuiteOptions("accuracy", preset="smoke", methods=("dynamic",), results=tmp_path))
    console = Console(force_terminal=True, width=100, record=True)
    display = Display(console, Follower(planned))
    one, two, *_ = planned.queue.left
    with display as listener:
        listener.started(one)
        listener.started(two)
        listener.advanced({one.key: Stage(0.5, "epoch 2 of 4, loss 0.3")})
        assert [task.fields["told"] for task in display.bar.tasks[1:]] == ["epoch 2 of 4, loss 0.3", "starting"]
        listener.finished(one, make_record(one, "failed", "it was tired", Measurement([]), {"seconds": 3.0}))
        assert [task.description.strip() for task in display.bar.tasks] == ["all runs", str(two)]
    assert f"[1/6] {one}: failed after 3 s: it was tired" in console.export_text()


def test_a_file_gets_a_line_after_five_minutes_of_silence(tmp_path, monkeypatch):
    (planned,) = prepare(SuiteOptions("accuracy", preset="smoke", methods=("dynamic",), results=tmp_path))
    now = [0.0]
    monkeypatch.setattr("routebench.engine.running._progress.time.monotonic", lambda: now[0])
    console = Console(force_terminal=False, width=100, record=True)
    one = planned.queue.left[0]
    with Display(console, Follower(planned)) as listener:
        listener.started(one)
        for now[0] in (100.0, 299.0, 301.0, 400.0, 602.0):
            listener.advanced({one.key: Stage(0.5, "epoch 2 of 4, loss 0.3")})
    lines = console.export_text().splitlines()
    assert [line for line in lines if line] == ["[0/6] 8%, about 55 min left", "[0/6] 8%, about 1 h 50 min left"]


def test_the_time_ahead_is_told_or_how_to_learn_it(tmp_path):
    (planned,) = prepare(SuiteOptions("accuracy", preset="smoke", methods=("dynamic",), results=tmp_path))
    queue = planned.queue
    assert time_ahead(queue, 2) == "; 2 at a time, --dry-run estimates how long"
    assert time_ahead(queue, 2, tried=True) == "; 2 at a time, duration unknown"
    (timed,) = prepare(SuiteOptions("cost", preset="smoke", results=tmp_path))  # trains nothing
    assert time_ahead(timed.queue, 1) == "; 1 at a time, duration unknown"
    for cell in queue.left:
        queue.times.add(cell.identity, 40.0)
    assert time_ahead(queue, 2) == "; about 2 min, 2 at a time"
    queue.left.clear()
    assert not time_ahead(queue, 2)


@pytest.mark.parametrize(("methods", "named"), [(("dynamic",), {"dynamic"}), ((), set())])
def test_named_methods_have_a_verdict_each(methods, named, tmp_path):
    unpack(PUBLISHED, tmp_path / "results")
    (planned,) = prepare(SuiteOptions("accuracy", methods=methods, results=tmp_path / "results"))
    (answer,) = answers(open_folder(planned.store.path), planned.suite, planned.preset)
    found = suite._verdicts(planned, answer.runs)
    assert {name.lower()[:7] for name in found} == named
    assert all(told.endswith("points against uniform routing: no difference is shown") for told in found.values())
    assert len(found) >= 2 * len(named)  # T=2 and T=3


def test_a_gain_is_coloured_only_where_it_is_significant():
    gains = {"mine": (2.0, 0.01), "theirs": (-2.0, 0.0001), "other": (9.0, 0.3)}
    rows = [{"method": Method(name), "gain": Estimate(mean, p_holm=p)} for name, (mean, p) in gains.items()]
    table = DataFrame([*rows, {"method": Method("cnn", role="control"), "gain": Estimate()}])
    columns = (METHOD, Column("Gain", "gain", "+.1"), Column("p (Holm)", "gain.p_holm", "p"))
    table = suite._coloured(Analysis("Gains", "", table, columns=columns), {rows[0]["method"].text})
    assert [str(cell.style) for cell in table.columns[1]._cells] == ["green", "red", "", ""]
    assert [row.style for row in table.rows] == ["bold cyan", None, None, "dim"]


def test_the_folder_is_opened_once_after_a_suite(tmp_path, monkeypatch):
    results, opened, whole = tmp_path / "results", [], Store.planned
    monkeypatch.setattr(Store, "planned", lambda store: opened.append(store.path) or whole(store))
    monkeypatch.setenv("ROUTEBENCH_OFFLINE", "1")
    small = ["accuracy", "--preset=smoke", "--data=take:100:mnist5k", "--method=dynamic", "--jobs=1"]
    found = CliRunner().invoke(suite.command, [*small, f"--results={results}"])
    assert "report:" in found.output, found.output
    assert opened == [results]
    opened.clear()
    run = run_suite("accuracy", preset="smoke", data="take:100:mnist5k", methods=["dynamic"], results=results, jobs=1)
    assert len(run.tables["accuracy"]) and run.headlines["accuracy"] and "accuracy" in run._repr_html_()
    assert opened == [results]
