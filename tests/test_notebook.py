"""The notebooks of `examples` run from their first cell to their last, as Jupyter would run them."""

import ast
import re

import matplotlib.pyplot as plt
import pytest

from tests.tools.notebooks import EXAMPLES, cells_of, outputs_of, shown_by

NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
PLACE = re.compile(r"(?<![\w.<])/(home|tmp|root|work|Users|usr|opt|var|private|mnt)/|[A-Z]:\\\\|site-packages|Warning:")
"""A machine's folder, or a warning, which names one."""


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


def test_own_method_conforms_and_stands_beside_its_baselines(run_notebook):
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


def test_own_suite_has_both_configurations_and_names_a_wrong_key(run_notebook, capsys):
    names, _ = run_notebook("own_suite.ipynb")
    assert {"dynamic", "dynamic (cross entropy)"} <= set(names["run"].results["label"])
    assert "'training.batchsize': unknown; did you mean 'batch_size'?" in capsys.readouterr().out


def test_the_gate_finds_the_edit(run_notebook, capsys):
    names, shown = run_notebook("regression_gate.ipynb")
    assert names["comparison"].exit_code == 1 == shown[-1]
    assert capsys.readouterr().out.startswith("Regression: accuracy of shares")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_short_and_its_outputs_are_kept_and_name_no_machine(name):
    cells = cells_of(name)
    assert len(cells) < 12
    assert (EXAMPLES / name).stat().st_size < 300_000
    assert not PLACE.search((EXAMPLES / name).read_text(encoding="utf-8"))
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        shows = isinstance(ast.parse("".join(cell["source"])).body[-1], ast.Expr)
        assert bool(cell["outputs"]) >= shows, f"run: python -m tests.tools.notebooks {name}"


def test_a_place_of_a_machine_is_noticed():
    assert all(map(PLACE.search, ["in /tmp/x", '"/home/me/a.py', "UserWarning: no", r"C:\\Users"]))
    assert not any(map(PLACE.search, ["results/report.html", "<td>a</td>", "https://a.org/tmp/x"]))


def test_outputs_are_what_a_cell_prints_shows_and_draws():
    code = "import matplotlib.pyplot as plt\nprint('a')\nplt.plot([1, 2])\n1 + 1"
    printed, shown, drawn = outputs_of(code, {}, 3)
    assert printed == {"name": "stdout", "output_type": "stream", "text": ["a\n"]}
    assert (shown["data"], shown["execution_count"]) == ({"text/plain": ["2"]}, 3)
    assert drawn["data"]["image/png"].startswith("iVBOR")
