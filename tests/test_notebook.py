"""The example notebook runs from its first cell to its last, as Jupyter would run it."""

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt

NOTEBOOK = Path(__file__).parents[1] / "examples" / "run_suite.ipynb"


def shown_by(code, names):
    """Runs a cell; gives what its last line shows, None for nothing."""
    *lines, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        exec(compile(code, str(NOTEBOOK), "exec"), names)
        return None
    exec(compile(ast.Module(lines, []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_it_runs_and_shows_table_answer_and_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, shown = {"__name__": "notebook"}, {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            shown[code] = shown_by(code, names)
    plt.close("all")
    assert capsys.readouterr().out.count("\n[6/6] ") == 1
    page = shown["run"]._repr_html_()
    assert all(
        text in page for text in ("<td>Equal shares (control)</td>", "Dynamic, T = 3", '<a href="results/report.html">')
    )
    assert (tmp_path / "results" / "report.html").is_file()
    (table,) = [value for value in shown.values() if hasattr(value, "columns")]
    assert set(table["label"]) == {"dynamic", "uniform", "random", "none", "cnn"}


def test_its_outputs_are_not_kept():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
