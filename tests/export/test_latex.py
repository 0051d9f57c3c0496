"""LaTeX that compiles, aligned, with what may be best in bold; checked by structure, and by pdfLaTeX where it is."""

import re
import shutil
import subprocess
from functools import cache

import pytest

from routebench.analysis._table import saved
from routebench.analysis.comparison import comparison_of
from routebench.analysis.folder import open_folder
from routebench.export import Choice, export
from routebench.tables import TextCell, TextTable, as_latex
from routebench.tables._latex import escape
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records
from tests.export.folders import NASTY

COMMAND = "python -m routebench export --format latex"


@cache
def latex_of(folder):
    return export(open_folder(folder), Choice(), "latex", COMMAND).decode()


def code(text):
    """Without comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("%"))


def body(text):
    """Rows of the tabular as lists of cells."""
    inside = re.search(r"\\midrule\n(.*)\n\\bottomrule", text, re.DOTALL)[1]
    return [[cell.strip() for cell in line.removesuffix(r" \\").split(" & ")] for line in inside.splitlines()]


def assert_sound(text):
    """Environments and braces balance, rows have as many cells as the tabular, nothing special stands bare."""
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    bare = re.sub(r"\\.", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.replace("$", "", 0).count("$") % 2 == 0
    assert not re.search(r"[%#~]", bare)
    columns = len(re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1])
    assert all(len(row) == columns for row in body(text))


def test_every_row_is_there_with_its_runs(plain):
    rows = body(latex_of(plain))
    assert len(rows) == 13
    (broken,) = (row for row in rows if row[0].startswith("EM, T = 3"))
    assert broken[2] == "1 / 3"


def test_the_structure_is_sound(plain, nasty):
    assert_sound(code(latex_of(plain)))
    assert_sound(code(latex_of(nasty)))


def test_bold_is_what_may_be_the_best_and_nothing_else(tmp_path):
    methods = {
        name: ([None], "method", "capsnet-small", [value]) for name, value in {"a": 97, "b": 97, "c": 80}.items()
    }
    write_folder(tmp_path, made_up_records(seeds=5, failures=False, methods={**methods, "uniform": METHODS["uniform"]}))
    table = saved(comparison_of(open_folder(tmp_path).parts[0]).table)
    best = {{"a": "A", "b": "B", "c": "C"}.get(name, name) for name in table.loc[table["rank_low"] == 1, "name"]}
    rows = body(latex_of(tmp_path))
    bold = {row[0].removesuffix(" (baseline)")[-1:] for row in rows if r"\textbf" in row[1]}
    assert bold == best
    assert bold == {"A", "B"}
    assert not any(r"\textbf" in cell for row in rows for cell in (row[0], *row[2:]))


def test_the_caption_has_question_seeds_interval_and_unfinished_runs(plain):
    text = " ".join(latex_of(plain).split())
    assert (
        r"\caption[{Which routing is $<$best$>$?}]{Which routing is $<$best$>$? mnist5k, capsnet-small, 3 seeds" in text
    )
    assert r"95 \% t interval over seeds" in text
    assert "Bold: may be the best" in text
    assert "No result from 2 of 39 planned runs: em T=3 diverged; em T=3 not run." in text


def test_the_comment_says_where_the_numbers_come_from(plain):
    lines = latex_of(plain).splitlines()
    for fact in (
        "suite: accuracy, version 1, preset quick",
        "data set: mnist5k, fingerprint 0123456789abcdef",
        "test images: 1,000, never trained on and never used to select",
        "commit: 82f8ab2d0c",
        "uncommitted changes: no",
        "torch: 2.13.0",
        "processor: Example CPU @ 2.00GHz",
        "measured: 2025-11-21T10:00:00+00:00 to 2025-11-21T10:02:00+00:00",
        f"exported by: {COMMAND}",
    ):
        assert f"% {fact}" in lines


def test_one_table_per_part(two_presets):
    assert latex_of(two_presets).count(r"\begin{tabular}") == 2
    chosen = export(open_folder(two_presets), Choice(preset="smoke"), "latex", COMMAND).decode()
    assert chosen.count(r"\begin{tabular}") == 1
    assert "preset smoke" in chosen


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a_b%c&d#e", r"a\_b\%c\&d\#e"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("3 × 3 – π Ω", r"3 $\times$ 3 \textendash{} $\pi$ $\Omega$"),
        ("--preset", "-{}-preset"),
        ("Müller, Łoś", r"M\"{u}ller, \L{}o\'{s}"),
        ("λ", r"$\lambda$"),
        ("a\nb", "a b"),
    ],
)
def test_escaping(text, latex):
    assert escape(text) == latex


def nasty_table():
    names = ["[x]", "*", NASTY, "".join(map(chr, range(32, 127))), "".join(map(chr, range(0xA1, 0x180)))]
    names += ["αβγδεζηθικλμνξοπρςστυφχψω", "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ", "→∞√≤≥≈≠′“”‘’„…—\u2009", "\u4e2d\U0001f600"]
    rows = tuple((TextCell(name, bold=True), TextCell("97.12 ± 0.40", bold=True)) for name in names)
    texts = {"caption": (NASTY,), "notes": (NASTY,), "caveats": (NASTY,), "origin": (f"{NASTY}\n{NASTY}",)}
    return TextTable(name=NASTY, question=NASTY, header=("[mm] method", "%"), numeric=(False, True), rows=rows, **texts)


def test_no_row_begins_like_an_argument_of_the_line_before_it():
    starts = [line for line in code(as_latex([nasty_table()])).splitlines() if line.endswith(r"\\")]
    assert len(starts) > 3 and not [line for line in starts if line.startswith(("[", "*"))]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_compiles_it(plain, nasty, tmp_path):
    tables = [latex_of(plain), latex_of(nasty)]
    inside = "\n".join([*tables, as_latex([nasty_table()])])
    preamble = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n\\listoftables\n"
    (tmp_path / "paper.tex").write_text(f"{preamble}{inside}\\end{{document}}", encoding="utf-8")
    for _ in range(2):  # the second run reads the list of tables
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "paper"],
            check=False, cwd=tmp_path, capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout
