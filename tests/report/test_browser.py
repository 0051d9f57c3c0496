"""A page in a browser: it shows what its address says, stands any press, and computes what routebench computed."""

import csv
import io
import json
import math

import pytest
from pandas import read_csv as load

from routebench import load_results, statistics
from routebench.analysis.folder import open_folder
from routebench.declared import declared
from routebench.report import write_report
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records
from tests.report.browsing import ended_after, opened, skip_without_browser
from tests.report.outline import Outline

skip_without_browser()


def current(page) -> list[str]:
    return page.eval_on_selector_all("article.current", "all => all.map(one => one.id)")


def test_an_address_shows_one_page(chromium, written) -> None:
    with opened(chromium, written[1]) as page:
        assert current(page) == ["overview"]
    with opened(chromium, written[1], address="#accuracy-accuracy-table") as page:
        assert current(page) == ["accuracy"]
        assert page.eval_on_selector_all("a[aria-current=page]", "all => all.map(one => one.hash)") == ["#accuracy"]


def test_the_address_of_the_caveats_opens_them(chromium, written) -> None:
    with opened(chromium, written[1], address="#caveats") as page:
        assert current(page) == ["overview"]
        assert page.locator("#caveats li").first.is_visible()


def test_the_explorer_shows_what_its_address_says(chromium, written) -> None:
    address = "#explorer?suite=accuracy&preset=quick&y=accuracy:test&hide=em&only.model=capsnet-small"
    with opened(chromium, written[1], address=address) as page:
        page.locator("#explorer-drawing [data-kind]").first.wait_for(state="attached")
        assert current(page) == ["explorer"]
        Outline(page.inner_html("#explorer-drawing"))
        kinds = page.eval_on_selector_all("#explorer-drawing [data-kind]", "all => all.map(one => one.dataset.kind)")
        assert kinds == ["dynamic", "inverted-attention", "none", "random", "uniform"]
        # T = 1, 2, 3 of two methods, and three without T
        assert "9 means over seeds with 95 % intervals" in page.text_content("#explorer")
        hidden = page.locator("#explorer button[aria-pressed=false]")
        assert [text.strip() for text in hidden.all_text_contents()] == ["EM"]
        assert hidden.locator("svg path").count() == 1


def test_the_strongest_preset_is_shown_first(chromium, tmp_path) -> None:
    for preset in ("mine", "quick"):
        write_folder(tmp_path, made_up_records(seeds=1, preset=preset, failures=False), preset)
    chosen = {"explorer": "explorer.state?.preset", "against": "against.state?.a.split('~')[0]"}
    file = write_report(tmp_path).page
    for tool, found in chosen.items():
        with opened(chromium, file, address=f"#{tool}") as page:
            assert page.wait_for_function(found).json_value() == "mine", tool


# Presses everything; each choice goes to its last. Files are not saved.
PRESS_ALL = """
HTMLAnchorElement.prototype.click = () => {};
window.pressAll = () => {
  const all = [...document.querySelectorAll("button, input, select, summary, a[href^='#']")];
  for (const one of all) {
    if (one.tagName === "SELECT") one.selectedIndex = one.options.length - 1;
    const event = one.tagName === "SELECT" ? new Event("change", { bubbles: true })
      : new MouseEvent("click", { bubbles: true });
    one.dispatchEvent(event);
  }
  return all.length;
};
addEventListener("DOMContentLoaded", () => { window.pressedFirst = pressAll(); });
"""


@pytest.mark.parametrize("address", ["", "#explorer", "#against"])
def test_all_controls_may_be_pressed_before_the_numbers_are_there_and_after(chromium, written, address) -> None:
    with opened(chromium, written[1], address=address, first=PRESS_ALL) as page:
        assert page.evaluate("window.pressedFirst") > 50
        for wait in (500, 1500):  # ms: the page opens its numbers meanwhile
            page.wait_for_timeout(wait)
            assert page.evaluate("pressAll()") > 100


SAVED = """() => {
  const kept = {};
  save = (name, kind, text) => (kept[name] = text);
  document.querySelectorAll("[data-format]").forEach((button) => button.click());
  return kept;
}"""
"""Presses every button for a file, and gives the texts of the files."""


