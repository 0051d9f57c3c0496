"""A folder of a paper: what it says in words, and the numbers that it prints."""

import csv
import re
from io import StringIO

import pytest

from routebench import published
from routebench.analysis import Verdict, open_folder
from routebench.analysis.judging import every_claim
from routebench.analysis.published_numbers import published_and_measured
from routebench.errors import PluginError, UserError
from routebench.registry import analyses, load_plugin
from tests.analyses.test_qualitative_claims import AS_CLAIMED, accuracy_runs
from tests.plugins.texts import method
from tests.test_suite_terminal import PUBLISHED

CLAIMS = """
from routebench.analysis.judging import PaperClaim, accuracies, difference
from .words import SAYS

def _lead(runs):
    found = {method.label: values for method, values in accuracies(runs).items() if method.iterations in (None, 1)}
    if {"dynamic", "none"} <= {*found}:
        yield difference(found["dynamic"], found["none"]), ("dynamic", "none")

CLAIMS = (PaperClaim(SAYS, "Lab et al. 2030", "points, dynamic T=1 less none: above 0", "accuracy", _lead, "accuracy"),)
"""
SAYS = "One iteration is better than none"
ROW = {
    "id": "LAB-001", "source": "Lab", "citation": "Lab et al. 2030", "where": "table 1", "metric": "test accuracy",
    "unit": "%", "value": "97.10", "data": "mnist5k", "model": "capsnet-small", "method": "dynamic", "iterations": "1",
    "conditions": "as printed, with a comma", "suite": "accuracy", "preset": "quick", "measured": "accuracy",
    "at": "split=test",
}  # fmt: skip

SHARE = ROW | {"id": "LAB-002", "method": "uniform", "iterations": "", "unit": "fraction", "value": "0.98"}
FALSE = SHARE | {"unit": "%", "metric": "test error", "value": "2.0"}


def table(*rows, columns=published.PRINTED):
    """The text of a `published.csv`."""
    text = StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@pytest.fixture
def paper(write, tmp_path):
    """The folder of a paper with a method, a claim and a number."""
    write({
        "lab/__init__.py": "", "lab/words.py": f"SAYS = {SAYS!r}", "lab/claims.py": CLAIMS,
        "lab/published.csv": table(ROW), "lab/mine.py": method("mine"),
    })  # fmt: skip
    return tmp_path / "lab"


def test_its_claims_and_numbers_stand_behind_those_that_ship(paper):
    claims, numbers = every_claim(), published.load_published()
    load_plugin(str(paper))
    (claim,) = every_claim()[len(claims) :]
    assert claim.claim == SAYS
    known = published.load_published()
    assert known[:-1].equals(numbers)
    assert known.iloc[-1][["id", "value", "iterations"]].tolist() == ["LAB-001", 97.1, 1]
    found = published.find("mnist5k", "capsnet-small", "dynamic", 1)
    assert found is not None and found.id == "LAB-001"


