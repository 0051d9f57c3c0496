"""A page in a headless browser, where it may say nothing and ask for nothing."""

import os
import shutil
import threading
from contextlib import contextmanager
from importlib.util import find_spec

import psutil
import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE = (1400, 1000)


def skip_without_browser():
    """Leaves a module of tests out where the browser or Playwright is missing, unless they are required."""
    missing = "Chromium or Chrome" if BROWSER is None else "playwright" if find_spec("playwright") is None else ""
    if missing and os.environ.get("ROUTEBENCH_BROWSER") != "required":
        pytest.skip(f"needs {missing}, which is not installed here", allow_module_level=True)


@contextmanager
def ended_after(seconds):
    """Ends the browser where it is still asked after so many seconds: `evaluate` has no limit, no signal stops it."""
    timer = threading.Timer(seconds, _end_browsers)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end_browsers():
    for driver in psutil.Process().children():
        for process in driver.children(recursive=True):
            process.kill()


@contextmanager
def opened(chromium, file, size=WIDE, scheme="light", address="", first=""):
    """A page; it may say nothing on the console, raise nothing, and ask for nothing but its own file.

    Args:
        chromium: the fixture.
        file: of the page.
        size: of the window.
        scheme: `light` or `dark`.
        address: what follows the file in the address.
        first: a script that runs before those of the page.
    """
    context = chromium.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.add_init_script(first)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
    try:
        page.goto(f"{file.as_uri()}{address}")
        yield page
        assert said == []
        assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {file.as_uri()}
    finally:
        context.close()
