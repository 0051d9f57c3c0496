"""The notebooks of `examples` run from their first cell to their last, as Jupyter would run them."""

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def cells_of(name):
    return json.loads((EXAMPLES / name).read_text())["cells"]


def shown_by(code, names):
    """Runs a cell; gives what its last line shows, None for nothing."""
    *lines, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        exec(compile(code, "notebook", "exec"), names)
        return None
    exec(compile(ast.Module(lines, []), "notebook", "exec"), names)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), names)


@pytest.fixture
def run_notebook(tmp_path, monkeypatch):
    """Runs a notebook in an empty folder: the names it leaves, and what each cell shows."""

    def run(name):
        monkeypatch.chdir(tmp_path)
        names = {"__name__": "notebook"}
        code = ["".join(cell["source"]) for cell in cells_of(name) if cell["cell_type"] == "code"]
        shown = [shown_by(cell, names) for cell in code]
        plt.close("all")
        return names, shown

    return run


def test_run_suite_shows_table_answer_and_report(run_notebook, tmp_path, capsys):
    names, shown = run_notebook("run_suite.ipynb")
    assert capsys.readouterr().out.count("\n[6/6] ") == 1
    page = names["run"]._repr_html_()
    assert all(
        text in page
        for text in (
            "<td>Uniform routing = ★ Dynamic, T = 1 (baseline)</td>",
            "★ Dynamic, T = 3",
            '<a href="results/report.html">',
        )
    )
    assert (tmp_path / "results" / "report.html").is_file()
    (table,) = [value for value in shown if hasattr(value, "columns")]
    assert set(table["label"]) == {"dynamic", "uniform", "random", "none", "cnn"}


def test_own_method_conforms_and_stands_beside_its_controls(run_notebook):
    names, _ = run_notebook("own_method.ipynb")
    assert names["sharper"].failed == 0
    assert {"mean-agreement", "mean-agreement[sharpness=4]"} >= {
        label for label in names["sharper"].results["label"] if label.startswith("mean")
    }
    assert names["sharper"].counts.run == 2  # the variant, at T=1 and T=3


def test_reading_results_answers_with_numbers_of_the_folder(run_notebook):
    names, _ = run_notebook("read_results.ipynb")
    gain = names["by_seed"].loc[("dynamic", 3)] - names["by_seed"].loc[("uniform", 0)]
    assert names["found"].mean == pytest.approx(gain.mean())
    assert names["routed"].mean() * 100 == pytest.approx(names["by_seed"].loc[("dynamic", 3), 0])


def test_own_suite_has_both_entries_and_names_a_wrong_key(run_notebook, capsys):
    names, _ = run_notebook("own_suite.ipynb")
    assert {"dynamic", "dynamic (cross entropy)"} <= set(names["run"].results["label"])
    assert "'training.batchsize': unknown; did you mean 'batch_size'?" in capsys.readouterr().out


def test_the_gate_finds_the_edit(run_notebook, capsys):
    names, shown = run_notebook("regression_gate.ipynb")
    assert names["comparison"].exit_code == 1 == shown[-1]
    assert capsys.readouterr().out.startswith("Regression: accuracy of shares")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_short_and_its_outputs_are_not_kept(name):
    cells = cells_of(name)
    assert len(cells) < 12
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
