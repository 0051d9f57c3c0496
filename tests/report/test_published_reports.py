"""The results in `reports/` can be read by the version that they travel with, and nothing in them is missing."""

import html
import re
from pathlib import Path

import pandas as pd
import pytest

from routebench.analysis.folder import open_folder
from routebench.engine.results import files_of, load_results, unpack
from routebench.registry import analyses
from tests.report.outline import Outline

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
FOLDERS = sorted(file.parent for file in REPORTS.glob("*/report.html"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_published_results_are_whole(folder):
    results = load_results(folder)
    planned = pd.concat([part.planned for part in open_folder(folder).parts])
    assert set(planned["status"]) <= {"ok", "diverged"}  # to diverge is a result
    assert (planned["status"] == "ok").mean() > 0.99
    assert set(results["cell"]) == set(planned["cell"])
    assert not results["dirty"].any()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_published_results_name_no_folder_of_the_machine_that_made_them(folder):
    files = [folder / "report.html", *files_of(folder).rglob("*.json")]
    assert len(files) > 1
    told = [file.name for file in files if re.search(r"(?<![\w.])/(tmp|home|root|Users|work)/", file.read_text())]
    assert told == []


@pytest.mark.parametrize("name", ["papers-full", "papers-quick"])
def test_every_claim_leads_to_the_suites_that_measured_it(name):
    text = (REPORTS / name / "report.html").read_text()
    (table,) = re.findall(r'<table class="scores claims">(.*?)</table>', text, re.DOTALL)
    rows = table.split("<tbody>")[1].split("<tr>")[1:]
    assert rows and all('<a href="#' in row.rpartition("<td>")[2] for row in rows)


@pytest.mark.parametrize("name", ["papers-quick", "generative-quick"])
def test_no_claim_is_left_out_because_its_test_raises(name):
    claims = analyses["qualitative-claims"](tuple(open_folder(REPORTS / name).parts))
    assert len(claims.table) > 15
    assert [note for note in claims.notes if note.startswith("Left out")] == []


def test_runs_come_before_the_trials_that_chose_their_settings():
    text = (REPORTS / "standard" / "report.html").read_text()
    assert Outline(text).pages[:4] == ["overview", "standard", "standard-mnist-mnist-capsnet-small", "standard-tuning"]
    assert "best trial" not in re.search(r"<h1[^>]*>(.*?)</h1>", text)[1]


def test_methods_that_were_asked_for_in_several_calls_are_all_marked_but_not_for_readers_of_a_pack(tmp_path):
    runs = {part.preset: part for part in open_folder(REPORTS / "routers").parts}["quick"]
    assert runs.yours == set()
    unpacked = tmp_path / "unpacked"
    unpack(REPORTS / "routers", unpacked)
    own = {part.preset: part for part in open_folder(unpacked).parts}["quick"]
    assert own.yours == {"soft-moe", "expert-choice", "sinkhorn-token-choice"}


def test_who_repeats_a_part_of_several_calls_is_told_all_of_them():
    text = html.unescape((REPORTS / "routers" / "report.html").read_text())
    for method in ("soft-moe", "expert-choice", "sinkhorn-token-choice"):
        assert f"python -m routebench tune accuracy --preset quick --method {method}" in text


@pytest.mark.parametrize("page", sorted(REPORTS.glob("*/report.html")), ids=lambda page: page.parent.name)
def test_commands_need_no_folder_or_file_of_who_gave_them(page):
    codes = re.findall(r"<pre[^>]*><code>(python -m routebench .*?)</code>", page.read_text())
    assert codes and not any("--results" in code for code in codes)
    files = {file for code in codes for file in re.findall(r"--settings (\S+)", html.unescape(code))}
    shipped = {file.name for root in ("suites", "routebench") for file in (ROOT / root).rglob("*.settings.json")}
    assert shipped and not files & shipped


def test_a_page_names_the_papers_of_its_methods():
    text = (REPORTS / "standard" / "report.html").read_text()
    assert '<a href="https://arxiv.org/abs/1710.09829">arXiv:1710.09829</a>' in text


@pytest.mark.parametrize("name", ["standard", "features"])
def test_a_reconstructed_method_says_so_beside_its_name(name):
    text = (REPORTS / name / "report.html").read_text()
    rows = re.findall(r'<th scope="row" title="wang-liu[^"]*">(.*?)</th>', text, re.DOTALL)
    assert rows and all("reconstructed: we had no copy of the paper" in row for row in rows)
    others = re.findall(r'<th scope="row" title="dynamic[^"]*">(.*?)</th>', text, re.DOTALL)
    assert others and not any("reconstructed" in row for row in others)


def test_the_tabs_of_the_largest_page_are_one_line_with_menus():
    text = (REPORTS / "standard" / "report.html").read_text()
    (tabs,) = re.findall(r"<nav .*?</nav>", text, re.DOTALL)
    menus = dict(re.findall(r"<details><summary>(.*?)</summary><ul>(.*?)</ul>", tabs, re.DOTALL))
    assert [*menus] == ["Standard", "Iterations", "Tuning", "Explore"]
    assert menus["Tuning"].count("<li>") == 6 and menus["Standard"].count("<li>") == 4
    assert menus["Standard"].count("Tuning budget") == 2  # whose suite names that menu
    assert re.sub(r"<details>.*?</details>", "", tabs, flags=re.DOTALL).count("<li><a") <= 9


@pytest.mark.parametrize("name", ["standard", "quick"])
def test_cost_stands_on_the_first_screen_as_a_column_and_a_figure(name):
    text = (REPORTS / name / "report.html").read_text()
    first = text[text.index('id="overview"') : text.index("</article>")]
    assert 'id="overview-pareto"' in first and "× uniform routing" in first
    assert 'id="whole-pareto"' not in text


def test_a_report_is_published():
    assert FOLDERS
