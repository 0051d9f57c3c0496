"""Runs the notebooks of `examples` as Jupyter would, without it, and keeps what their cells show.

    python -m tests.tools.notebooks [NAME.ipynb ...]

Each runs in an empty folder.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

EXAMPLES = Path(__file__).parents[2] / "examples"


def cells_of(name: str) -> list[dict[str, Any]]:
    """The cells of a notebook of `examples`."""
    return list(json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"])


def shown_by(code: str, names: dict[str, Any]) -> Any:
    """Runs a cell; gives what its last line shows, None for nothing."""
    *lines, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        exec(compile(code, "notebook", "exec"), names)
        return None
    exec(compile(ast.Module(lines, []), "notebook", "exec"), names)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), names)


def outputs_of(code: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Runs a cell; gives what it printed, what its last line shows, and its figures, as a notebook stores them."""
    printed, found = io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        value = shown_by(code, names)
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        found.append({"data": _forms(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=72)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["<Figure>"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    plt.close("all")
    return found


def _forms(value: Any) -> dict[str, list[str]]:
    """A value as text, and as HTML or a picture where it has that form."""
    told = {"text/plain": repr(value)}
    for form, name in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        if text := getattr(value, name, lambda: None)():
            told[form] = text
    return {form: text.splitlines(keepends=True) for form, text in sorted(told.items())}


def keep(name: str) -> None:
    """Runs a notebook of `examples` in the current folder, and writes what its cells show into it."""
    path = EXAMPLES / name
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "notebook"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, 1):
        cell["outputs"] = outputs_of("".join(cell["source"]), names, count)
        cell["execution_count"] = count
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or sorted(path.name for path in EXAMPLES.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            keep(chosen)
