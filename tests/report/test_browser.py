"""The page in a browser: it says nothing on the console, asks for nothing, and shows what routebench computed."""

import base64
import csv
import io
import json
import math
import re
import shutil
import subprocess

import pytest
from pandas import read_csv as load

from routebench import load_results, statistics
from tests.report.outline import Outline

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
QUIET += ("--disable-component-update", "--disable-sync", "--disable-quic", "--enable-logging=stderr", "--v=0")
TIME = 5000  # ms of the page's own clock, which stands still while it works

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome, which is not installed here")


@pytest.fixture
def opened(written, tmp_path):
    """Opens the page at an address: what it is when all is done. It may not say anything on the console."""

    def open_at(address: str, page=written[1]) -> str:
        command = [BROWSER, *QUIET, f"--user-data-dir={tmp_path}", f"--virtual-time-budget={TIME}", "--dump-dom"]
        done = subprocess.run([*command, f"{page.as_uri()}{address}"], capture_output=True, text=True, check=True)
        assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
        return done.stdout

    return open_at


# Presses everything before the page has opened its numbers, and again when it has; each choice goes to its last.
PRESS_ALL = """
HTMLAnchorElement.prototype.click = () => {};
const press = () => document.querySelectorAll("button, input, select, summary, a[href^='#']").forEach((one, place) => {
  if (one.tagName === "SELECT") one.selectedIndex = one.options.length - 1;
  const Kind = one.tagName === "SELECT" ? Event : MouseEvent;
  one.dispatchEvent(new Kind(one.tagName === "SELECT" ? "change" : "click", { bubbles: true }));
  document.title = `pressed ${place}`;
});
press();
for (const wait of [500, 1500]) setTimeout(press, wait);
"""


def current(page: str) -> list[str]:
    return re.findall(r'<article class="[^"]*\bcurrent\b[^"]*" id="([^"]*)"', page)


def test_an_address_shows_one_page(opened) -> None:
    assert current(opened("")) == ["overview"]
    page = opened("#accuracy-accuracy-table")
    assert current(page) == ["accuracy"]
    assert re.findall(r'<a href="#([^"]*)" aria-current="page"', page) == ["accuracy"]


def test_the_explorer_shows_what_its_address_says(opened) -> None:
    page = opened("#explorer?suite=accuracy&preset=quick&y=accuracy:test&hide=em&only.model=capsnet-small")
    assert current(page) == ["explorer"]
    (drawing,) = re.findall(r'<div id="explorer-drawing">(.*?)</div>', page, flags=re.DOTALL)
    Outline(drawing)
    assert re.findall(r'data-kind="([^"]*)"', drawing) == ["dynamic", "inverted-attention", "none", "random", "uniform"]
    assert "9 means over seeds with 95 % intervals" in page  # T = 1, 2, 3 of two methods, and three without T
    assert re.search(r'aria-pressed="false"><svg [^>]*><path [^>]*></path></svg>em<', page)


@pytest.fixture
def with_script(written, tmp_path):
    """The page with one more script."""

    def write(script: str):
        page = tmp_path / "changed.html"
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", written[1].read_text(encoding="utf-8"))
        page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
        return page

    return write


@pytest.mark.parametrize("address", ["", "#explorer", "#against"])
def test_all_controls_may_be_pressed_at_once(opened, with_script, address) -> None:
    assert re.search(r"<title>pressed [1-9]\d\d", opened(address, with_script(PRESS_ALL)))


# Presses every button for a file, and puts the files of one block into the title.
SAVED = """
const kept = {};
save = (name, kind, text) => (kept[name] = text);
document.querySelectorAll("[data-format]").forEach((button) => button.click());
const ends = ["csv", "md", "tex", "json"].map((end) => `WANTED.${end}`);
document.title = btoa(unescape(encodeURIComponent(JSON.stringify(ends.map((name) => kept[name])))));
"""


@pytest.mark.parametrize("wanted", ["accuracy-table", "gain-over-uniform"])  # a table, and one made when opened
def test_files_are_made_from_the_table(opened, with_script, written, wanted: str) -> None:
    stem = f"{written[0].parts[0].name}-{wanted}"
    (title,) = re.findall(r"<title>([^<]*)</title>", opened("", with_script(SAVED.replace("WANTED", stem))))
    text, markdown, latex, as_json = json.loads(base64.b64decode(title))
    beside = written[1].with_name("report-figures") / f"{stem}.csv"
    texts = {method.exact: method.text for method in written[0].parts[0].methods.values()}
    names = [texts[name] for name in load(beside)["name"]]
    rows = [*csv.DictReader(io.StringIO(text))]
    assert [row["Method"].removesuffix(" (control)") for row in rows] == names
    key = next(key for key in rows[0] if key.startswith("Gain") and "low" not in key and "high" not in key)
    gains = [float(row[key]) if row[key] else math.nan for row in rows]
    assert gains == pytest.approx(list(load(beside)["gain"]), rel=1e-6, nan_ok=True)
    assert f"{key}, low" in rows[0]
    assert [row["Method"] for row in json.loads(as_json)["rows"]] == [row["Method"] for row in rows]
    assert markdown.count("\n|") == latex.count("\\\\\n") + 1 == len(names) + 2
    assert all(mark in latex for mark in (r"\toprule", r"\caption{", r"\end{tabular}"))


def test_its_paired_differences_are_those_of_our_statistics(opened, written) -> None:
    run = "quick~mnist5k~capsnet-small"
    page = opened(f"#against?suite=accuracy&a={run}~inverted-attention~3&b={run}~uniform~none")
    results = load_results(written[0].path)
    results = results[results["cell"].isin(written[0].parts[0].planned["cell"])]

    def by_seed(label: str, metric: str) -> dict[int, float]:
        own = results[(results["label"] == label) & (results["metric"] == metric) & results["epoch"].isna()]
        own = own[own["iterations"].isna() | (own["iterations"] == 3)]
        own = own[own["test_iterations"].isna() | (own["test_iterations"] == own["iterations"])]
        return dict(zip(own["seed"], own["value"], strict=True))

    shown = re.findall(r"<tr><th scope=\"row\">([^<]*)</th>.*?data-mean=\"([^\"]*)\" data-low=\"([^\"]*)\" "
                       r"data-high=\"([^\"]*)\" data-n=\"([^\"]*)\"", page)  # fmt: skip
    assert len(shown) == 3  # the main measures: those of which more, or less, is better
    for title, *numbers in shown:
        metric = title.partition(" (")[0].partition(",")[0].replace(" ", "_")
        found = statistics.paired_difference(by_seed("inverted-attention", metric), by_seed("uniform", metric))
        expected = [found.mean, found.low, found.high, found.n]
        assert [float(number) for number in numbers] == pytest.approx(expected, rel=1e-5, abs=1e-5, nan_ok=True), metric
