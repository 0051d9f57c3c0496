"""The page in a browser: it says nothing on the console, asks for nothing, and computes what routebench computes."""

import json
import re
import shutil
import subprocess

import pytest

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
    assert re.search(r'aria-pressed="false"><i [^>]*></i>em<', page)


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


def test_its_limits_of_shares_are_those_of_our_statistics(opened, with_script) -> None:
    samples = [[90.0, 99.9, 99.9], [97.0, 97.2], [0.0, 3.0, 1.0], [-1.0, 3.0]]
    asked = f"{samples}.map((one) => meanInterval(one, facts.t, wholeOf('accuracy', '%')))"
    script = f"allValues().then(({{ facts }}) => (document.title = JSON.stringify({asked})));"
    (told,) = re.findall(r"<title>(\[.*?\])</title>", opened("", with_script(script)))
    for one, sample in zip(json.loads(told), samples, strict=True):
        found = statistics.mean_interval(sample, whole=100)
        assert [one["mean"], one["low"], one["high"]] == pytest.approx([found.mean, found.low, found.high], rel=1e-9)


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
    assert len(shown) == 4
    for title, *numbers in shown:
        metric = title.partition(" (")[0].partition(",")[0].replace(" ", "_")
        found = statistics.paired_difference(by_seed("inverted-attention", metric), by_seed("uniform", metric))
        expected = [found.mean, found.low, found.high, found.n]
        assert [float(number) for number in numbers] == pytest.approx(expected, rel=1e-9, nan_ok=True), metric