def test_a_report_judges_them(paper, call, tmp_path):
    done = call("report", str(PUBLISHED), "-o", "page.html", "--plugin", "lab")
    assert (done.code, done.error) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert SAYS in page and "LAB-001" in page
    assert not [claim for claim in every_claim() if claim.claim == SAYS], "the command has a process of its own"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CLAIM = ()", "no CLAIMS"),
        ("CLAIMS = ['it helps']", "a list"),
        ("CLAIMS = ('it helps',)", "a tuple with a str"),
    ],
)
def test_claims_that_are_none_are_refused_with_their_file(paper, text, told):
    (paper / "claims.py").write_text(text)
    load_plugin(str(paper))
    with pytest.raises(UserError, match=rf"lab/claims\.py: expected CLAIMS = .*, got {told}; give"):
        every_claim()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (table(ROW | {"id": "KIE-001"}), "expected ids .*, got 'KIE-001', as in .*kiefer/published.csv; rename"),
        (table(ROW, ROW), "got 'LAB-001', as in .*lab/published.csv"),
        (table(ROW, columns=["id", "value"]), "got none named source, citation, .*; add them"),
        ("", "got none named id, source"),
        (table(ROW | {"value": "97,1"}), "row 2: expected a number such as 3 in column value, got '97,1'; correct it"),
        (table(ROW | {"value": ""}), "column value, got ''"),
        (table(ROW | {"iterations": "1.5"}), "column iterations, got '1.5'"),
        (table(ROW | {"iterations": "9" * 20}), "column iterations, got '9{20}'"),
        (table(ROW, columns=[*published.PRINTED, "value"]), "expected each column once, got two named value; take"),
        (table(ROW | {"statistic": "median of 3"}), "column statistic: expected 'mean of 5'"),
        (table(ROW | {"relation": "at-least"}), "column relation: expected 'at least' or .* got 'at-least'"),
        (table(ROW | {"any_network": "no"}), "column any_network: expected 'yes' or nothing, got 'no'"),
        (table(ROW | {"uncertainty_kind": "std"}), "expected 'standard deviation' or .* or nothing, got 'std'"),
        (table(ROW | {"unit": "share"}), "column unit: expected '%' or 'fraction' or 'percentage points', got 'share'"),
        (table(ROW | {"unit": ""}), "column unit: .* got ''"),
        (table(ROW | {"unit": "%", "measured": "mean_x|generative_parameters"}), "unit: expected 'count', got '%'"),
        (table(ROW | {"measured": "reconstruction_error"}), "column unit: expected nothing, got '%'"),
        (table(ROW | {"metric": "Test error"}), "column metric: expected 'test error', got 'Test error'"),
        (table(ROW | {"metric": "classification error"}), "expected 'test error', got 'classification error'"),
        (table(ROW | {"metric": "error rate", "measured": "my_own"}), "expected 'test error', got 'error rate'"),
        (table(ROW | {"metric": "Test  Accuracy"}), "column metric: expected 'test accuracy', got 'Test  Accuracy'"),
        (table(ROW).replace('"', ""), "expected 29 cells, got 30; put quotation marks"),
        (table(ROW | {"unit": "fraction"}), "column value: expected a number from 0 to 1 in unit .fraction., got 97"),
        (table(ROW | {"value": "171"}), "column value: expected a number from 0 to 100 in unit '%', got 171; correct"),
        (table(ROW | {"metric": "test error", "value": "-2"}), "column value: expected .* from 0 to 100 .* got -2"),
        (table(ROW | {"measured": "my_own_accuracy", "value": "101"}), "column value: .* from 0 to 100 in unit '%'"),
        (table(ROW | {"value": "9" * 400}), "column value: .* got 9{20}; correct"),
        (table(ROW | {"rival": "LAB-002"}), "id LAB-001, column rival: expected the id of another row, got 'LAB-002'"),
        (table(ROW | {"rival": "LAB-001"}), "column rival: expected the id of another row, got 'LAB-001'; correct it"),
        (table(ROW | {"rival": "LAB-002"}, SHARE), "column rival: expected a row of the same metric and unit"),
        (table(ROW | {"rival": "LAB-002"}, FALSE), "column rival: expected a row of the same metric and unit"),
        (table(ROW | {"uncertainty": "9" * 400}), "column uncertainty: .* from 0 to 100 in unit '%', got 999"),
        (table(ROW | {"uncertainty": "100.1"}), "column uncertainty: .* from 0 to 100 in unit '%', got 100.1"),
        (table(ROW | {"uncertainty": "9" * 400, "measured": ""}), "column uncertainty: .* from 0 to inf in unit"),
        (table(ROW | {"iterations": "0"}), "expected a number such as 3 in column iterations, got '0'; correct it"),
        (table(ROW | {"at": "split=test;split=train"}), "column at: expected each column once, got 'split' twice"),
        (table(ROW | {"at": "split"}), "column at: expected COLUMN=VALUE, such as .* got 'split'; correct it"),
        (table(ROW | {"at": "split=test;iterations=best of 1,x"}), "column at: .* got .iterations=best of 1,x"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_refused_with_its_file(paper, text, told):
    (paper / "published.csv").write_text(text)
    load_plugin(str(paper))
    with pytest.raises(UserError, match=rf"lab/published\.csv.*{told}") as found:
        published.load_published()
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "dB", "metric": "error bound", "measured": "", "suite": "", "preset": ""},  # compared with nothing
        {"unit": "dB", "metric": "reconstruction error", "measured": "reconstruction_error"},
        {"uncertainty_kind": "standard error", "uncertainty": "0.1"},
        {"unit": "fraction", "value": "0.971"},
        {"unit": "count", "metric": "parameters", "measured": "parameters"},
    ],
)
def test_rows_of_other_kinds_are_read(paper, changes):
    (paper / "published.csv").write_text(table(ROW | changes))
    load_plugin(str(paper))
    assert "LAB-001" in set(published.load_published()["id"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"suite": "acuracy"}, "no suite 'acuracy' is known here; did you mean 'accuracy'?"),
        ({"preset": "full|quik"}, "suite accuracy has no preset 'quik'; did you mean 'quick'?"),
        ({"at": "splitt=test"}, "accuracy ran here, and not with this method"),
        ({"settings": "sharpnes=2"}, "accuracy ran here, and not with this method"),
    ],
)
def test_what_no_run_can_have_is_told_for_a_number(paper, changes, reason):
    (paper / "published.csv").write_text(table(ROW | changes))
    load_plugin(str(paper))
    found = published_and_measured(open_folder(PUBLISHED).parts).set_index("id").loc["LAB-001"]
    assert (found["verdict"], found["reason"][: len(reason)]) == (Verdict.NOT_RUN, reason)


