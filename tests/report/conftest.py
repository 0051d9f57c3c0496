"""One page of a folder with two presets, failures and text that tries to break out, for all who only look at it."""

import pytest

from routebench.analysis.folder import open_folder
from routebench.report import write_report
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import made_up_records
from tests.built import built_once
from tests.report.browsing import BROWSER, ended_after


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    def write(path):
        records = made_up_records()
        records[-1] |= {"status": "failed", "reason": "RuntimeError: <script>alert('x')</script> & more", "metrics": []}
        smoke = made_up_records(seeds=1, preset="smoke", failures=False)
        write_folder(path, smoke, "smoke", time=1)
        write_folder(path, records, "quick", time=2)
        assert write_report(path).page == path / "report.html"

    path = built_once(tmp_path_factory, "results", write)
    return open_folder(path), path / "report.html"


@pytest.fixture(scope="session")
def text(written) -> str:
    return written[1].read_text(encoding="utf-8")


def pytest_collection_modifyitems(items):
    """A test that loses the browser is tried once more: Chromium has been seen to hang on a page that it shows."""
    for item in items:
        if "chromium" in item.fixturenames:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun="TargetClosedError"))


@pytest.fixture(scope="session")
def browsers():
    """What starts browsers, and those that it has started."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = []
        yield playwright.chromium, started
        for browser in started:
            browser.close()


@pytest.fixture
def chromium(browsers):
    """One browser for all tests; a new one after a test that lost it."""
    kind, started = browsers
    if not started or not started[-1].is_connected():
        started.append(kind.launch(executable_path=BROWSER, args=["--no-sandbox"]))
    with ended_after(120):
        yield started[-1]
