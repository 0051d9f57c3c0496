"""One page of a folder with two presets, failures and text that tries to break out, for all who only look at it."""

import pytest

from routebench.analysis.folder import open_folder
from routebench.report import write_report
from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import made_up_records
from tests.built import built_once
from tests.report.browsing import BROWSER


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


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()