def test_an_accuracy_in_fractions_stands_beside_ours_in_per_cent(paper):
    (paper / "published.csv").write_text(table(ROW | {"unit": "fraction", "value": "0.9710"}))
    load_plugin(str(paper))
    found = published.find("mnist5k", "capsnet-small", "dynamic", 1)
    assert found is not None and found.accuracy == pytest.approx(97.1)


def test_bytes_that_are_no_text_are_refused(paper):
    (paper / "published.csv").write_bytes(b"\xff\xfe\x00")
    load_plugin(str(paper))
    with pytest.raises(UserError, match=r"expected a CSV file in UTF-8, got another .*; save it as one"):
        published.load_published()


def test_own_suites_say_that_they_repeat_it(paper, write):
    page = 'page = { title = "Table", paper = "Lab et al. 2030" }\n'
    write({"lab/suites/lab-table.toml": page, "lab/suites/further.toml": ""})
    claim = next(claim for claim in every_claim() if claim.suite == "accuracy")
    load_plugin(str(paper))
    own = every_claim()[-1]
    assert [claim._belongs_elsewhere(suite) for suite in ("lab-table", "further", "lab-other")] == [True, False, False]
    assert not own._belongs_elsewhere("lab-table") and own._belongs_elsewhere("hinton-votes")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 / 0", r"plug-in lab/claims\.py:1 failed to import: ZeroDivisionError"),
        ("CLAIMS = 3", r"lab/claims\.py: expected CLAIMS = .*, got a int"),
        (CLAIMS.replace("difference(", "absent("), r"the test of 'One iteration .* raised NameError: .*absent"),
        (
            CLAIMS.replace('("dynamic", "none")', '"dynamic, none"'),
            r"the test of 'One .* expected what was compared as a tuple of names",
        ),
    ],
    ids=["import", "value", "test", "text"],
)
def test_broken_claims_leave_those_of_others_on_the_page(paper, text, told):
    (paper / "claims.py").write_text(text)
    load_plugin(str(paper))
    runs = accuracy_runs(AS_CLAIMED, loss=0.05)
    found = analyses["qualitative-claims"]((runs,))
    assert set(found.table["verdict"]) > {Verdict.NOT_RUN}
    (note,) = (note for note in found.notes if note.startswith("Left out: "))
    assert re.search(told, note)


def test_an_error_deep_in_a_package_names_its_file(write, tmp_path):
    write(
        {"lab/__init__.py": "", "lab/models/bad.py": "x = 1\nabsent", "lab/routing/mine.py": "from ..models import bad"}
    )
    with pytest.raises(PluginError, match=r"plug-in lab/models/bad\.py:2 failed to import: NameError"):
        load_plugin(str(tmp_path / "lab"))


def test_the_page_of_a_suite_shows_what_the_plugin_says(paper, call, tmp_path):
    (paper / "mine.py").write_text(
        method("mine").replace("    def route", '    title = "Eine Methode"\n\n    def route')
    )
    done = call("suite", "accuracy", "--preset", "smoke", "--method", "mine", "--plugin", "lab", "--jobs", "1")
    assert done.code == 0, done.error
    assert "Eine Methode" in (tmp_path / "results/report.html").read_text()