@pytest.mark.parametrize("wanted", ["accuracy-table", "gain-over-uniform"])  # a table, and one made when opened
def test_files_are_made_from_the_table(chromium, written, wanted: str) -> None:
    stem = f"{written[0].parts[0].name}-{wanted}"
    with opened(chromium, written[1]) as page:
        kept = page.evaluate(SAVED)
    text, markdown, latex, as_json = (kept[f"{stem}.{end}"] for end in ("csv", "md", "tex", "json"))
    beside = written[1].with_name("report-figures") / f"{stem}.csv"
    texts = {method.exact: method.text for method in written[0].parts[0].methods.values()}
    names = [texts[name] for name in load(beside)["name"]]
    rows = [*csv.DictReader(io.StringIO(text))]
    assert [row["Method"].removesuffix(" (baseline)") for row in rows] == names
    key = next(key for key in rows[0] if key.startswith("Gain") and "low" not in key and "high" not in key)
    gains = [float(row[key]) if row[key] else math.nan for row in rows]
    assert gains == pytest.approx(list(load(beside)["gain"]), rel=1e-6, nan_ok=True)
    assert f"{key}, low" in rows[0]
    assert [row["Method"] for row in json.loads(as_json)["rows"]] == [row["Method"] for row in rows]
    assert markdown.count("\n|") == latex.count("\\\\\n") + 1 == len(names) + 2
    assert all(mark in latex for mark in (r"\toprule", r"\caption{", r"\end{tabular}"))


SHOWN = """() => [...document.querySelectorAll("#against tr")].filter((row) => row.querySelector("[data-mean]"))
  .map((row) => {
    const { mean, low, high, n } = row.querySelector("[data-mean]").dataset;
    return [row.querySelector("th").textContent, mean, low, high, n];
  })"""
"""The rows of A against B: title, mean difference, limits and number of seeds."""


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """EM with T = 3 has three of five seeds."""
    few = {name: METHODS[name] for name in ("em", "uniform")}
    path = write_folder(tmp_path_factory.mktemp("uneven"), made_up_records(seeds=5, methods=few))
    return open_folder(path), write_report(path).page


@pytest.mark.parametrize(("made", "ours"), [("written", "inverted-attention"), ("uneven", "em")])
@pytest.mark.parametrize("swapped", [False, True])
def test_its_paired_differences_are_those_of_our_statistics(chromium, request, made, ours, swapped) -> None:
    folder, page_of = request.getfixturevalue(made)
    run = "quick~mnist5k~capsnet-small"
    sides = [(ours, f"{run}~{ours}~3"), ("uniform", f"{run}~uniform~none")][:: -1 if swapped else 1]
    (one, a), (other, b) = sides
    with opened(chromium, page_of, address=f"#against?suite=accuracy&a={a}&b={b}") as page:
        page.locator("#against [data-mean]").first.wait_for(state="attached")
        shown = page.evaluate(SHOWN)
        told = page.locator("#against-status").inner_text()
    assert ("Where one lacks seeds" in told) == (made == "uneven")
    results = load_results(folder.path)
    results = results[results["cell"].isin(folder.parts[0].planned["cell"])].dropna(subset="value")

    def by_seed(label: str, metric: str) -> dict[int, float]:
        own = results[(results["label"] == label) & (results["metric"] == metric) & results["epoch"].isna()]
        own = own[own["iterations"].isna() | (own["iterations"] == 3)]
        own = own[own["test_iterations"].isna() | (own["test_iterations"] == own["iterations"])]
        return dict(zip(own["seed"], own["value"], strict=True))

    names = {measure.title: name for name, measure in declared().items()}
    assert len(shown) == 3  # the main measures: those of which more, or less, is better
    for title, *numbers in shown:
        metric = names[title.partition(" (")[0].partition(",")[0]]
        found = statistics.paired_difference(by_seed(one, metric), by_seed(other, metric))
        expected = [found.mean, found.low, found.high, found.n]
        mean, low, high, n = map(float, numbers)
        assert (mean, n) == (pytest.approx(found.mean, rel=1e-5, abs=1e-5), found.n), metric
        if made == "written" or not math.isnan(low):  # nothing speaks for EM, which lost seeds
            assert [mean, low, high, n] == pytest.approx(expected, rel=1e-5, abs=1e-5, nan_ok=True), metric


def test_a_page_that_never_answers_ends_with_its_browser(chromium) -> None:
    from playwright.sync_api import Error

    page = chromium.new_page()
    with ended_after(0.5), pytest.raises(Error, match="closed"):
        page.evaluate("() => { while (true) {} }")
    assert not chromium.is_connected()


def test_the_next_test_has_a_new_browser(chromium) -> None:
    assert chromium.is_connected()
